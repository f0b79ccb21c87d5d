-- Take a lock that says this worker is alive, of a new random key. The lock
-- counts only if whoever logged in may update tenon.worker, whatever SET ROLE said since (tenon.lock).
SELECT k, pg_try_advisory_lock(k), session_user,
       has_any_column_privilege(session_user, 'tenon.worker', 'UPDATE')
FROM tenon.random_key() k;
