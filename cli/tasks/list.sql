-- A page of tasks that fit a filter, the newest or the oldest first; what is read is bounded by time. In each row, of which there is at
-- least one, where to continue, or NULL: that was all; and how much has been read of all ids, in percent.
--   $1 jsonb  the filter    $2 bigint  only ids behind this one; NULL = all    $3 integer  how many    $4 boolean  the oldest first
WITH f AS MATERIALIZED (
    SELECT * FROM tenon.find($1::jsonb, NULL, $2::bigint, $3::integer, 500, $4::boolean)
)
SELECT f.next, floor(100 * f.share)::integer, t.id, t.state, t.kind, t.queue, t.priority,
       to_char(coalesce(t.end_time, t.start_time, t.run_at), 'YYYY-MM-DD HH24:MI:SS'), t.attempt, left(tenon.error_line(t.last_error), 60),
       row_to_json(t)::text
FROM f
LEFT JOIN LATERAL unnest(f.ids) WITH ORDINALITY i (id, place) ON true
LEFT JOIN LATERAL (SELECT * FROM tenon.tasks WHERE id = i.id LIMIT 1) t ON true
ORDER BY i.place;
