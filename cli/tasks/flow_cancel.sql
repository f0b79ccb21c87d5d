-- Cancel all tasks of a flow that have not ended (docs/sql.md, tenon.cancel_flow): a sentence, and a JSON object.
--   $1 bigint  the flow
SELECT format('%s tasks of flow %s cancelled', n, $1::bigint), json_build_object('flow', $1::bigint, 'cancelled', n)::text
FROM tenon.cancel_flow($1::bigint) n;
