-- A batch has all of its tasks (docs/sql.md, tenon.close): a sentence, and a JSON object.
--   $1 bigint  the flow
SELECT format(CASE WHEN was_open THEN 'flow %s closed' ELSE 'flow %s was not open' END, $1::bigint),
       json_build_object('flow', $1::bigint, 'closed', was_open)::text
FROM tenon.close($1::bigint) was_open;
