-- Why a task is in its state, in a sentence.

-- The handlers of a worker whose first child has not said hello yet, from its column `starting`: since when, and what the
-- child does: "for 12 s: importing shop".
CREATE OR REPLACE FUNCTION tenon.starting_of(starting text, OUT kinds text[], OUT text text) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_to_array(split_part(line, ': ', 1), ','),
           format('for %s s%s', greatest(round(extract(epoch FROM clock_timestamp()) - split_part(h.how, ' ', 1)::bigint / 1000.0), 0),
                  ': ' || nullif(substr(h.how, strpos(h.how, ' ') + 1), ''))
      FROM unnest(string_to_array(starting, E'\n')) AS line
     CROSS JOIN LATERAL (SELECT substr(line, strpos(line, ': ') + 2)) AS h (how)
$$;

-- How many live workers serve the queue and kind? `backs_off`: the handler starts on none of them; names one, and why. `starts`:
-- no worker has a child that is ready; names one where a child is starting, and for how long. `fails`: on all of them transactions
-- with PostgreSQL keep failing; names one, and why.
CREATE OR REPLACE FUNCTION tenon.handled(queue text, kind text, OUT workers bigint, OUT backs_off text, OUT starts text, OUT fails text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*), CASE WHEN bool_and(b.why IS NOT NULL)
                          THEN min(format('on worker %s (%s, pid %s): %s', w.id, w.host, w.pid, b.why)) END,
           CASE WHEN bool_and(b.why IS NOT NULL OR s.text IS NOT NULL)
                THEN min(format('%s, on worker %s (%s, pid %s)', s.text, w.id, w.host, w.pid)) END,
           CASE WHEN bool_and(w.rounds_failing IS NOT NULL) THEN min(format('%s, pid %s: %s', w.host, w.pid, w.rounds_failing)) END
      FROM tenon.worker w
      LEFT JOIN LATERAL (SELECT o.text FROM tenon.starting_of(w.starting) o WHERE $2 = ANY (o.kinds)) s ON true
      LEFT JOIN LATERAL (
           SELECT substr(line, strpos(line, ': ') + 2) AS why
             FROM unnest(string_to_array(w.backing_off, E'\n')) AS line
            WHERE $2 = ANY (string_to_array(split_part(line, ': ', 1), ','))) b ON true
     WHERE w.ended_at IS NULL AND w.state = 'alive' AND $1 = ANY (w.queues) AND $2 = ANY (w.kinds)
$$;

-- Without a leading cleaner no blocked task continues and no task is recovered.
CREATE OR REPLACE FUNCTION tenon.cleaner_leads() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM tenon.setting s JOIN tenon.lock k ON k.key = s.leader_key AND k.counts)
$$;

-- Which of these chores keep failing: a sentence without its full stop. NULL: none.
CREATE OR REPLACE FUNCTION tenon.failing_chores(VARIADIC chores text[]) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(f.sentence, '; ')
      FROM tenon.failing f WHERE f.what = 'chore' AND f.name = ANY (chores)
$$;

-- Why the cleaner does not do these chores: the end of a sentence.
CREATE OR REPLACE FUNCTION tenon.without_cleaner(VARIADIC chores text[]) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN tenon.cleaner_leads() THEN coalesce(', but ' || tenon.failing_chores(VARIADIC chores), '')
                ELSE ', but none leads; start one: tenon cleaner' END
$$;

