-- finish.sql without a history (tenon.setting.history_keep = 0): the tasks leave the hot table, and that is all.
-- Parameters and result as there; the replies are not used.
DELETE FROM tenon.task t
USING unnest($2::bigint[], $3::integer[], $4::bigint[], $5::jsonb[]) AS f (id, claims, start_us, reply)
WHERE t.id BETWEEN f.id AND f.id
  AND t.claims = f.claims
  AND t.worker_id = $1::uuid
  AND t.start_time = timestamptz 'epoch' + f.start_us * interval '1 microsecond'
RETURNING t.id;
