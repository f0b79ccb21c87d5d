-- Up to where the statement before it in this transaction read, in microseconds since 1970, and in how many
-- milliseconds the next delayed task is due; NULL when there is none. Index: task_delayed.
SELECT (extract(epoch FROM now()) * 1000000)::bigint AS now_us,
       (SELECT ceil(extract(epoch FROM run_at - now()) * 1000)::bigint
        FROM tenon.task
        WHERE delayed
          AND run_at > now()
        ORDER BY run_at
        LIMIT 1) AS next_ms;
