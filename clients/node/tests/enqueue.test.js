// Enqueue: in the caller's transaction, with every option; what is wrong is refused before it is sent.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type } from 'arktype';
import { defineTask, enqueue, enqueueMany, handle, InvalidPayload, WakeUps } from 'tenon-tasks';
import * as v from 'valibot';
import { z } from 'zod';
import { OPTIONS } from '../node_modules/tenon-tasks/src/options.js';
import { connected, single } from './support.js';

const plain = defineTask('plain');
/** What never gets as far as a database. */
const nowhere = {
    query() {
        throw new Error('it was sent');
    },
};

function taskOf(client, id) {
    return single(client, 'SELECT to_jsonb(t) FROM tenon.task t WHERE id = $1', id);
}

test('a task is there if its transaction commits, and never if it rolls back', async (t) => {
    const client = await connected(t);
    for (const end of ['COMMIT', 'ROLLBACK']) {
        await client.query('BEGIN');
        const id = await enqueue(client, plain, { end });
        assert.equal(typeof id, 'string');
        await client.query(end);
        assert.deepEqual(
            (await taskOf(client, id))?.payload,
            end === 'COMMIT' ? { end } : undefined,
        );
    }
});

test('options become columns; those of a call overrule those of the task', async (t) => {
    const client = await connected(t);
    const task = defineTask('with_options', undefined, {
        queue: 'mail',
        priority: 7,
        timeout: '2 min',
    });
    const startBefore = new Date(Date.now() + 86_400_000);
    const id = await enqueue(client, task, undefined, {
        priority: 9,
        delay: '1.5 h',
        startBefore,
        uniqueKey: 'it\'s "one"',
        maxAttempts: 3,
        retry: 'constant(10 s)',
        trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        onConflict: undefined,
    });
    const row = await taskOf(client, id);
    assert.deepEqual([row.queue, row.priority, row.timeout_ms], ['mail', 9, 120_000]);
    assert.deepEqual([row.payload, row.max_attempts, row.unique_key], [{}, 3, 'it\'s "one"']);
    assert.equal(Date.parse(row.start_before), startBefore.getTime());
    assert.equal(Date.parse(row.run_at) - Date.parse(row.created_at), 5_400_000);
    assert.match(row.retry, /constant/);
    assert.match(row.trace, /^00-0af/);
});

test('every argument of tenon.enqueue and tenon.enqueue_many is an option', async (t) => {
    const client = await connected(t);
    const names = await single(
        client,
        `SELECT array_agg(DISTINCT a) FROM pg_proc p, unnest(proargnames) a
          WHERE pronamespace = 'tenon'::regnamespace AND proname IN ('enqueue', 'enqueue_many')`,
    );
    const known = Object.values(OPTIONS).map(([argument]) => argument);
    const own = ['kind', 'payload', 'payloads'];
    assert.deepEqual(
        names.filter((name) => !known.includes(name) && !own.includes(name)),
        [],
    );
});

test('under a unique key the holder is returned', async (t) => {
    const client = await connected(t);
    const options = { uniqueKey: 'one', onConflict: 'merge', runAt: new Date(Date.now() + 60_000) };
    const first = await enqueue(client, plain, { a: 1 }, options);
    assert.equal(await enqueue(client, plain, { b: 2 }, options), first);
    assert.deepEqual((await taskOf(client, first)).payload, { a: 1, b: 2 });
});

test('many keep their order', async (t) => {
    const client = await connected(t);
    const payloads = Array.from({ length: 1000 }, (_, i) => ({ i, text: `'"\\\u2028${i}` }));
    const ids = await enqueueMany(client, plain, payloads, { queue: 'bulk' });
    assert.equal(new Set(ids).size, 1000);
    assert.deepEqual((await taskOf(client, ids[700])).payload, payloads[700]);
    assert.deepEqual(await enqueueMany(client, plain, []), []);
    const keyed = await enqueueMany(client, plain, [1, 2, 3], { uniqueKeys: ['k', null, 'k'] });
    assert.deepEqual([keyed[0] === keyed[2], keyed[0] === keyed[1]], [true, false]);
});

test('wake-ups are kept until they are published, with where they go', async (t) => {
    const client = await connected(t);
    const wakeUps = new WakeUps();
    const ids = [
        await enqueue(client, plain, 1, { wakeUps }),
        ...(await enqueueMany(client, plain, [2, 3], { wakeUps, queue: 'bulk' })),
    ];
    const sent = [];
    const channel = { publish: (...args) => sent.push(args.map(String)) };
    assert.equal(wakeUps.size, 3);
    assert.equal(wakeUps.publish(channel), true);
    assert.deepEqual(sent, [
        ['tenon', 'default/plain', ids[0]],
        ['tenon', 'bulk/plain', ids[1]],
        ['tenon', 'bulk/plain', ids[2]],
    ]);
    assert.equal(wakeUps.size, 0);
    assert.equal((await taskOf(client, ids[1])).announced, true);
    await enqueue(client, plain, 4, { wakeUps });
    const closed = {
        publish() {
            throw new Error('Channel closed');
        },
    };
    assert.equal(wakeUps.publish(closed), false);
});

