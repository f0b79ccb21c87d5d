// What is done with tasks, flows, signals, schedules and limits; and a task that waits for others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as tenon from 'tenon-tasks';
import { defineTask, enqueue, handle } from 'tenon-tasks';
import { run } from 'tenon-tasks/testing';
import { z } from 'zod';
import { claimed, connected, single } from './support.js';

const part = defineTask('acts_part', z.object({ n: z.number() }), {
    priority: 6,
});
const whole = defineTask('acts_whole');
const unique = (name) => `${name}:${Date.now()}:${Math.random()}`;

function finished(client, id, result) {
    return claimed(client, id).then((claim) =>
        client.query('SELECT tenon.finish($1, $2)', [claim, JSON.stringify(result)]),
    );
}

const stateOf = (client, id) =>
    single(client, 'SELECT state FROM tenon.tasks WHERE id = $1', String(id));

test('a task is cancelled, retried, run now; and its state read', async (t) => {
    const client = await connected(t);
    const id = await enqueue(client, part, { n: 1 }, { delay: '1 h' });
    assert.equal(await tenon.runNow(client, id, { why: 'a test' }), true);
    assert.equal(await stateOf(client, id), 'ready');
    const state = (state) => ({ id, state, result: null, error: null });
    assert.deepEqual(await tenon.result(client, id), state('unfinished'));
    assert.deepEqual(
        [await tenon.cancel(client, id), await tenon.cancel(client, id)],
        [true, false],
    );
    assert.equal((await tenon.result(client, id)).state, 'cancelled');
    await assert.rejects(tenon.retry(client, id, { fromStep: 'charge' }), /has no step 'charge'/);
    assert.equal(await tenon.retry(client, Number(id), { why: 'a test' }), true);
    await finished(client, id, { n: 2 });
    assert.deepEqual(await tenon.result(client, BigInt(id)), {
        ...state('done'),
        result: { n: 2 },
    });
    assert.equal((await tenon.result(client, '999999999999')).state, null);
});

test('what is given wrongly is refused by name', async (t) => {
    const client = await connected(t);
    const refused = (promise, message) => assert.rejects(promise, { name: 'TypeError', message });
    await refused(tenon.cancel(client, 'x'), /"x" is not the id of a task/);
    await refused(
        tenon.retry(client, 1, { form: 'x' }),
        /retry: there is no "form"; there are: id, why, fromStep$/,
    );
    await refused(tenon.setLimit(client, 'a', { maxRunning: 'two' }), /maxRunning is "two"/);
    await refused(tenon.setSchedule(client, 'a', { every: 5 }), /every is 5/);
    await refused(tenon.flow(client, { tasks: [{ task: 'a' }] }), /tasks\[0\]\.task is "a"/);
    await refused(tenon.signal(client, 'a', 1n), /payload is not JSON/);
    await assert.rejects(
        tenon.flow(client, { tasks: [{ task: part, payload: {} }] }),
        tenon.InvalidPayload,
    );
    assert.throws(() => defineTask('a', undefined, { maxCrashes: 'x' }), /maxCrashes is "x"/);
});

test('a signal counts when its transaction commits', async (t) => {
    const client = await connected(t);
    const name = unique('signal');
    const waiting = handle(whole, (_, context) => context.waitSignal(name));
    const { outcome, signal } = await run(waiting, {});
    assert.deepEqual([outcome, signal], ['wait_signal', name]);
    await client.query('BEGIN');
    assert.equal(await tenon.signal(client, name, { amount: 30 }), true);
    await client.query('ROLLBACK');
    assert.equal(await tenon.signal(client, name), true);
    assert.equal(await tenon.signal(client, name), false);
});

test('a whole flow, with what its tasks have as their defaults', async (t) => {
    const client = await connected(t);
    const flow = await tenon.flow(client, {
        name: 'nightly',
        tasks: [
            { name: 'one', task: part, payload: { n: 1 } },
            { name: 'two', task: part, payload: { n: 2 }, priority: 9, delay: '1 h' },
            {
                task: whole,
                dependsOn: ['one', 'two'],
                onParentDead: 'run',
                limitKeys: ['a'],
            },
        ],
        onEnd: whole,
        payload: { of: 'test' },
    });
    const sql = `SELECT json_agg(json_build_object('id', id, 'kind', kind, 'state', state, 'priority', priority) ORDER BY id)
                   FROM tenon.tasks WHERE flow = $1`;
    const [one, two, three] = await single(client, sql, flow);
    assert.deepEqual([one.state, two.state, three.state], ['ready', 'scheduled', 'blocked']);
    assert.deepEqual([one.priority, two.priority], [6, 9]);
    await finished(client, one.id, { pages: 3 });
    const [first, second] = await tenon.parentResults(client, three.id);
    assert.deepEqual([first.name, first.state, second.name], ['one', 'done', 'two']);
    assert.equal(first.id, String(one.id));
    assert.equal(await tenon.cancelFlow(client, flow), 2);
});

