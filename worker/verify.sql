-- What became of claims whose outcome is not known.
--   $1 uuid  worker    $2 bigint[]  ids    $3 bigint[]  keys of the claims    $4 integer[]  claims
-- One row per claim that is still ours ('mine', with the timeout as it is now, which its handler may have extended),
-- was 'cancelled', or has ended ('ended': by the handler itself, or by a statement whose answer was lost; the task may
-- wait for a signal now). No row: the claim is lost. `BETWEEN` as in finish.sql.
SELECT g.id, g.claims,
       CASE WHEN t.id IS NOT NULL THEN 'mine'
            WHEN EXISTS (SELECT FROM tenon.history f WHERE f.id BETWEEN g.id AND g.id AND f.outcome = 'cancelled') THEN 'cancelled'
            ELSE 'ended' END,
       t.timeout_ms
FROM unnest($2::bigint[], $3::bigint[], $4::integer[]) AS g (id, key, claims)
LEFT JOIN tenon.task t ON t.id BETWEEN g.id AND g.id AND t.claim_key = g.key
WHERE t.id IS NOT NULL
   OR EXISTS (SELECT FROM tenon.history f
              WHERE f.id BETWEEN g.id AND g.id AND f.claims = g.claims AND f.worker_id = $1::uuid)
   OR EXISTS (SELECT FROM tenon.dead d
              WHERE d.id BETWEEN g.id AND g.id AND d.claims = g.claims AND d.worker_id = $1::uuid)
   OR EXISTS (SELECT FROM tenon.task b
              WHERE b.id BETWEEN g.id AND g.id AND b.claims = g.claims AND b.wanted_at IS NOT NULL);