-- The slots of the workers that would take the task; how many tasks run on them, counted among the first in their queues; and which
-- other kinds they take that are not paused.
CREATE OR REPLACE FUNCTION tenon.slots_for(queue text, kind text, OUT slots bigint, OUT running bigint, OUT kinds text[])
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_bitmapscan = off SET jit = off AS $$
    WITH those AS MATERIALIZED (
        SELECT w.id, w.slots, w.queues, w.kinds FROM tenon.worker w
         WHERE w.ended_at IS NULL AND w.state = 'alive' AND $1 = ANY (w.queues) AND $2 = ANY (w.kinds)
    ), total AS MATERIALIZED (
        SELECT coalesce(sum(h.slots), 0)::bigint AS slots FROM those h
    )
    SELECT n.slots,
           (SELECT count(*) FROM those h JOIN (
                SELECT o.worker_id
                  FROM (SELECT DISTINCT u.name FROM those o CROSS JOIN unnest(o.queues) u (name) ORDER BY u.name LIMIT 20) q
                 CROSS JOIN generate_series(9, 0, -1) p (priority)
                 CROSS JOIN LATERAL (
                       SELECT t.worker_id FROM tenon.task t
                        WHERE t.queue = q.name AND t.priority = p.priority AND t.run_at <= statement_timestamp()
                        ORDER BY t.run_at LIMIT (SELECT least(x.slots, 1000) + 100 FROM total x)) o
                 LIMIT 10000) r ON r.worker_id = h.id),
           ARRAY(SELECT DISTINCT k.name FROM those o CROSS JOIN unnest(o.kinds) k (name)
                  WHERE NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'kind' AND p.name = k.name))
      FROM total n
$$;

