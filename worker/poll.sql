-- The poll: claims up to $3 ready tasks, and says how far it read for them.
--   $1 uuid    worker, must be alive       $8 integer  rows to read at most, in all
--   $2 text[]  kinds                       $9 bigint   bytes of payload and steps to claim at most, without the last task
--   $3 integer how many                    $10 boolean  also what another transaction has marked, which may be over
--   $11 bigint from how many milliseconds ago on, NULL = from ever: what was due before is left to sweeps
--   $12 bigint[] random keys for the claims: each is, with the id, the fence of one
-- It reads ranges of task_order, one after the other, and no more of them than it takes:
--   $4 text[]  queues   $5 smallint[]  priorities
--   $6 bigint[], $7 bigint[]  from behind this run_at, in microseconds since 1970, and this id; NULL = from the head
-- After the claimed tasks, a row for each range that has one: the last that was read, of whatever kind.
WITH read AS MATERIALIZED (
    SELECT range, t.*, row_number() OVER w AS place, lead(range) OVER w AS next,
           coalesce(sum(bytes) OVER w - bytes < $9::bigint, true) AS fits
    FROM (SELECT queue, priority, from_id, range,  -- OFFSET 0: the moment is computed once for a range, and not for each row
                 greatest(coalesce(timestamptz 'epoch' + from_us * interval '1 microsecond', '-infinity'),
                          statement_timestamp() - $11::bigint * interval '1 millisecond') AS from_at
          FROM unnest($4::text[], $5::smallint[], $6::bigint[], $7::bigint[]) WITH ORDINALITY u (queue, priority, from_us, from_id, range) OFFSET 0) r
    CROSS JOIN LATERAL (
        SELECT ctid, run_at, id, CASE WHEN kind = ANY ($2::text[]) THEN payload_bytes + coalesce(step_bytes, 0) END AS bytes  -- NULL: not ours
        FROM tenon.task
        WHERE queue = r.queue AND priority = r.priority AND run_at <= statement_timestamp()
          AND (run_at, id + 0) > (from_at, from_id)
          AND start_time IS NULL AND coalesce(start_before > statement_timestamp(), true) AND (xmax = '0' OR $10::boolean)
        ORDER BY run_at, id + 0 LIMIT $8::integer
    ) t
    WHERE (SELECT true FROM tenon.paused WHERE what = 'queue' AND name = r.queue) IS NULL  -- no NOT EXISTS: a join would come after the reading
      AND EXISTS (SELECT FROM tenon.worker WHERE id = $1::uuid AND state = 'alive')
    WINDOW w AS (ROWS UNBOUNDED PRECEDING)
    LIMIT $8::integer
), wanted AS MATERIALIZED (  -- its limit stops the reading
    SELECT ctid, place FROM read WHERE bytes IS NOT NULL AND fits LIMIT $3::integer
), full_at AS (
    SELECT CASE WHEN count(*) = $3::integer THEN max(place)
                ELSE (SELECT min(place) - 1 FROM read WHERE NOT fits) END AS place FROM wanted
), locked AS MATERIALIZED (  -- of a row that changed since the read, a version that the update does not see
    SELECT ctid, id FROM tenon.task
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM wanted)) AND start_time IS NULL FOR UPDATE SKIP LOCKED
), claimed AS (  -- the n-th of the ids gets the n-th key: to join them would cost a fifth of it all
    UPDATE tenon.task SET start_time = statement_timestamp(), worker_id = $1::uuid, claims = claims + 1,
        claim_key = ($12::bigint[])[width_bucket(id, ARRAY(SELECT id FROM locked ORDER BY id))]
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM locked))
    RETURNING id, claims, claim_key, timeout_ms, failures, max_attempts, priority, queue, kind, trace, payload, crashes, progress,
              step_count, start_time, created_at, run_at
)
(SELECT id, claims, claim_key, timeout_ms, failures, max_attempts, priority,
        queue, kind, trace, payload, 1 + failures + crashes, progress, CASE WHEN step_count IS NOT NULL THEN tenon.steps_of(id) END,
        (date_part('epoch', start_time - greatest(run_at, created_at)) * 1000000)::bigint, (date_part('epoch', run_at) * 1000000)::bigint,
        NULL::bigint, NULL::boolean  -- in no order, because to sort them here costs a twentieth of the whole
 FROM claimed)
UNION ALL  -- id, run_at; which range; was all claimed that was asked for (true), or $8 rows read (false)? NULL: neither
SELECT id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, (date_part('epoch', run_at) * 1000000)::bigint,
       range, CASE WHEN (SELECT place FROM full_at) IS NOT NULL THEN true WHEN place = $8::integer THEN false END
FROM (SELECT * FROM read LIMIT (SELECT place FROM full_at)) ends
WHERE next IS DISTINCT FROM range OR place = (SELECT place FROM full_at);
