-- The routing keys whose queues in RabbitMQ the living workers have declared, those of workers that have just started left out.
--   $1 bigint  how many at most
SELECT DISTINCT q.queue || '/' || k.kind
  FROM tenon.worker w
 CROSS JOIN LATERAL unnest(w.queues) AS q (queue)
 CROSS JOIN LATERAL unnest(w.kinds) AS k (kind)
 WHERE w.ended_at IS NULL AND w.started_at < clock_timestamp() - interval '10 s'
   AND EXISTS (SELECT FROM tenon.lock l WHERE l.key = w.lock_key AND l.counts)
 LIMIT $1::bigint;