-- How many ready tasks of its queue and these kinds are before this one, and how many of them by their priority. `most` tasks of
-- any kind are read; `more`: there are more. Of each priority two ranges of task_order are read, which end at the task, or now.
-- (One range up to a row of both columns would read all rows with the same run_at.)
CREATE OR REPLACE FUNCTION tenon.ahead_of(t tenon.task, kinds text[], most integer, OUT n bigint, OUT higher bigint, OUT more boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_bitmapscan = off SET jit = off AS $$
    SELECT count(*) FILTER (WHERE a.kind = ANY ($2)), count(*) FILTER (WHERE a.kind = ANY ($2) AND a.priority > ($1).priority), count(*) = $3
      FROM (SELECT p.priority, o.kind
              FROM generate_series(9, ($1).priority, -1) AS p (priority)
             CROSS JOIN LATERAL (
                   SELECT CASE WHEN p.priority > ($1).priority THEN statement_timestamp() ELSE ($1).run_at END AS run_at OFFSET 0) e
             CROSS JOIN LATERAL (
                   (SELECT o.kind FROM tenon.task o
                     WHERE o.queue = ($1).queue AND o.priority = p.priority AND o.start_time IS NULL AND o.run_at < e.run_at
                     ORDER BY o.run_at LIMIT $3)
                   UNION ALL
                   (SELECT o.kind FROM tenon.task o
                     WHERE o.queue = ($1).queue AND o.priority = p.priority AND o.start_time IS NULL AND o.run_at = e.run_at
                       AND o.id + 0 < ($1).id
                     ORDER BY o.id + 0 LIMIT $3)) o
             LIMIT $3) a
$$;

CREATE OR REPLACE FUNCTION tenon.time_text(moment timestamptz) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
        || format(CASE WHEN moment > clock_timestamp() THEN ' (in %s)' ELSE ' (%s ago)' END,
                  make_interval(secs => round(abs(extract(epoch FROM moment - clock_timestamp())))))
$$;

-- 'behind 3 tasks', or 'behind at least 3 tasks'.
CREATE OR REPLACE FUNCTION tenon.behind_text(n bigint, more boolean) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('behind %s%s %s', CASE WHEN more THEN 'at least ' END, n, CASE n WHEN 1 THEN 'task' ELSE 'tasks' END)
$$;

-- Why no worker would take a ready task, however many slots are free. NULLs: one would.
CREATE OR REPLACE FUNCTION tenon.why_not_taken(t tenon.task, OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p tenon.paused;
    h record := tenon.handled(t.queue, t.kind);
BEGIN
    sentence := tenon.copied();
    IF sentence IS NOT NULL THEN
        code := 'copied';
        sentence := format('No worker claims tasks here: %s.', sentence);
        advice := 'if tasks should run in this copy: tenon adopt';
        RETURN;
    END IF;
    SELECT * INTO p FROM tenon.paused v
     WHERE v.what = 'everything' OR v.what = 'queue' AND v.name = t.queue OR v.what = 'kind' AND v.name = t.kind
     ORDER BY array_position('{everything,queue,kind}', v.what) LIMIT 1;
    IF FOUND THEN
        code := p.what || '_paused';
        sentence := tenon.pause_sentence(p);
        sentence := upper(left(sentence, 1)) || substr(sentence, 2) || '.';
        advice := tenon.pause_advice(p);
    ELSIF h.workers = 0 THEN
        code := 'no_worker';
        sentence := format('No living worker handles the kind %s in the queue %s; %s.', t.kind, t.queue,
            (SELECT CASE count(*) WHEN 0 THEN 'no worker is alive'
                    ELSE 'the living workers serve ' || left(string_agg(format('%s/%s%s', array_to_string(w.queues, ','), array_to_string(w.kinds, ','),
                                                                    CASE w.state WHEN 'draining' THEN ' (draining)' END), ' and ' ORDER BY w.started_at), 300) END
               FROM tenon.worker w WHERE w.ended_at IS NULL AND w.state IN ('alive', 'draining')));
        advice := format('start one: tenon worker --queues %s --handler ''%s=...''', t.queue, t.kind);
    ELSIF h.backs_off IS NOT NULL THEN
        code := 'handler_backs_off';
        sentence := format('The handler of the kind %s does not start and backs off %s.', t.kind, h.backs_off);
        advice := 'fix the handler; the worker retries by itself';
    ELSIF h.fails IS NOT NULL THEN
        code := 'worker_fails';
        sentence := format('No worker that handles the kind %s can claim it: transactions with PostgreSQL keep failing on %s.', t.kind, h.fails);
        advice := 'fix the error that PostgreSQL reports; the workers retry by themselves';
    ELSIF h.starts IS NOT NULL THEN
        code := 'handler_starting';
        sentence := format('It waits for a child of its handler, which has been starting %s.', h.starts);
        advice := 'nothing, if this is normal for the application; the limit is start_limit of the handlers file, or --start-limit';
    END IF;
END $$;

-- What holds back a ready task. `code` as in `tenon show --json`.
CREATE OR REPLACE FUNCTION tenon.why_ready(t tenon.task, OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
    a record;
BEGIN
    SELECT * INTO code, sentence, advice FROM tenon.why_not_taken(t);
    IF code IS NOT NULL THEN
        RETURN;
    END IF;
    s := tenon.slots_for(t.queue, t.kind);
    a := tenon.ahead_of(t, s.kinds, 10000);
    code := 'no_free_slot';
    sentence := format('It has been ready since %s and waits for a free slot, %s, %s of them with a higher priority%s.',
                       tenon.time_text(t.run_at), tenon.behind_text(a.n, a.more), a.higher,
                       CASE WHEN s.running >= s.slots THEN format('; the workers that serve it run %s tasks in %s slots', s.running, s.slots) END);
    advice := concat(CASE WHEN s.running < s.slots AND a.n = 0 THEN 'nothing, if it starts within a second; otherwise run tenon doctor, ' END,
                     'add slots or workers', CASE WHEN a.n > 0 AND t.priority < 9 THEN format(', or tenon set %s --priority 9', t.id) END);
END $$;

-- Of these tasks one that is ready, and that no worker takes. NULLs: none.
CREATE OR REPLACE FUNCTION tenon.why_one_of(ids bigint[], OUT sentence text, OUT advice text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format(' Of task %s: %s', t.id, y.sentence), y.advice
      FROM tenon.task t CROSS JOIN LATERAL tenon.why_not_taken(t) y
     WHERE t.id = ANY ($1) AND t.start_time IS NULL AND t.wanted_at IS NULL AND t.run_at <= clock_timestamp() AND y.code IS NOT NULL
     ORDER BY t.id LIMIT 1
$$;

-- The parents that a task waits for: three of them, those that did not end well first. NULLs: none.
CREATE OR REPLACE FUNCTION tenon.why_parents(t tenon.task, OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p record;
    y record;
    root bigint;
BEGIN
    SELECT count(*) AS n, array_agg(w.parent ORDER BY w.place) FILTER (WHERE v.end_time IS NULL AND v.kind IS NOT NULL) AS live, min(w.parent) FILTER (WHERE w.bad) AS bad,
           bool_or(w.bad AND v.kind IS NULL AND w.place <= 3) AS gone,
           string_agg(format('%s (%s)', w.parent, coalesce(v.kind || ', ' || v.state, w.state || ', and gone', 'gone')), ', ' ORDER BY w.place)
               FILTER (WHERE w.place <= 3) AS some
      INTO p
      FROM (SELECT f.parent, m.state, m.state <> 'done' AS bad, row_number() OVER (ORDER BY m.state <> 'done' DESC NULLS LAST, f.parent) AS place
              FROM tenon.flow_wait f LEFT JOIN tenon.flow_task m ON m.id = f.parent WHERE f.task = t.id) w
      LEFT JOIN LATERAL (SELECT k.kind, k.state, k.end_time FROM tenon.tasks k WHERE k.id = w.parent AND w.place <= 3 LIMIT 1) v ON true;
    IF p.n > 0 THEN
        SELECT * INTO y FROM tenon.why_one_of(p.live);
        IF p.bad IS NULL THEN
            root := tenon.bad_ancestor(t.id);
        END IF;
        code := 'waits_for_parents';
        sentence := format('It waits for %s: %s%s.%s', CASE p.n WHEN 1 THEN 'a parent' ELSE p.n || ' parents' END, p.some,
                           CASE WHEN p.n > 3 THEN ' and others' END, CASE WHEN root IS NULL THEN y.sentence ELSE format(' Before them, task %s did not end well.', root) END);
        advice := CASE WHEN p.gone THEN format('tenon cancel %s, because that parent can no longer be retried', t.id)
                       WHEN p.bad IS NOT NULL THEN format('tenon retry %s, or tenon cancel %s', p.bad, t.id)
                       WHEN root IS NOT NULL THEN format('see tenon why %s; then tenon retry %s, or tenon flow cancel %s', root, root, t.flow)
                       WHEN y.advice IS NOT NULL THEN y.advice
                       WHEN p.live IS NOT NULL THEN format('tenon why %s explains that parent, tenon flow %s shows the whole flow', p.live[1], t.flow)
                       ELSE format('nothing; tenon flow %s shows the whole flow', t.flow) END;
    END IF;
END $$;

-- Why a task is a suspect. NULL: it is not one.
CREATE OR REPLACE FUNCTION tenon.why_suspected(t tenon.task) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('It is suspected: it has crashed %s %s%s; %s', s.crashes, CASE s.crashes WHEN 1 THEN 'time' ELSE 'times' END,
                  CASE WHEN s.crashes > 1 THEN ' in a row' END,
                  CASE WHEN s.claims IS NULL THEN 'it runs alone next' ELSE 'it runs alone now' END)
      FROM tenon.suspect s WHERE s.task_id = ($1).id AND s.alone
$$;

-- What a suspect waits for that its limits have released: its time, a worker, or a worker's turn.
CREATE OR REPLACE FUNCTION tenon.why_alone(t tenon.task, OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s tenon.suspect;
    ahead bigint;
BEGIN
    SELECT * INTO s FROM tenon.suspect x WHERE x.task_id = t.id;
    SELECT y.sentence, y.advice INTO sentence, advice FROM tenon.why_not_taken(t) y;
    code := 'suspected';
    IF sentence IS NULL AND s.due_at > clock_timestamp() THEN
        sentence := format('It is due at %s.', tenon.time_text(s.due_at));
        advice := format('to run it now: tenon set %s --run-at now', t.id);
    ELSIF sentence IS NULL THEN
        ahead := (SELECT count(*) FROM tenon.suspect o WHERE o.alone AND o.claims IS NULL AND o.due_at < s.due_at);
        sentence := format('It waits until the worker whose turn it is to run suspects has no other running task%s.',
                           CASE WHEN ahead > 0 THEN format('; suspects before it: %s', ahead) END);
        advice := 'nothing; if many tasks are suspects, fix what crashes, or start more workers';
    END IF;
    sentence := concat(tenon.why_suspected(t), ', without other tasks in its worker, so that a crash can only be its own (the last crash: ',
                       left(tenon.error_line(t.last_error), 200), '). ', sentence);
END $$;

-- What a blocked task waits for: its parents, then its limits, or a signal.
CREATE OR REPLACE FUNCTION tenon.why_waiting(t tenon.task, OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    w tenon.waiting;
BEGIN
    SELECT * INTO code, sentence, advice FROM tenon.why_parents(t);
    IF code IS NULL AND isfinite(t.wanted_at) THEN  -- else it waits for a signal first
        SELECT * INTO code, sentence, advice FROM tenon.why_limited(t.id, t.limit_keys);
    END IF;
    IF code IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT * INTO w FROM tenon.waiting x WHERE x.task_id = t.id;
    IF FOUND THEN
        code := 'waits_for_signal';
        sentence := format('It is blocked: it waits for the signal %s, until %s.', w.signal, tenon.time_text(w.until));
        advice := format('tenon signal %s sends it', quote_literal(w.signal));
        RETURN;
    END IF;
    code := 'blocked';
    sentence := 'It is blocked, but no parent, limit or signal is recorded that it waits for.';
    advice := 'a cleaner unblocks it within a second';
END $$;

-- As above, and also whether any limit would release it.
CREATE OR REPLACE FUNCTION tenon.why_blocked(t tenon.task, OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    failing text;
BEGIN
    SELECT * INTO code, sentence, advice FROM tenon.why_waiting(t);
    IF NOT tenon.cleaner_leads() THEN
        sentence := sentence || ' No cleaner leads, and without one blocked tasks stay blocked.';
        advice := 'start one: tenon cleaner; then ask again';
        RETURN;
    END IF;
    failing := tenon.failing_chores('settle');
    IF failing IS NOT NULL THEN
        sentence := format('%s Blocked tasks stay blocked until a cleaner can settle: %s.', sentence, failing);
        advice := 'fix the error that PostgreSQL reports; the cleaner retries by itself';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenon.why_unfinished(t tenon.task, OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    w tenon.worker;
    starts text;
BEGIN
    IF t.start_time IS NOT NULL THEN
        SELECT * INTO w FROM tenon.worker r WHERE r.id = t.worker_id;
        starts := (SELECT s.text FROM tenon.starting_of(w.starting) s WHERE w.ended_at IS NULL AND t.kind = ANY (s.kinds));
        code := CASE WHEN starts IS NULL THEN 'running' ELSE 'handler_starting' END;
        sentence := format(CASE WHEN starts IS NULL THEN 'It runs on %s%s, claimed %s, and must end by %s.'
                                ELSE format('It does not run yet: %%s%%s, claimed it %%s, and a child of its handler has been starting there %s.', replace(starts, '%', '%%')) END, coalesce(w.host, 'an unknown worker'), ', pid ' || w.pid,
                           tenon.time_text(t.start_time), tenon.time_text(t.start_time + t.timeout_ms * interval '1 ms'));
        advice := CASE WHEN w.ended_at IS NOT NULL OR w.id IS NULL
                       THEN 'that worker is gone; a cleaner requeues the task within a minute' || tenon.without_cleaner('recover')
                       ELSE format('tenon cancel %s stops it', t.id) END;
        sentence := concat_ws(' ', sentence, tenon.why_suspected(t) || '.');
    ELSIF t.start_before <= clock_timestamp() THEN
        code := 'ended';
        sentence := format('It has expired: it did not start before %s.', tenon.time_text(t.start_before));
        advice := 'a cleaner moves it to the history within a second' || tenon.without_cleaner('settle');
    ELSIF t.wanted_at IS NOT NULL THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_blocked(t);
        sentence := concat_ws(' ', sentence, tenon.why_suspected(t) || '.',
                              CASE WHEN t.failures > 0 THEN format('It has failed before (%s of %s): %s.', t.failures, t.max_attempts,
                                                                   left(tenon.error_line(t.last_error), 200)) END);
    ELSIF t.run_at = 'infinity' THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_alone(t);
    ELSIF t.run_at <= clock_timestamp() THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_ready(t);
    ELSE
        code := 'not_due';
        sentence := format('It is due at %s%s.', tenon.time_text(t.run_at),
                           CASE WHEN t.failures > 0 THEN format(', after failure %s of %s: %s', t.failures, t.max_attempts, left(tenon.error_line(t.last_error), 200))
                                WHEN t.crashes > 0 THEN format(', after a crash: %s', left(tenon.error_line(t.last_error), 200)) END);
        advice := format('to run it now: tenon run-now %s', t.id);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenon.why_ended(id bigint, OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    d tenon.dead;
    f tenon.history;
BEGIN
    code := 'ended';
    SELECT * INTO d FROM tenon.dead x WHERE x.id = why_ended.id;
    IF FOUND THEN
        sentence := format('Dead since %s: %s%s.', tenon.time_text(d.dead_at),
            CASE d.reason WHEN 'failures' THEN format('failed %s (max_attempts %s)', CASE d.failures WHEN 1 THEN 'once' ELSE d.failures || ' times' END, d.max_attempts)
                          WHEN 'crashes' THEN format('crashed %s times, the last time without other tasks in its worker', d.crashes)
                          WHEN 'timeout' THEN 'it ran past its timeout, and on_timeout of its kind is dead'
                          ELSE 'the handler said that it can never work' END, ': ' || left(tenon.error_line(d.last_error), 200));
        advice := format('once the cause is fixed: tenon retry %s', d.id);
        RETURN;
    END IF;
    SELECT * INTO f FROM tenon.history x WHERE x.id = why_ended.id ORDER BY x.finished_at DESC LIMIT 1;
    IF FOUND THEN
        sentence := format('It %s at %s.', CASE f.outcome WHEN 'done' THEN 'ended well' WHEN 'expired' THEN 'expired: it was ' || f.last_error || '; noticed'
                                                          ELSE 'was ' || coalesce(f.last_error, 'cancelled') END,
                           tenon.time_text(f.finished_at));
        RETURN;
    END IF;
    code := 'absent';
    sentence := format('There is no task %s: it was never enqueued, its transaction has not committed or was rolled back, or it ended and its history was deleted.', id);
    advice := 'the transaction that enqueued it may still be open; ended tasks are kept for history_keep of tenon.setting';
END $$;

-- The enqueue that waits for the end of this task because it has the same unique key. NULL: none.
CREATE OR REPLACE FUNCTION tenon.why_next(t tenon.task) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format(CASE count(*) WHEN 1 THEN ' Another run under its unique key %s waits for its end, since %s.'
                                ELSE ' %3$s other runs under its unique key %1$s wait for its end, the first since %2$s.' END,
                  ($1).unique_key, tenon.time_text(min(g.created_at)), count(*))
      FROM tenon.again g
     WHERE g.unique_key = ($1).unique_key AND g.kind = ($1).kind AND g.failed IS NULL AND (g.taken OR ($1).start_time IS NOT NULL)
    HAVING count(*) > 0
$$;

CREATE OR REPLACE FUNCTION tenon.why_of(id bigint, OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t tenon.task;
BEGIN
    SELECT * INTO t FROM tenon.task x WHERE x.id = why_of.id;
    PERFORM tenon.must_see(id, coalesce(t.enqueued_by, (SELECT k.enqueued_by FROM tenon.tasks k WHERE k.id = why_of.id LIMIT 1)))
      WHERE NOT tenon.may_see(coalesce(t.enqueued_by, ''));
    IF t.id IS NOT NULL THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_unfinished(t);
        sentence := sentence || coalesce(tenon.why_next(t), '')
            || coalesce((SELECT format(' Cleaners leave it out until %s: %s.', tenon.time_text(a.until), a.error)
                           FROM tenon.set_aside a WHERE a.id = t.id AND a.part IN ('expire', 'recover')), '');
    ELSE
        SELECT * INTO code, sentence, advice FROM tenon.why_ended(id);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenon.why(id bigint) RETURNS text
LANGUAGE sql STABLE AS $$ SELECT w.sentence || coalesce(' What to do: ' || w.advice || '.', '') FROM tenon.why_of(id) w $$;

COMMENT ON FUNCTION tenon.why_of IS $$Like `tenon.why`, in parts: `code` is [one of these](troubleshoot.md#the-codes-of-tenon-why).$$;

COMMENT ON FUNCTION tenon.why IS $$Explains in a sentence why the task is in its state, and what to do. `tenon why ID` prints it. A producer may ask about tasks that its own role enqueued, else SQLSTATE 42501.$$;
