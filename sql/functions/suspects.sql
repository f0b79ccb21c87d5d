-- Suspects: tasks whose next crash would be their last run alone.

-- The suspects that a worker of these queues and kinds may run now.
CREATE OR REPLACE FUNCTION tenon.suspects_due(queues text[], kinds text[]) RETURNS TABLE (id bigint, queue text, kind text, priority smallint, due_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.id, t.queue, t.kind, t.priority, s.due_at
      FROM tenon.suspect s CROSS JOIN LATERAL (SELECT * FROM tenon.task t WHERE t.id = s.task_id OFFSET 0) t
     WHERE s.alone AND s.claims IS NULL AND s.due_at <= statement_timestamp()
       AND t.start_time IS NULL AND t.wanted_at IS NULL AND coalesce(t.start_before > statement_timestamp(), true)
       AND t.queue = ANY ($1) AND t.kind = ANY ($2)
       AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'queue' AND p.name = t.queue)
$$;

-- May this worker run suspects now? If so, it has the turn until it gives it back (alone_since) or has ended. Of the workers
-- that serve the queue and kind of a suspect at most half have the turn, but at least one may; a worker that has it may ask
-- again. Turns are given one at a time, under the lock of the setting's row.
CREATE OR REPLACE FUNCTION tenon.take_turn(worker uuid, queues text[], kinds text[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF NOT EXISTS (SELECT FROM tenon.suspects_due(queues, kinds)) THEN
        RETURN false;
    END IF;
    PERFORM FROM tenon.setting FOR UPDATE SKIP LOCKED;  -- by itself: the next statement sees what was committed meanwhile
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE tenon.worker w SET alone_since = clock_timestamp()
     WHERE w.id = worker AND w.state = 'alive' AND EXISTS (
           SELECT FROM (SELECT DISTINCT d.queue, d.kind FROM tenon.suspects_due(queues, kinds) d) d
            WHERE (SELECT count(*) FILTER (WHERE o.alone_since IS NOT NULL AND o.id <> worker) < greatest(1, count(*) / 2)
                     FROM tenon.worker o
                    WHERE o.ended_at IS NULL AND o.state = 'alive' AND d.queue = ANY (o.queues) AND d.kind = ANY (o.kinds)));
    RETURN FOUND;
END $$;

-- Claims one suspect for a worker that has the turn and runs nothing. (`infinity` is checked again once the row is locked:
-- another worker may have run it meanwhile, and it may no longer be a suspect.) As in worker/claim.sql, one reading of the clock
-- says whether the task may start and when it does.
CREATE OR REPLACE FUNCTION tenon.claim_alone(worker uuid, queues text[], kinds text[]) RETURNS SETOF tenon.task
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH first AS MATERIALIZED (
        SELECT t.id, d.due_at
          FROM tenon.suspects_due($2, $3) d JOIN tenon.task t ON t.id = ANY (ARRAY[d.id])
         WHERE t.start_time IS NULL AND t.run_at = 'infinity' AND t.wanted_at IS NULL
           AND EXISTS (SELECT FROM tenon.worker w WHERE w.id = $1 AND w.state = 'alive' AND w.alone_since IS NOT NULL)
         ORDER BY d.priority DESC, d.due_at, d.id LIMIT 1 FOR UPDATE OF t SKIP LOCKED
    ), claimed AS (
        UPDATE tenon.task t
           SET start_time = statement_timestamp(), claim_key = tenon.random_key(), worker_id = $1, claims = t.claims + 1, run_at = f.due_at,
               delayed = false
          FROM first f WHERE t.id = ANY (ARRAY[f.id])
        RETURNING t.*
    ), marked AS (
        UPDATE tenon.suspect s SET claims = c.claims FROM claimed c WHERE s.task_id = ANY (ARRAY[c.id])
    )
    SELECT * FROM claimed
$$;