for (const [name, schema] of [
    ['zod', z.object({ to: z.string(), n: z.number().default(1) })],
    ['valibot', v.object({ to: v.string(), n: v.optional(v.number(), 1) })],
    ['arktype', type({ to: 'string', n: 'number = 1' })],
]) {
    test(`a payload fits its schema: ${name}`, async (t) => {
        const client = await connected(t);
        const task = defineTask('fits', schema);
        const id = await enqueue(client, task, { to: 'ann' });
        assert.deepEqual((await taskOf(client, id)).payload, { to: 'ann' }); // as it was given
        await assert.rejects(enqueue(nowhere, task, { to: 17 }), (error) => {
            assert.ok(error instanceof InvalidPayload);
            assert.match(error.message, /^the payload does not fit fits: to: /);
            return error.issues.length === 1;
        });
        await assert.rejects(enqueueMany(nowhere, task, [{ to: 'ann' }, {}]), InvalidPayload);
    });
}

test('a payload is checked as what its handler will get', async (t) => {
    const client = await connected(t);
    const at = new Date();
    const strict = defineTask('a', z.object({ at: z.date() }));
    await assert.rejects(enqueue(nowhere, strict, { at }), InvalidPayload);
    const id = await enqueue(client, defineTask('b', z.object({ at: z.coerce.date() })), { at });
    assert.deepEqual((await taskOf(client, id)).payload, { at: at.toISOString() });
});

test('what is not JSON, or none that PostgreSQL stores, is refused by name', async (t) => {
    const loop = {};
    loop.loop = loop;
    for (const [payload, message] of [
        [{ n: Number.NaN }, /the payload of plain is not JSON: "n" is NaN/],
        [{ m: new Map() }, /"m" is a Map/],
        [{ f: () => 1 }, /"f" is a function/],
        [{ b: 1n }, /BigInt|bigint/],
        [{ at: new Date('never') }, /"at" is an invalid Date/],
        [Symbol('s'), /it is a symbol/],
        [loop, /circular/],
        [{ text: 'a\0b' }, /has \\u0000 in a text, which PostgreSQL cannot store/],
        [{ text: '\ud800' }, /has \\ud800/],
    ]) {
        await assert.rejects(enqueue(nowhere, plain, payload), { name: 'TypeError', message });
    }
    const client = await connected(t);
    const payload = { text: '\\u0000 \\\\ud800 😀' };
    const id = await enqueue(client, plain, payload);
    assert.deepEqual((await taskOf(client, id)).payload, payload);
});

test('options that do not exist, or are something else, are refused by name', async () => {
    for (const [options, message] of [
        [{ qeue: 'mail' }, /there is no option "qeue"; there are: queue, priority/],
        [{ uniqueKeys: ['a'] }, /no option "uniqueKeys"/],
        [{ queue: 5 }, /queue is 5; it should be a string/],
        [{ priority: '5' }, /priority is "5"; it should be a whole number/],
        [{ runAt: '2030-01-01' }, /runAt is "2030-01-01"; it should be a Date/],
        [{ runAt: new Date('never') }, /runAt is Invalid Date/],
        [{ delay: '5 weeks' }, /delay is "5 weeks"; it should be like '30 s'/],
        [{ delay: 5000 }, /delay is 5000; it should be like '30 s'/],
        [{ delay: '-1 s' }, /delay is "-1 s"/],
        [{ delay: { minutes: -1 } }, /delay is/],
        [{ delay: { weeks: 1 } }, /delay is/],
        [{ delay: {} }, /delay is/],
        [{ notify: 'no' }, /notify is "no"; it should be true or false/],
        [{ limitKeys: 'tenant' }, /limitKeys is "tenant"; it should be an array of strings/],
        [{ dependsOn: ['x'] }, /dependsOn is x; it should be an array of ids/],
        [{ wakeUps: [] }, /it should be a new WakeUps\(\)/],
        [null, /the options are null/],
    ]) {
        const refused = enqueue(nowhere, plain, {}, options);
        await assert.rejects(refused, { name: 'TypeError', message });
    }
});

test('so are tasks, handlers and connections that are none', async () => {
    assert.throws(() => defineTask('two words'), /kind is "two words"; it should be 1 to 100 of/);
    assert.throws(
        () => defineTask('a', { type: 'object' }),
        /the schema of a is not a Standard Schema/,
    );
    assert.throws(() => defineTask('a', undefined, { qeue: 'a' }), /there is no option "qeue"/);
    assert.throws(() => handle('mail', () => 1), /"mail" is not a task of defineTask/);
    assert.throws(() => handle(plain), /of plain, undefined is not a function/);
    await assert.rejects(enqueue(nowhere, 'mail', {}), /task is "mail"; it should be one of/);
    await assert.rejects(
        enqueue('postgresql://', plain, {}),
        /db is "postgresql:\/\/"; it should be/,
    );
    await assert.rejects(enqueueMany(nowhere, plain, { a: 1 }), /it should be an array/);
});

test("what tenon refuses is the driver's error", async (t) => {
    const client = await connected(t);
    await assert.rejects(enqueue(client, plain, {}, { priority: 12 }), {
        code: '22023',
        message: /priority 12/,
    });
});
