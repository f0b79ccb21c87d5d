-- A cleaner asks something every second: one that is frozen loses
-- its session, and another leads. It leads by the lock of a random key, which counts only if whoever logged in may
-- update tenon.worker (tenon.lock).
SELECT (tenon.settings()).exchange, set_config('idle_session_timeout', '30 s', false),
       k, pg_try_advisory_lock(k), session_user, has_any_column_privilege(session_user, 'tenon.worker', 'UPDATE')
FROM tenon.random_key() k;
