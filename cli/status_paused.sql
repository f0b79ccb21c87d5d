-- What is paused, by whom, since when and why: as a sentence, and as JSON.
--   $1 bigint  how many
-- scans
SELECT concat(CASE WHEN p.what = 'everything' THEN p.what ELSE 'the ' || p.what || ' ' || p.name END, ' is paused',
              ' by ' || p.paused_by, to_char(p.paused_at, '" since "YYYY-MM-DD HH24:MI:SS "UTC"'), ': ' || p.paused_why),
       row_to_json(p)::text
FROM tenon.paused p
LIMIT $1::bigint;
