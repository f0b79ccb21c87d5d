// End to end: real tasks, the real worker and cleaner, PostgreSQL and RabbitMQ.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import amqplib from 'amqplib';
import { defineTask, enqueue, enqueueMany, WakeUps } from 'tenon-tasks';
import {
    awaited,
    connected,
    DATABASE_URL,
    directory,
    HERE,
    ran,
    TENON_NODE,
    tenon,
    single,
} from './support.js';

const FIXTURE = join(HERE, 'handlers.fixture.js');
const STATE = 'SELECT state FROM tenon.tasks WHERE id = $1';
const RESULT = 'SELECT result FROM tenon.history WHERE id = $1';

/** The variables of a worker whose handlers are to have a database. */
const env = { ...process.env, APP_DATABASE_URL: DATABASE_URL };

/** The handlers file of the fixture, as the program prints it. */
async function handlersFile(t, concurrency = 10) {
    const path = join(await directory(t), 'handlers.conf');
    const args = [TENON_NODE, '--concurrency', String(concurrency), '--print-handlers', FIXTURE];
    const { out } = await ran(process.execPath, args);
    await writeFile(path, out);
    return path;
}

async function drained(t, options = {}) {
    const args = ['worker', '--until-empty', '--slots', '1', '--handlers', await handlersFile(t)];
    const worker = tenon(t, args, { env: { ...env, AMQP_URL: 'none' }, ...options });
    const { code, err } = await worker.end;
    assert.equal(code, 0, err);
    return err;
}

async function spied(t, queue, key) {
    const connection = await amqplib.connect(process.env.AMQP_URL);
    const channel = await connection.createChannel();
    await channel.assertQueue(queue, { exclusive: true });
    await channel.bindQueue(queue, 'tenon', key);
    t.after(() => connection.close());
    return channel;
}

test('tasks of each outcome', async (t) => {
    const client = await connected(t);
    const kinds = ['echo', 'print_by_number', 'dead', 'fails', 'mail'];
    const ids = {};
    for (const kind of kinds) {
        ids[kind] = await enqueue(client, defineTask(kind), { kind });
    }
    const many = await enqueueMany(
        client,
        defineTask('counts'),
        Array.from({ length: 200 }, (_, to) => ({ to })),
    );
    await drained(t);
    const states = [];
    for (const kind of kinds) states.push(await single(client, STATE, ids[kind]));
    assert.deepEqual(states, ['done', 'done', 'dead', 'retrying', 'dead']);
    assert.deepEqual(await single(client, RESULT, ids.echo), { kind: 'echo' });
    assert.equal(await single(client, RESULT, ids.print_by_number), 0); // what it printed hurt nobody
    const done = `SELECT count(*)::integer FROM tenon.history WHERE id = ANY ($1) AND result->>'attempt' = '1'`;
    assert.equal(await single(client, done, many), 200);
    const error = 'SELECT error_class FROM tenon.attempt WHERE task_id = $1';
    assert.equal(await single(client, error, ids.fails), 'CardDeclined');
    assert.equal(await single(client, error, ids.mail), 'InvalidPayload');
});

test('--run-one runs a handler without servers', async (t) => {
    const args = ['worker', '--handlers', await handlersFile(t), '--run-one', 'echo', '-'];
    const { out } = await ran(process.env.TENON, args, { input: '{"to": "ann"}' });
    assert.deepEqual(JSON.parse(out), { to: 'ann' });
});

test('a wake-up that is published after the commit reaches the queue of its kind', async (t) => {
    const client = await connected(t);
    const channel = await spied(t, 'node_spy', 'default/waked');
    const wakeUps = new WakeUps();
    await client.query('BEGIN');
    const id = await enqueue(client, defineTask('waked'), {}, { wakeUps });
    await client.query('COMMIT');
    const got = new Promise((resolve) => channel.consume('node_spy', resolve, { noAck: true }));
    assert.equal(wakeUps.publish(channel), true);
    assert.equal((await got).content.toString(), id);
    await channel.close();
    await enqueue(client, defineTask('waked'), {}, { wakeUps });
    assert.equal(wakeUps.publish(channel), false); // closed: the poll finds the task
});

