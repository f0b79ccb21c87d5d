-- The ordered claim: up to $4 ready tasks, highest priority first, then oldest run_at.
--   $1 uuid    worker, must be alive     $3 text[]   kinds
--   $2 text[]  queues, preferred first   $4 integer  how many
--   $5 bigint[]  from which run_at on, microseconds since 1970, for each queue the priorities 0 to 9: from there
--                or where any worker has got to; negative = from there only; 0 = from the front;
--                NULL = nowhere; {} = over everything
--   $6 boolean   by age: first the priority and queue whose next task is the oldest, so that no low priority starves
WITH ranges AS MATERIALIZED (
    -- one bounded range of task_order (queue, priority, run_at) for each; rows that lie in the future are never read
    SELECT priority, queue, nth, from_us,
           timestamptz 'epoch' + abs(from_us) * interval '1 microsecond' AS from_at,
           CASE WHEN from_us <> 0 OR (SELECT 0 = ALL ($5::bigint[]))
                THEN hashtextextended(concat_ws(' ', queue, priority, $3::text[]), 0) END AS track
    FROM unnest(ARRAY(SELECT unnest(array_fill(q, ARRAY[10])) FROM unnest($2::text[]) AS q),
                CASE WHEN cardinality($5::bigint[]) > 0 THEN $5::bigint[]
                     ELSE array_fill(0::bigint, ARRAY[10 * cardinality($2::text[])]) END)
         WITH ORDINALITY AS f (queue, from_us, nth)
    CROSS JOIN LATERAL (SELECT ((nth - 1) % 10)::smallint AS priority) n
    WHERE from_us IS NOT NULL
      AND EXISTS (SELECT FROM tenon.worker WHERE id = $1::uuid AND state = 'alive')
      AND NOT EXISTS (SELECT FROM tenon.queue p WHERE p.name = f.queue AND p.paused)
), turn AS MATERIALIZED (
    -- From when a shared look reads where the others are until it has told where it ends, no other look for the same
    -- does, unless it has waited for too long (docs/decisions/0023). OFFSET 0: the queues are sorted once.
    SELECT what, CASE WHEN 0 < ANY ($5::bigint[]) AND EXISTS (SELECT FROM ranges) THEN tenon.lock_looks(what) END AS locked
    FROM (SELECT concat_ws(' ', ARRAY(SELECT unnest($2::text[]) ORDER BY 1), $3::text[])) AS s (text)
    CROSS JOIN LATERAL (SELECT hashtext(text) | -2147483648 OFFSET 0) AS w (what)
), ordered AS MATERIALIZED (
    SELECT r.*, CASE WHEN $6::boolean THEN (
               SELECT run_at
               FROM tenon.task
               WHERE queue = r.queue
                 AND priority = r.priority
                 AND run_at >= greatest(r.from_at, timestamptz 'epoch' + o.others_us * interval '1 microsecond')
                 AND run_at <= statement_timestamp()
                 AND start_time IS NULL
                 AND kind = ANY ($3::text[])
               ORDER BY run_at
               LIMIT 1) END AS oldest_at
    FROM ranges r
    CROSS JOIN turn
    CROSS JOIN LATERAL (
        SELECT CASE WHEN $6::boolean AND from_us > 0 AND locked IS NOT NULL THEN tenon.shared_bound(track) END AS others_us
    ) o
    ORDER BY oldest_at, r.priority DESC, r.nth
), running AS MATERIALIZED (
    SELECT ARRAY(SELECT x::xid FROM pg_snapshot_xip(s) AS x) AS others, age(pg_snapshot_xmax(s)::xid) AS next_age,
           pg_current_xact_id_if_assigned()::xid AS own
    FROM pg_current_snapshot() AS s
), c AS MATERIALIZED (
    SELECT t.ctid, t.bytes, t.run_at, r.from_us, r.track, o.others_us
    FROM ordered r
    CROSS JOIN running
    CROSS JOIN LATERAL (SELECT tenon.shared_bound(track) AS others_us) o
    CROSS JOIN LATERAL (
        SELECT ctid, run_at, CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                                  ELSE octet_length(payload::text) END AS bytes
        FROM tenon.task
        WHERE queue = r.queue
          AND priority = r.priority
          AND run_at >= CASE WHEN $6::boolean THEN r.oldest_at
                             WHEN r.from_us <= 0 THEN r.from_at
                             ELSE greatest(r.from_at, timestamptz 'epoch' + o.others_us * interval '1 microsecond') END
          AND run_at <= statement_timestamp()
          AND start_time IS NULL
          -- What another transaction in progress has marked is passed over before its lock is tried: to try costs
          -- several times as much, and where the task was claimed meanwhile, whoever finishes it has to wait for us.
          -- Not so in a look over everything: where several hold a row the mark is no transaction's number.
          AND (xmax = '0' OR xmax = running.own OR cardinality($5::bigint[]) = 0
               OR (age(xmax) > running.next_age AND xmax <> ALL (running.others)))
          AND kind = ANY ($3::text[])
        ORDER BY run_at
        LIMIT $4::integer
        FOR UPDATE SKIP LOCKED
    ) t
    WHERE NOT $6::boolean OR r.oldest_at IS NOT NULL
    LIMIT $4::integer  -- stops the loop, so that only what is taken gets locked
), fits AS MATERIALIZED (
    -- at most 16 MiB, as in claim.sql
    SELECT ctid, run_at, from_us, track, others_us
    FROM (SELECT c.*, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM c) b
    WHERE before < 16777216
), told AS MATERIALIZED (
    -- where a shared look ends, unless that is younger than a second: older tasks may yet be committed
    SELECT n, CASE WHEN locked THEN pg_advisory_unlock(1952804463, what) END
    FROM turn
    CROSS JOIN (
        SELECT count(tenon.tell_bound(track, (date_part('epoch', newest_at) * 1000000)::bigint)) AS n
        FROM (SELECT track, max(run_at) AS newest_at FROM fits WHERE from_us > 0 GROUP BY track) l
        WHERE newest_at < statement_timestamp() - interval '1 second'
    ) t
)
-- What is updated is found by where it lies, as in claim.sql.
UPDATE tenon.task t
SET start_time = clock_timestamp(), worker_id = $1::uuid, claims = t.claims + 1
FROM told
CROSS JOIN LATERAL (SELECT * FROM fits WHERE told.n >= 0 OFFSET 0) fits
WHERE t.ctid = fits.ctid
RETURNING t.id, t.claims, (date_part('epoch', t.start_time) * 1000000)::bigint, t.timeout_ms,
          t.failures, t.max_attempts, t.priority, t.queue, t.kind, t.trace, t.payload,
          1 + t.failures + t.crashes,
          (date_part('epoch', t.run_at) * 1000000)::bigint, coalesce(others_us, 0);
