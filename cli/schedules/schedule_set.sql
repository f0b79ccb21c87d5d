-- Make or change a schedule; the next tick, for people and as JSON.
--   $1 name   $2 cron, or $3 bigint how often in milliseconds   $4 kind   $5 jsonb payload   $6 zone   $7 catch_up   $8 overlap
--   $9 queue   $10 integer priority   $11 integer max_attempts   $12 bigint timeout in milliseconds; these four may be NULL
SELECT to_char(n, 'YYYY-MM-DD HH24:MI:SS "UTC"'), json_build_object('name', $1::text, 'next_at', n)
FROM tenon.set_schedule($1, $2, $3::bigint * interval '1 ms', $4, $5::jsonb, $6, $7, $8, $9, $10::integer, $11::integer,
                        $12::bigint * interval '1 ms') n;
