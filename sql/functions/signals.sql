-- Signals and results: tasks that wait for a signal, and clients that wait for a task.

CREATE OR REPLACE FUNCTION tenon.signal(name text, payload jsonb DEFAULT 'true', notify boolean DEFAULT true) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    signal_name_bytes_max constant integer := 100;
    signal_bytes_max      constant integer := 65536;
BEGIN
    IF coalesce(octet_length(name), 0) NOT BETWEEN 1 AND signal_name_bytes_max THEN
        PERFORM tenon.refuse('name', quote_literal(name), format('1 to %s bytes', signal_name_bytes_max));
    ELSIF coalesce(payload, 'null') = 'null' THEN
        PERFORM tenon.refuse('payload', 'null', 'any JSON value except null, which means that no signal came in time');
    ELSIF tenon.printed_bytes(payload) > signal_bytes_max THEN
        PERFORM tenon.refuse('payload', format('of %s bytes', tenon.printed_bytes(payload)), format('at most %s bytes as text', signal_bytes_max));
    ELSIF tenon.is_confined() THEN
        RAISE EXCEPTION 'tenon: role % may not send signals', session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'It is confined to some queues or kinds (tenon.producer), but a signal reaches tasks of all.';
    END IF;
    INSERT INTO tenon.signal (name, payload) VALUES (name, payload) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pg_notify('tenon', 'settle') WHERE notify IS NOT FALSE;
    RETURN true;
END $$;

