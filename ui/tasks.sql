-- Tasks that fit a filter, the newest or the oldest first, each with the beginning of its payload, or the size of one that is
-- stored apart, because to read 50 of 1 MB costs half a second; it reads for 25 ms, even if it finds nothing. In
-- each row, of which there is at least one, where to continue, or NULL: that was all; and the share of all ids that has been read.
--   $1 jsonb  the filter    $2 bigint  only ids behind this one; NULL = all    $3 integer  how many    $4 boolean  the oldest first
WITH f AS MATERIALIZED (
    SELECT * FROM tenon.find($1::jsonb, NULL, $2::bigint, $3::integer, 25, $4::boolean)
)
SELECT f.next, round(f.share::numeric, 3), CASE WHEN t.id IS NOT NULL THEN json_build_object(
           'id', t.id, 'state', t.state, 'kind', t.kind, 'queue', t.queue, 'priority', t.priority, 'attempt', t.attempt,
           'created_at', t.created_at, 'run_at', t.run_at, 'start_time', t.start_time, 'end_time', t.end_time,
           'unique_key', t.unique_key, 'tags', t.tags, 'error', left(tenon.error_line(t.last_error), 200), 'error_class', t.error_class,
           'payload', CASE WHEN pg_column_size(t.payload) <= 8192 THEN left(t.payload::text, 200)
                           ELSE format('(%s)', pg_size_pretty(pg_column_size(t.payload)::bigint)) END)::text END
FROM f
LEFT JOIN LATERAL unnest(f.ids) WITH ORDINALITY i (id, place) ON true
LEFT JOIN LATERAL (SELECT * FROM tenon.tasks WHERE id = i.id LIMIT 1) t ON true
ORDER BY i.place;
