-- How many living workers serve just what this one serves, itself included.
--   $1 uuid  worker
SELECT count(*)
FROM tenon.worker w
JOIN tenon.worker o ON o.ended_at IS NULL AND o.state = 'alive' AND o.queues = w.queues AND o.kinds = w.kinds
WHERE w.id = $1::uuid;
