-- The slots that queues want, and the workers that serve one of them now.
--   $1 text[]  queues    $2 bigint  how soon tasks are to start, in milliseconds
SELECT (SELECT sum(tenon.demand(q, $2::bigint * interval '1 ms')) FROM unnest($1::text[]) q),
       (SELECT count(*) FROM tenon.worker WHERE ended_at IS NULL AND state = 'alive' AND queues && $1::text[]);
