// tenon-tasks/testing: handlers without a worker.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defineTask, enqueue, handle, InvalidPayload, Snooze } from 'tenon-tasks';
import { mine, run, runMine } from 'tenon-tasks/testing';
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