test('a batch takes tasks until it is closed', async (t) => {
    const client = await connected(t);
    const id = await tenon.batch(client, {
        onDone: whole,
        onDead: 'alarm',
        payload: { a: 1 },
    });
    await enqueue(client, part, { n: 1 }, { flow: id });
    assert.equal(await tenon.closeBatch(client, id), true);
    assert.equal(await tenon.closeBatch(client, id), false);
    const callbacks = 'SELECT json_build_array(on_done, on_dead) FROM tenon.flow WHERE id = $1';
    assert.deepEqual(await single(client, callbacks, id), ['acts_whole', 'alarm']);
    await assert.rejects(tenon.batch(client, {}), { code: '22023' });
});

test('schedules and limits', async (t) => {
    const client = await connected(t);
    const name = unique('s').replaceAll('.', '_');
    const next = await tenon.setSchedule(client, name, {
        cron: '0 3 * * *',
        task: part,
        payload: { n: 1 },
        zone: 'Europe/Berlin',
        timeout: '20 min',
    });
    assert.ok(next > new Date() && next < new Date(Date.now() + 25 * 3_600_000));
    await tenon.setSchedule(client, name, { every: '2 h', task: 'other' });
    const row =
        'SELECT json_build_array(kind, cron, timeout_ms) FROM tenon.schedule WHERE name = $1';
    assert.deepEqual(await single(client, row, name), ['other', null, null]);
    assert.equal(await tenon.removeSchedule(client, name), true);
    assert.equal(await tenon.removeSchedule(client, name), false);

    await tenon.setLimit(client, name, {
        maxStarts: 100,
        per: '1 min',
        maxRunning: 5,
        fair: true,
    });
    const limit =
        'SELECT json_build_array(max_running, max_starts, per, fair) FROM tenon.limit WHERE name = $1';
    assert.deepEqual(await single(client, limit, name), [5, 100, '00:01:00', true]);
    assert.equal(await tenon.takeLimit(client, name, 100), 0);
    assert.ok((await tenon.takeLimit(client, name)) > 0);
    assert.equal(await tenon.removeLimit(client, name), true);
});

test('what code declares, as tenon.sync takes it', () => {
    const task = defineTask('d', undefined, {
        queue: 'slow',
        timeout: '20 min',
        uniqueFor: '1 d', // stays with each call
        limitKeys: ['x'],
        onDead: whole,
        maxCrashes: 5,
        timeoutMin: undefined,
    });
    assert.deepEqual(Object.keys(task.defaults), ['queue', 'timeout', 'uniqueFor', 'limitKeys']);
    const declared = {
        tasks: { onTask: handle(task, () => 1), other: 5, whole },
        queues: { mail: { priority: 6 } },
        limits: { x: { maxStarts: 5, per: { seconds: 1 } } },
        schedules: { nightly: { cron: '0 3 * * *', task, payload: { a: 1 } } },
        remove: { kinds: ['old'] },
        source: 'shop',
    };
    const ms = (n) => `${n} milliseconds`;
    assert.deepEqual(tenon.description(declared), {
        queues: { mail: { priority: 6 } },
        kinds: {
            d: {
                queue: 'slow',
                timeout: ms(1_200_000),
                limit_keys: ['x'],
                on_dead: 'acts_whole',
                max_crashes: 5,
            },
            acts_whole: {},
        },
        limits: { x: { max_starts: 5, per: ms(1000) } },
        schedules: { nightly: { cron: '0 3 * * *', kind: 'd', payload: { a: 1 } } },
        remove: { kinds: ['old'] },
        source: 'shop',
    });
    assert.throws(() => tenon.description({ kinds: [] }), /there is no "kinds"; there are: tasks/);
    assert.throws(
        () => tenon.description({ queues: { a: { queue: 'b' } } }),
        /the queue a: there is no/,
    );
});

test('sync sets what holds for every way of enqueueing, and says what changed', async (t) => {
    const client = await connected(t);
    const name = unique('sync').replaceAll('.', '_');
    const task = defineTask(name, undefined, { queue: 'slow', timeout: '20 min', onDead: whole });
    const declared = {
        tasks: [task],
        limits: { [name]: { maxStarts: 5, per: '1 min' } },
        schedules: { [name]: { every: '1 h', task, payload: { a: 1 } } },
    };
    const all = ['kind', 'limit', 'schedule'].map((what) => ({ what, name, act: 'added' }));
    const byWhat = (one, other) => (one.what < other.what ? -1 : 1);
    assert.deepEqual((await tenon.sync(client, declared)).sort(byWhat), all);
    assert.deepEqual(await tenon.sync(client, declared), []);
    const id = await single(client, 'SELECT tenon.enqueue($1)', name); // in SQL
    const row = 'SELECT json_build_array(queue, timeout_ms) FROM tenon.task WHERE id = $1';
    assert.deepEqual(await single(client, row, id), ['slow', 1_200_000]);
    const remove = { schedules: [name], limits: [name], kinds: [name] };
    const removed = await tenon.sync(client, { remove });
    assert.deepEqual(
        removed.map(({ act }) => act),
        ['removed', 'removed', 'removed'],
    );
});

