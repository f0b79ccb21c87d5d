SELECT e.ids, coalesce($3::text, tenon.queue_of($1::text))
  FROM tenon.enqueue_many($1::text, $2::jsonb[], queue => $3::text, priority => $4::integer,
                          run_at => $5::timestamptz, delay => $6::bigint * interval '1 millisecond',
                          unique_keys => $7::text[], max_attempts => $8::integer,
                          timeout => $9::bigint * interval '1 millisecond', trace => $10::text,
                          notify => $11::boolean, announced => $12::boolean) AS e (ids);
