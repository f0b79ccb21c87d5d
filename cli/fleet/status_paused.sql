-- What is paused, by whom, since when and why: as a sentence, and as JSON.
--   $1 bigint  how many
-- scans
SELECT p.sentence, row_to_json(p)::text
FROM tenon.paused p
LIMIT $1::bigint;
