// A process that waits for tasks lives on, whatever becomes of its connection and whenever.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import pg from 'pg';
import { defineTask, enqueue, Waiter, wait } from 'tenon-tasks';
import { awaited, claimed, connected, DATABASE_URL, HERE, ran, single } from './support.js';

const task = defineTask('waited_for');

/** [driver, bytes between two cuts]: fewer cuts for postgres.js, because its reconnecting takes time. */
const CUTS = [
    ['node-postgres', 3],
    ['connected', 5],
    ['postgres.js', 41],
];

for (const [driver, step] of CUTS) {
    test(`cut after any byte: ${driver}`, async (t) => {
        const client = await connected(t);
        const id = await enqueue(client, task);
        await single(client, 'SELECT tenon.finish($1)', await claimed(client, id));
        const fixture = join(HERE, 'lost.fixture.js');
        const { out } = await ran(process.execPath, [fixture, driver, id, String(step)]);
        const { bytes, done, lost } = JSON.parse(out);
        assert.ok(bytes > 500 && lost > 50 && done > 0, out);
    });
}

test('a server that never answers: close() is over, and callers are told', async (t) => {
    const sockets = [];
    const server = createServer((socket) => sockets.push(socket.resume().on('error', () => {})));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    t.after(() => server.close());
    const url = `postgresql://x@127.0.0.1:${server.address().port}/x`;
    const waiter = new Waiter(() => new pg.Client(url));
    const told = assert.rejects(waiter.wait(1), /could not wait for task 1: the waiter was closed/);
    await once(server, 'connection');
    await waiter.close();
    await told;
    await Promise.all(sockets.map((socket) => socket.closed || once(socket, 'close')));
});

const AWAITED = 'SELECT bool_and(awaited) FROM tenon.task WHERE id = ANY ($1)';

test('a wait ends when its AbortSignal is aborted', async (t) => {
    const client = await connected(t);
    const ids = [await enqueue(client, task), await enqueue(client, task)];
    const waiter = new Waiter(() => new pg.Client(DATABASE_URL));
    t.after(() => waiter.close());
    const [one, two] = [new AbortController(), new AbortController()];
    const first = assert.rejects(wait(client, ids, { signal: one.signal }), /^Error: enough$/);
    const waits = waiter.wait(ids[0], { signal: two.signal });
    const second = assert.rejects(waits, { name: 'AbortError' });
    const third = waiter.wait(ids[1]);
    const other = await connected(t);
    await awaited(other, AWAITED, ids);
    one.abort(new Error('enough'));
    two.abort();
    await first;
    await second;
    assert.equal(await single(client, 'SELECT count(*)::integer FROM pg_listening_channels()'), 0);
    await single(client, 'SELECT tenon.cancel($1)', ids[1]);
    assert.equal((await third).state, 'cancelled'); // the others go on
    await assert.rejects(waiter.wait(1, { signal: two.signal }), { name: 'AbortError' });
    await assert.rejects(
        wait(client, [1], { signal: 'x' }),
        /signal is "x"; it should be an Abort/,
    );
});
