// tenon-tasks/testing: handlers without a worker.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
    defineTask,
    enqueue,
    enqueueMany,
    handle,
    InvalidPayload,
    result,
    Snooze,
    use,
} from 'tenon-tasks';
import { eager, flush, mine, run, runDue, runMine, TaskFailed } from 'tenon-tasks/testing';
import { z } from 'zod';
import { connected } from './support.js';

const counted = defineTask('counted', z.object({ at: z.coerce.date() }));
const onCounted = handle(counted, ({ at }, { attempt, checkpoint, progress, ...task }) => {
    if (attempt === 1) throw new Snooze('not yet', { after: '5 s' });
    return { at, checkpoint, id: task.id };
});
const long = handle(defineTask('long'), (_, context) => {
    context.progress({ done: 1 });
    context.extend('1 min');
    context.progress({ done: 2 });
    context.signal.throwIfAborted();
});

test('an outcome, as the worker would be told it', async () => {
    const at = new Date(0);
    const first = await run(onCounted, { at });
    assert.deepEqual([first.outcome, first.error, first.delayMs], ['snooze', 'not yet', 5000]);
    const second = await run(onCounted, { at }, { attempt: 2, checkpoint: { n: 1 }, id: '17' });
    assert.deepEqual(second.result, { at: at.toISOString(), checkpoint: { n: 1 }, id: '17' });
    await assert.rejects(run(onCounted, {}), InvalidPayload);
});

test('what it says of itself, and how it takes a drain', async () => {
    const { outcome, progress, extendedMs } = await run(long);
    assert.deepEqual(
        [outcome, progress, extendedMs],
        ['done', [{ done: 1 }, { done: 2 }], [60_000]],
    );
    assert.equal((await run(long, {}, { stopped: 'drain' })).outcome, 'interrupted');
    assert.equal((await run(long, {}, { stopped: 'timeout' })).outcome, 'failed');
});

test('finish is the run-one kind: it finishes nothing, and says no more', async (t) => {
    const client = await connected(t);
    const finishing = handle(defineTask('finishing'), (_, context) => context.finish(client, 1));
    assert.equal((await run(finishing)).outcome, 'done');
});

test('middleware runs around a handler and the check of its payload, the first one outermost', async () => {
    const seen = [];
    const logs = (name) => async (context, next) => {
        seen.push(`${name} begins ${context.kind}`);
        try {
            return [name, await next()];
        } catch (error) {
            seen.push(`${name}: ${error.name}`);
            throw error;
        }
    };
    const removes = [use(logs('one')), use(logs('two'))];
    const plain = handle(counted, () => 'ran');
    assert.deepEqual((await run(plain, { at: 1 })).result, ['one', ['two', 'ran']]);
    assert.deepEqual(seen.splice(0), ['one begins counted', 'two begins counted']);
    assert.equal((await run(onCounted, { at: 1 })).outcome, 'snooze');
    assert.deepEqual(seen.splice(0).slice(2), ['two: Snooze', 'one: Snooze']);
    for (const remove of removes) remove();
    assert.equal((await run(plain, { at: 1 })).result, 'ran');
    assert.throws(() => use('x'), /the middleware is "x"; it should be a function/);
});

test('due tasks run as a worker runs them, and time can pass', async (t) => {
    const client = await connected(t);
    await client.query('BEGIN');
    const parent = defineTask('due_parent');
    const child = defineTask('due_child');
    const seen = [];
    const handlers = {
        parent: handle(parent, async (_, context) => {
            const ids = await context.step('split', () => enqueueMany(client, child, [1, 2]));
            const found = await context.waitFor(ids, client);
            await context.sleep('night', '8 h');
            return found.map(({ result }) => result);
        }),
        child: handle(child, async (n, { attempt, progress }) => {
            seen.push([n, attempt]);
            progress({ n });
            if (n === 2 && attempt === 1) throw new Error('not yet');
            return n * 10;
        }),
    };
    const id = await enqueue(client, parent);
    const first = await runDue(client, handlers);
    assert.deepEqual(first.map(({ outcome }) => outcome).sort(), ['done', 'failed', 'snooze']);
    assert.deepEqual(await runDue(client, handlers), []);
    const state = async () => (await result(client, id)).state;
    const later = await runDue(client, handlers, { ahead: '1 h' });
    assert.deepEqual(seen.sort(), [
        [1, 1],
        [2, 1],
        [2, 2],
    ]);
    assert.ok(later.length >= 2);
    assert.equal(await state(), 'unfinished');
    for (let hours = 0; hours < 3 && (await state()) !== 'done'; hours++) {
        await runDue(client, handlers, { ahead: '8 h' });
    }
    // sleep() goes by this machine's clock, which does not travel
    assert.equal(await state(), 'unfinished');
    await client.query('ROLLBACK');
    assert.equal(await state(), null);
});

