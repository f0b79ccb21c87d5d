-- What keeps failing now: as a sentence, and as JSON.
--   $1 bigint  how many
-- scans
SELECT f.sentence, row_to_json(f)::text
FROM tenon.failing f
LIMIT $1::bigint;
