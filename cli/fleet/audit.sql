-- What operators did, the newest first.
--   $1 bigint  only what is older than this; NULL = all    $2 integer  how many
SELECT a.id, to_char(a.at, 'YYYY-MM-DD HH24:MI:SS'), a.who, a.act, a.n, NULLIF(a.skipped, 0), a.what::text,
       row_to_json(a)::text
FROM tenon.audit a
WHERE a.id < coalesce($1::bigint, 9223372036854775807)
ORDER BY a.id DESC
LIMIT $2::integer;