test('tasks of other transactions are run if that is asked for, and are flushed', async (t) => {
    const client = await connected(t);
    await flush(client);
    const handlers = { onDue: handle(defineTask('due_all'), () => ({ ran: true })) };
    const id = await enqueue(client, handlers.onDue.task);
    await client.query('BEGIN');
    assert.deepEqual(await runDue(client, handlers), []);
    const [{ outcome }] = await runDue(client, handlers, { all: true });
    await client.query('COMMIT');
    assert.equal(outcome, 'done');
    assert.deepEqual((await result(client, id)).result, { ran: true });
    await flush(client);
    assert.equal((await result(client, id)).state, null);
});

test('eager: a task runs where it is enqueued, without a database', async () => {
    const task = defineTask('eager_double', undefined, { queue: 'math', maxAttempts: 3 });
    const chained = defineTask('eager_first');
    const handlers = {
        onDouble: handle(task, ({ n }, { queue, maxAttempts }) => [2 * n, queue, maxAttempts]),
        onFirst: handle(chained, () => enqueue(null, task, { n: 5 }, { delay: '1 h' })),
    };
    const ids = await eager(handlers, async (runs) => {
        await enqueue(null, chained);
        assert.deepEqual(
            runs.map((ended) => ended.result),
            [[10, 'math', 3], '2'],
        );
        return await enqueueMany(null, task, [{ n: 1 }, { n: 2 }], { queue: 'other' });
    });
    assert.deepEqual(ids, ['3', '4']);
    await assert.rejects(enqueue(null, task, { n: 1 }), TypeError);
});

test('eager: what fails is thrown where it was enqueued', async () => {
    const task = defineTask('eager_fails');
    const handlers = [
        handle(task, () => {
            throw new Error('no mail');
        }),
    ];
    const failing = () => enqueue(null, task);
    await assert.rejects(eager(handlers, failing), (error) => {
        assert.ok(error instanceof TaskFailed);
        return (
            error.run.errorClass === 'Error' &&
            /eager_fails is failed: .*no mail/.test(error.message)
        );
    });
    const [ended] = await eager(handlers, (runs) => failing().then(() => runs), { throws: false });
    assert.equal(ended.outcome, 'failed');
    await assert.rejects(eager([], failing), /there is no handler for eager_fails/);
    await assert.rejects(failing(), TypeError);
});

test('what a transaction has enqueued can be seen, and run', async (t) => {
    const client = await connected(t);
    await client.query('BEGIN');
    const id = await enqueue(
        client,
        counted,
        { at: new Date(5) },
        { queue: 'mail', uniqueKey: 'k' },
    );
    const [one, ...others] = await mine(client);
    assert.deepEqual(others, []);
    const { runAt, ...rest } = one;
    assert.deepEqual(rest, {
        id,
        kind: 'counted',
        queue: 'mail',
        state: 'ready',
        priority: 4,
        uniqueKey: 'k',
        payload: { at: '1970-01-01T00:00:00.005Z' },
    });
    assert.ok(runAt instanceof Date);
    const [ran] = await runMine(client, { onCounted, other: 5 });
    assert.equal(ran.outcome, 'snooze');
    await assert.rejects(runMine(client, []), /there is no handler for counted/);
    await client.query('ROLLBACK');
    assert.deepEqual(await mine(client), []);
});
