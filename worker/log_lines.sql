-- Stores lines that handlers logged, if log_keep says so. The commit does not wait for the disk.
--   $1 bigint[]   tasks     $2 integer[]  attempts    $3 bigint[]  how long ago the lines came, in microseconds
--   $4 text[]     levels    $5 text[]     messages    $6 text[]    fields, NULL = none
WITH stored AS (
    INSERT INTO tenon.log_line (task_id, at, attempt, level, message, fields)
    SELECT l.task, statement_timestamp() - l.ago_us * interval '1 us', l.attempt, l.level, l.message, tenon.log_fields_kept(l.fields)
    FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::text[], $5::text[], $6::text[]) WITH ORDINALITY
         AS l (task, attempt, ago_us, level, message, fields, place)
    WHERE (SELECT s.log_keep > interval '0' FROM tenon.setting s)
    ORDER BY l.place
)
SELECT set_config('synchronous_commit', 'off', true);