test('a key, a queue, a priority and a time for each; wake-ups to each queue', async (t) => {
    const client = await connected(t);
    const runAts = [null, new Date(Date.now() + 3_600_000)];
    const wakeUps = new tenon.WakeUps();
    const ids = await tenon.enqueueMany(client, part, [{ n: 1 }, { n: 2 }], {
        queue: 'a',
        queues: ['b', null],
        priorities: [null, 9],
        runAts,
        tags: ['x'],
        wakeUps,
    });
    const rows =
        'SELECT json_agg(json_build_array(queue, priority, state, tags) ORDER BY array_position($1::bigint[], id)) FROM tenon.tasks WHERE id = ANY ($1)';
    assert.deepEqual(await single(client, rows, ids), [
        ['b', 6, 'ready', ['x']],
        ['a', 9, 'scheduled', ['x']],
    ]);
    const sent = [];
    wakeUps.publish({ publish: (_, key) => sent.push(key) });
    assert.deepEqual(sent.sort(), ['a/acts_part', 'b/acts_part']);
    const refused = tenon.enqueueMany(client, part, [{ n: 1 }], { priorities: ['9'] });
    await assert.rejects(refused, /priorities is 9; it should be an array of whole numbers/);
    await assert.rejects(enqueue(client, part, { n: 1 }, { queues: ['a'] }), /no option "queues"/);
});

test('a task waits for others without a worker, and gets their results', async (t) => {
    const client = await connected(t);
    const parts = handle(whole, async (_, context) => {
        const ids = await context.step('split', () =>
            tenon.enqueueMany(client, part, [{ n: 1 }, { n: 2 }]),
        );
        const found = await context.waitFor(ids, client);
        return found.map(({ state, result }) => [state, result]);
    });
    const first = await run(parts, {});
    assert.deepEqual([first.outcome, first.delayMs], ['snooze', 1000]);
    const [one, two] = first.steps.split;
    await finished(client, one, 'a');
    const [since] = Object.keys(first.steps).filter((name) => name !== 'split');
    const steps = { ...first.steps, [since]: Date.now() - 40_000 };
    const second = await run(parts, {}, { attempt: 2, steps });
    assert.equal(second.outcome, 'snooze');
    assert.ok(second.delayMs >= 10_000 && second.delayMs < 12_000);
    await tenon.cancel(client, two);
    const third = await run(parts, {}, { attempt: 3, steps });
    assert.deepEqual(third.result, [
        ['done', 'a'],
        ['cancelled', null],
    ]);
    const again = await run(parts, {}, { attempt: 4, steps: { ...steps, ...third.steps } });
    assert.deepEqual([again.result, Object.keys(again.steps)], [third.result, []]);
    const none = handle(whole, (_, context) => context.waitFor([], client));
    assert.deepEqual((await run(none, {})).result, []);
});

test('a task is watched until its end', async (t) => {
    const client = await connected(t);
    const other = await connected(t);
    const id = await enqueue(client, part, { n: 1 });
    const seen = [];
    let claim;
    for await (const { state, progress, result } of tenon.watch(client, id, {
        every: '5 ms',
    })) {
        seen.push([state, progress?.done ?? null, result]);
        if (seen.length === 1) {
            claim = await claimed(other, id);
        } else if (seen.length === 2) {
            await other.query('SELECT tenon.progress($1, $2)', [claim, { done: 5 }]);
        } else if (seen.length === 3) {
            await other.query(`SELECT tenon.finish($1, '"ok"')`, [claim]);
        }
    }
    assert.deepEqual(seen, [
        ['ready', null, null],
        ['running', null, null],
        ['running', 5, null],
        ['done', null, 'ok'],
    ]);
    const signal = AbortSignal.timeout(20);
    const waiting = await enqueue(client, part, { n: 1 }, { delay: '1 h' });
    await assert.rejects(
        async () => {
            for await (const _ of tenon.watch(client, waiting, { signal }));
        },
        { name: 'TimeoutError' },
    );
    for await (const { state } of tenon.watch(client, '999999999999')) {
        assert.equal(state, null);
    }
});
