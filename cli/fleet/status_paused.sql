-- What is paused, by whom, since when and why: as a sentence, and as JSON.
--   $1 bigint  how many
-- scans
SELECT s.sentence, (to_jsonb(p) || jsonb_build_object('sentence', s.sentence, 'advice', tenon.pause_advice(p)))::text
FROM tenon.paused p
CROSS JOIN LATERAL (SELECT tenon.pause_sentence(p) AS sentence OFFSET 0) s
ORDER BY array_position('{everything,queue,kind,schedule,limit}', p.what), p.name
LIMIT $1::bigint;