test('exactly once, though the process is killed before or after the commit', async (t) => {
    const client = await connected(t);
    await client.query(
        'CREATE TABLE IF NOT EXISTS node_account (id integer PRIMARY KEY, balance integer)',
    );
    await client.query('TRUNCATE node_account');
    await client.query('INSERT INTO node_account VALUES (1, 0), (2, 0), (3, 0)');
    const pay = defineTask('pay', undefined, { retry: 'constant(1 ms, 1 ms, 0 %)' });
    const ids = [];
    for (const [account, dies] of [[1], [2, 'before'], [3, 'after']]) {
        ids.push(await enqueue(client, pay, { account, amount: 10, dies }));
    }
    await drained(t);
    await drained(t); // what was tried again
    const balances = 'SELECT array_agg(balance ORDER BY id) FROM node_account';
    assert.deepEqual(await single(client, balances), [10, 10, 10]);
    for (const id of ids) {
        assert.equal(await single(client, STATE, id), 'done');
        assert.deepEqual(await single(client, RESULT, id), { paid: 10 });
    }
});

test('a step on a connection is there once, with its effect', async (t) => {
    const client = await connected(t);
    await client.query('CREATE TABLE IF NOT EXISTS node_booking (task bigint)');
    await client.query('TRUNCATE node_booking');
    const id = await enqueue(client, defineTask('books'));
    for (let turn = 0; turn < 20 && (await single(client, STATE, id)) !== 'done'; turn++) {
        await drained(t); // what is tried again is not ready at once
    }
    assert.equal(await single(client, 'SELECT count(*)::integer FROM node_booking'), 1);
    assert.equal(await single(client, 'SELECT failures FROM tenon.history WHERE id = $1', id), 1);
});

test('a worker with RabbitMQ: cancel, drain, and the checkpoint of the next attempt', async (t) => {
    const client = await connected(t);
    const args = ['worker', '--slots', '1', '--handlers', await handlersFile(t)];
    const worker = tenon(t, args, { env });
    const cleaner = tenon(t, ['cleaner'], { env });
    const running = `SELECT state = 'running' FROM tenon.tasks WHERE id = $1`;
    const [cancelled, kept] = await enqueueMany(client, defineTask('listens'), [{}, {}]);
    const slow = await enqueue(client, defineTask('progress_then_wait'), {});
    await awaited(client, running, cancelled);
    await awaited(client, running, kept);
    await awaited(client, `SELECT progress IS NOT NULL FROM tenon.task WHERE id = $1`, slow);
    await client.query('SELECT tenon.cancel($1)', [cancelled]);
    await awaited(client, `SELECT result = '"neighbour"' FROM tenon.history WHERE id = $1`, slow);
    worker.kill('SIGTERM'); // it drains
    const { code } = await worker.end;
    assert.equal(code, 0);
    assert.equal(await single(client, STATE, cancelled), 'cancelled');
    const left = await client.query(
        'SELECT state, failures, claims FROM tenon.tasks JOIN tenon.task USING (id, failures, claims) WHERE id = $1',
        [kept],
    );
    assert.deepEqual([left.rows[0].state, left.rows[0].failures], ['ready', 0]); // interrupted: not charged
    cleaner.kill('SIGTERM');
    await cleaner.end;
    await client.query('SELECT tenon.cancel($1)', [kept]);
});

test('a module that cannot be imported: it is said why, and no task is charged', async (t) => {
    const client = await connected(t);
    const path = join(await directory(t), 'wrong.mjs');
    await writeFile(path, `console.log('importing');\nawait import('no-such-module');\n`);
    const id = await enqueue(client, defineTask('of_wrong'));
    const handler = `of_wrong=pool:exec ${process.execPath} ${TENON_NODE} ${path}`;
    const args = ['worker', '--handler', handler];
    const worker = tenon(t, args, { env: { ...env, AMQP_URL: 'none' } });
    let said = '';
    for await (const data of worker.stderr) {
        said += data;
        if (said.includes('handler_backs_off')) break;
    }
    worker.kill();
    assert.match(said, /handler_backs_off.*no-such-module/);
    const row = `SELECT failures = 0 AND state = 'ready' FROM tenon.tasks WHERE id = $1`;
    await awaited(client, row, id);
});
