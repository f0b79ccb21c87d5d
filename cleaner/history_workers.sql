-- Forget workers that ended a week ago.
DELETE FROM tenon.worker
WHERE id = ANY (ARRAY(SELECT id FROM tenon.worker WHERE ended_at < now() - interval '7 days' LIMIT 1000
                      FOR UPDATE SKIP LOCKED));
