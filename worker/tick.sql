-- Once a second: does the worker's row still say that it may claim, and which queues are paused?
--   $1 uuid  worker    $2 text[] queues
SELECT (SELECT state FROM tenon.worker WHERE id = $1::uuid),
       coalesce((SELECT array_to_string(array_agg(name), ',') FROM tenon.queue WHERE paused AND name = ANY ($2::text[])), '');