COMMENT ON FUNCTION tenon.signal IS $$Sends a signal: every task that waits for it now, or begins to wait while the signal is kept, gets its payload and continues. Returns whether this is the first signal of the name; a later one changes nothing. It is kept for `signal_keep` of `tenon.setting`, and then the name may be used again: [steps.md](steps.md#signals).

- `name`: 1 to 100 bytes, such as `payment:17`, else SQLSTATE 22023.
- `payload`: any JSON value except null, at most 64 KiB as text, else SQLSTATE 22023.
- `notify`: false in a transaction that will be prepared (`PREPARE TRANSACTION`).

A role that is confined to some queues or kinds gets SQLSTATE 42501.$$;

CREATE OR REPLACE FUNCTION tenon.wait_signal(claim text, signal text, timeout interval DEFAULT '365 days', OUT state text, OUT payload jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    wait_ms_max constant bigint := 31536000000;
    wait_ms numeric := extract(epoch FROM timeout) * 1000;
    fence   record;
    held    record;
    refused text;
BEGIN
    fence := tenon.read_claim(claim);
    IF (wait_ms BETWEEN 1 AND wait_ms_max) IS NOT TRUE THEN
        PERFORM tenon.refuse('timeout', timeout::text, '1 millisecond to 365 days');
    END IF;
    SELECT t.queue, t.kind, t.step_count, t.step_bytes INTO held FROM tenon.task t
     WHERE t.id = fence.id AND t.claim_key = fence.key FOR UPDATE;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    SELECT s.value INTO payload FROM tenon.task_step s
     WHERE held.step_count IS NOT NULL AND s.task_id = fence.id AND s.name = signal;
    IF NOT FOUND THEN
        refused := tenon.wait_refused(fence.id, held.step_count, held.step_bytes, signal);
        IF refused IS NOT NULL THEN
            PERFORM tenon.refuse_call(format('signal %s: %s', quote_nullable(left(signal, 100)), refused),
                                      CASE WHEN octet_length(signal) BETWEEN 1 AND 100 THEN 'Record fewer or smaller steps before: the signal becomes a step too.'
                                           ELSE 'Use a name of 1 to 100 bytes.' END);
        END IF;
        SELECT s.payload INTO payload FROM tenon.signal s WHERE s.name = signal;
        IF NOT FOUND THEN
            PERFORM tenon.requeue(ARRAY[fence.id], ARRAY[fence.key], '{wait_signal}', '{NULL}', ARRAY[wait_ms::bigint], '{NULL}', ARRAY[signal]);
            state := 'waits';
            RETURN;
        END IF;
        PERFORM tenon.put_step(fence.id, signal, payload) WHERE fence.key <> 0;
    END IF;
    payload := nullif(payload, 'null');
    state := CASE WHEN payload IS NULL THEN 'timed_out' ELSE 'came' END;
END $$;

COMMENT ON FUNCTION tenon.wait_signal IS $$Lets a running task wait for a signal, in the handler's own transaction. The outcome is recorded as a step with the name of the signal.

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `signal`: a name as for `tenon.signal`.
- `timeout`: 1 millisecond to 365 days, else SQLSTATE 22023; after it the task continues without the signal.
- returns `state`: `came`: continue, `payload` is the signal's payload; `timed_out`: continue, the signal did not come in time; `waits`: the task is blocked from the commit on, and this attempt is over. Commit, and answer done; that answer changes nothing.

Raises SQLSTATE 55000 when the claim is no longer valid, because the task was recovered, cancelled or finished: roll back and stop; 42501 when the role is confined to other queues or kinds (`tenon.producer`).$$;

-- The signal that a blocked task waits for has come, or its time is over: this becomes a step, and the task continues.
-- False: neither has happened, the task is locked, or it no longer waits. What it waits for is read after the task is locked,
-- because another session may end the wait before that. The lock is released before the task is changed, because polls pass over
-- rows with a lock's mark (see tenon.unblock); wanted_at tells whether it is the same wait. If another session locks the task in
-- between, this one does not wait for it.
CREATE OR REPLACE FUNCTION tenon.end_wait(task_id bigint, moment timestamptz) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '10 ms' AS $$
#variable_conflict use_variable
DECLARE
    t tenon.task;
    w tenon.waiting;
    payload jsonb;
BEGIN
    BEGIN
        SELECT * INTO t FROM tenon.task x WHERE x.id = task_id AND x.wanted_at IS NOT NULL FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            DELETE FROM tenon.waiting x WHERE x.task_id = task_id
               AND NOT EXISTS (SELECT FROM tenon.task y WHERE y.id = task_id AND y.wanted_at IS NOT NULL);
            RETURN false;
        END IF;
        SELECT * INTO w FROM tenon.waiting x WHERE x.task_id = task_id;
        SELECT s.payload INTO payload FROM tenon.signal s WHERE s.name = w.signal;
        IF w.task_id IS NULL OR (payload IS NULL AND w.until > moment) THEN
            UPDATE tenon.waiting x SET settled = true WHERE x.task_id = task_id AND NOT x.settled;
            RETURN false;
        END IF;
        RAISE SQLSTATE 'TN000';
    EXCEPTION WHEN SQLSTATE 'TN000' THEN
        NULL;
    END;
    UPDATE tenon.task x
       SET run_at = CASE WHEN x.limit_keys IS NULL THEN clock_timestamp() ELSE 'infinity' END,
           wanted_at = CASE WHEN x.limit_keys IS NOT NULL THEN clock_timestamp() END, delayed = false
     WHERE x.id = task_id AND x.wanted_at = t.wanted_at;
    IF FOUND THEN
        PERFORM tenon.put_step(task_id, w.signal, coalesce(payload, 'null'))
          WHERE t.step_count IS NULL OR NOT EXISTS (SELECT FROM tenon.task_step s WHERE s.task_id = task_id AND s.name = w.signal);
        DELETE FROM tenon.waiting x WHERE x.task_id = task_id;
        IF t.limit_keys IS NOT NULL THEN  -- now it waits for them
            INSERT INTO tenon.limit_event (keys, task_id) VALUES (t.limit_keys, task_id);
        END IF;
        RETURN true;
    END IF;
    RETURN false;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- A signal and a task that waits for it are both looked at after their commits, so the later one finds the earlier one. A signal is
-- settled when no task waits for it any more. Locked
-- rows are skipped, and the next turn continues after them (the cursors). Returns how many waits are over, and of which tasks.
CREATE OR REPLACE FUNCTION tenon.settle_signals(most integer, OUT n integer, OUT freed bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    begun  timestamptz := moment;
    place  bigint := tenon.place_of('tenon.waiting_cursor');
    looked integer := 0;
    sent   record;
    wait   record;
BEGIN
    freed := '{}';
    FOR wait IN SELECT w.task_id FROM tenon.waiting w WHERE NOT w.settled AND w.task_id > place ORDER BY w.task_id LIMIT most LOOP
        freed := freed || CASE WHEN tenon.end_wait(wait.task_id, moment) THEN ARRAY[wait.task_id] END;
        place := wait.task_id;
        looked := looked + 1;
        EXIT WHEN tenon.turn_is_over(begun);
    END LOOP;
    PERFORM tenon.go_on_at('tenon.waiting_cursor', CASE WHEN looked = most OR tenon.turn_is_over(begun) THEN place ELSE 0 END);
    place := tenon.place_of('tenon.signal_cursor');
    begun := clock_timestamp();
    looked := 0;
    FOR sent IN SELECT s.name, s.sent_at FROM tenon.signal s
                 WHERE NOT s.settled AND s.sent_at > timestamptz 'epoch' + place * interval '1 microsecond'
                 ORDER BY s.sent_at LIMIT most FOR UPDATE SKIP LOCKED LOOP
        FOR wait IN SELECT w.task_id FROM tenon.waiting w WHERE w.signal = sent.name ORDER BY w.task_id LOOP
            freed := freed || CASE WHEN tenon.end_wait(wait.task_id, moment) THEN ARRAY[wait.task_id] END;
            EXIT WHEN cardinality(freed) >= most OR tenon.turn_is_over(begun);
        END LOOP;
        UPDATE tenon.signal s SET settled = true
         WHERE s.name = sent.name AND NOT EXISTS (SELECT FROM tenon.waiting w WHERE w.signal = sent.name);
        place := extract(epoch FROM sent.sent_at) * 1000000;
        looked := looked + 1;
        EXIT WHEN cardinality(freed) >= most OR tenon.turn_is_over(begun);
    END LOOP;
    PERFORM tenon.go_on_at('tenon.signal_cursor', CASE WHEN looked = most OR tenon.turn_is_over(begun) THEN place ELSE 0 END);
    place := tenon.place_of('tenon.until_cursor');
    begun := clock_timestamp();
    looked := 0;
    FOR wait IN SELECT w.task_id, w.until FROM tenon.waiting w
                 WHERE w.until <= moment AND w.until > timestamptz 'epoch' + place * interval '1 microsecond' ORDER BY w.until LIMIT most LOOP
        freed := freed || CASE WHEN tenon.end_wait(wait.task_id, moment) THEN ARRAY[wait.task_id] END;
        place := extract(epoch FROM wait.until) * 1000000;
        looked := looked + 1;
        EXIT WHEN tenon.turn_is_over(begun);
    END LOOP;
    PERFORM tenon.go_on_at('tenon.until_cursor', CASE WHEN looked = most OR tenon.turn_is_over(begun) THEN place ELSE 0 END);
    DELETE FROM tenon.signal s WHERE s.name = ANY (ARRAY(
        SELECT o.name FROM tenon.signal o WHERE o.settled AND o.sent_at < moment - (SELECT signal_keep FROM tenon.setting)
         ORDER BY o.sent_at LIMIT most FOR UPDATE SKIP LOCKED));
    n := cardinality(freed);
END $$;

CREATE OR REPLACE FUNCTION tenon.result(id bigint, OUT state text, OUT result jsonb, OUT error text, OUT progress jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    who text;
BEGIN
    SELECT t.state, t.result, CASE WHEN t.state <> 'done' THEN t.last_error END, t.progress, t.enqueued_by
      INTO state, result, error, progress, who FROM tenon.tasks t WHERE t.id = id;
    IF NOT FOUND THEN
        error := format('there is no task %s: it was never enqueued, its transaction has not committed or was rolled back, or it ended and left no trace', id);
    ELSE
        PERFORM tenon.must_see(id, who);
    END IF;
END $$;

COMMENT ON FUNCTION tenon.result IS $$Returns how a task ended, or its state.

- `state`: as in `tenon.tasks`; NULL if there is no such task, or its history was deleted.
- `result`: what the handler returned, if the task is done.
- `error`: the last error, if the task is not done; if `state` is NULL, the reason.
- `progress`: the last progress, if the task is not done; NULL = none.

A producer sees the tasks that its own role enqueued, else SQLSTATE 42501; readers and operators see all.$$;

-- It waits 100 ms for the row's lock, like a worker, and gives up in a deadlock. Then the mark is missing, and the waiting client
-- polls.
CREATE OR REPLACE FUNCTION tenon.await(id bigint, watch boolean DEFAULT false, OUT state text, OUT result jsonb, OUT error text, OUT progress jsonb)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '50 ms' AS $$
#variable_conflict use_variable
BEGIN
    BEGIN
        UPDATE tenon.task t SET awaited = true, watched = CASE WHEN watch THEN true ELSE t.watched END
         WHERE t.id = id AND (t.awaited IS NOT TRUE OR watch AND t.watched IS NOT TRUE) AND tenon.may_see(t.enqueued_by);
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
    SELECT r.* INTO state, result, error, progress FROM tenon.result(id) r;
END $$;

COMMENT ON FUNCTION tenon.await IS $$Like `tenon.result`; and if the task has not ended, a NOTIFY with its id on the channel `tenon_ended` will announce its end; with `watch`, a NOTIFY with its id on the channel `tenon_progress` also announces each progress that is written, at most about one a second. LISTEN first, then call this, then wait, and call `tenon.result`. Call it in a transaction of its own, or in the one that enqueues the task: until this transaction ends, the task cannot start. An awaited task is kept in the history when it is done, even with `history_keep` 0. Ask again every 10 s, because notifications are lost with a connection: [steps.md](steps.md#waiting-for-a-result).$$;
