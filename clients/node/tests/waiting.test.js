// Waiting for tasks' ends: on a connection, and by many of one process on one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import postgres from 'postgres';
import { defineTask, enqueueMany, Waiter, wait } from 'tenon-tasks';
import { awaited, connected, DATABASE_URL, single } from './support.js';

const MANY = 1000;
const task = defineTask('waited_for');
const NAME = 'waits';

/** An application's own: it cannot read the result {"i": 1}. */
function unreadable(text) {
    if (text === '{"i": 1}') {
        throw new Error('cannot read that');
    }
    return text;
}

/** What a waiter connects with, by driver. */
const DRIVERS = {
    'node-postgres': async () => {
        const client = new pg.Client({ connectionString: DATABASE_URL, application_name: NAME });
        client.setTypeParser(25, unreadable);
        await client.connect();
        return client;
    },
    'postgres.js': () =>
        postgres(DATABASE_URL, {
            max: 1,
            onnotice() {},
            connection: { application_name: NAME },
            types: { text: { to: 25, from: [25], parse: unreadable, serialize: String } },
        }),
};

async function enqueued(client, n) {
    return enqueueMany(
        client,
        task,
        Array.from({ length: n }, (_, i) => ({ i })),
    );
}

/** As a worker would, with their payloads as results. */
async function finish(client, ...ids) {
    const claim = `UPDATE tenon.task SET start_time = now(), claim_key = tenon.random_key(), worker_id = gen_random_uuid(),
        claims = 1 WHERE id = ANY ($1)`;
    await client.query(claim, [ids]);
    const text = `SELECT tenon.finish(concat_ws('/', id, claims, lpad(to_hex(claim_key), 16, '0')), payload)
        FROM tenon.task WHERE id = ANY ($1) ORDER BY id`;
    await client.query(text, [ids]);
}

function marked(client, ids) {
    const text = 'SELECT count(*) = $2 FROM tenon.task WHERE id = ANY ($1) AND awaited';
    return awaited(client, text, ids, ids.length);
}

const done = (id, i) => ({ id, state: 'done', result: { i }, error: null });
const unfinished = (id) => ({ id, state: 'unfinished', result: null, error: null });

for (const [name, connect] of Object.entries(DRIVERS)) {
    test(`some tasks: ${name}`, async (t) => {
        const [client, db] = [await connected(t), await connect()];
        t.after(() => db.end());
        const [one, two, three] = await enqueued(client, 3);
        const waits = wait(db, [one], { timeout: '60 s' });
        await marked(client, [one]);
        await finish(client, one);
        assert.deepEqual(await waits, [done(one, 0)]);
        await client.query('SELECT tenon.cancel($1)', [three]);
        const [none, ...rest] = await wait(db, [10n ** 12n, two, Number(one), three], {
            timeout: '1 ms',
        });
        assert.match(none.error, /there is no task 1000000000000/);
        assert.deepEqual([none.id, none.state], ['1000000000000', null]);
        assert.deepEqual(rest.slice(0, 2), [unfinished(two), done(one, 0)]);
        assert.match(rest[2].error, /^cancelled by /);
        assert.deepEqual([rest[2].state, rest[2].result], ['cancelled', null]);
        assert.deepEqual(await wait(db, []), []);
        const first = wait(db, [two], { timeout: '60 s' });
        await marked(client, [two]);
        await assert.rejects(wait(db, [two]), /another call waits on this connection/);
        await client.query('SELECT tenon.cancel($1)', [two]);
        assert.equal((await first)[0].state, 'cancelled');
    });

    test(`a thousand on one connection: ${name}`, async (t) => {
        const client = await connected(t);
        let connections = 0;
        const waiter = new Waiter(() => {
            connections++;
            return connect();
        });
        t.after(() => waiter.close());
        const ids = await enqueued(client, MANY);
        const waiting = Promise.all(ids.map((id) => waiter.wait(id, { timeout: '60 s' })));
        await marked(client, ids);
        await finish(client, ...ids);
        assert.deepEqual(
            await waiting,
            ids.map((id, i) => done(id, i)),
        );
        assert.equal(connections, 1);
    });

    test(`who is refused frees nothing, and ends nothing: ${name}`, async (t) => {
        const [client, db] = [await connected(t), await connect()];
        const [id] = await enqueued(client, 1);
        const [first, second] = [new Waiter(() => db), new Waiter(() => db)];
        t.after(() => first.close());
        const waiting = first.wait(id);
        await marked(client, [id]);
        for (const _ of [1, 2]) {
            await assert.rejects(second.wait(id), /another call waits on this connection/);
        }
        await second.close();
        await finish(client, id);
        assert.deepEqual(await waiting, done(id, 0));
    });

    test(`only who asked is refused: ${name}`, async (t) => {
        const client = await connected(t);
        const ids = await enqueued(client, 3);
        await client.query(`CREATE ROLE waits_node; SELECT tenon.grant_producer('waits_node')`);
        await client.query(`UPDATE tenon.task SET enqueued_by = 'waits_node'`);
        const waiter = new Waiter(async () => {
            const mine = await connect();
            await (mine.unsafe ?? mine.query).call(mine, 'SET SESSION AUTHORIZATION waits_node');
            return mine;
        });
        const waiting = Promise.allSettled(ids.map((id) => waiter.wait(id, { timeout: '60 s' })));
        await marked(client, ids);
        await client.query(`UPDATE tenon.task SET enqueued_by = 'x' WHERE id = $1`, [ids[0]]);
        await finish(client, ...ids); // they are asked for in one statement
        const [refused, ...others] = await waiting;
        assert.equal(refused.reason.code, '42501');
        assert.deepEqual(
            others.map((one) => one.value),
            [done(ids[1], 1), done(ids[2], 2)],
        );
        await waiter.close();
        await client.query('DROP OWNED BY waits_node; DROP ROLE waits_node');
    });
}

test('what connect made is ended before close() is over, also when it was refused', async () => {
    const client = await DRIVERS['node-postgres']();
    await client.query('BEGIN');
    const end = client.end.bind(client);
    let gone = false;
    client.end = async () => {
        await new Promise((resolve) => setTimeout(resolve, 50));
        await end();
        gone = true;
    };
    const waiter = new Waiter(() => client);
    await assert.rejects(waiter.wait(1), /cannot wait in a transaction/);
    await waiter.close();
    assert.ok(gone);
    let ended = 0;
    const another = { end: () => ended++ };
    await assert.rejects(new Waiter(() => another).wait(1), /a client of node-postgres/);
    assert.equal(ended, 1);
});

test('who waits is told within seconds, also when the connection never ends', async () => {
    const client = await DRIVERS['node-postgres']();
    const end = client.end.bind(client);
    client.end = () => new Promise(() => {});
    await client.query('BEGIN');
    await assert.rejects(new Waiter(() => client).wait(1), /cannot wait in a transaction/);
    await end();
});

test("a pool's client goes with the waiter, and the pool stays", async (t) => {
    const pool = new pg.Pool({ connectionString: DATABASE_URL });
    t.after(() => pool.end());
    const waiter = new Waiter(() => pool.connect());
    assert.equal((await waiter.wait(10n ** 12n)).state, null);
    await waiter.close();
    assert.equal(pool.totalCount, 0);
    assert.equal((await pool.query('SELECT 1')).rows.length, 1);
});

const LAST = `SELECT pid, query ~ 'tenon.result' AS asked, state = 'idle' AND now() - state_change > '2 s' AS quiet,
    state = 'idle' AND query ~ 'tenon.await' AS waits
    FROM pg_stat_activity WHERE application_name = '${NAME}' AND datname = current_database()`;

test('nothing polls, and what a stranger says is only a reason to ask', async (t) => {
    const client = await connected(t);
    const waiter = new Waiter(DRIVERS['node-postgres']);
    t.after(() => waiter.close());
    const [id] = await enqueued(client, 1);
    const waiting = waiter.wait(id);
    await awaited(client, `SELECT bool_and(quiet AND NOT asked) FROM (${LAST}) x`);
    await client.query(`SELECT pg_notify('tenon_ended', $1), pg_notify('tenon_ended', 'x')`, [id]);
    await awaited(client, `SELECT bool_and(asked) FROM (${LAST}) x`);
    await finish(client, id);
    assert.deepEqual(await waiting, done(id, 0));
});

test('a connection that is lost: who waits is told, and who waits then has another', async (t) => {
    const client = await connected(t);
    const [one, two] = await enqueued(client, 2);
    const kill = `SELECT bool_or(pg_terminate_backend(pid)) FROM (${LAST}) x WHERE waits`;
    const db = await DRIVERS['node-postgres']();
    const waits = wait(db, [one, two]);
    const told = assert.rejects(waits, (error) => {
        assert.match(error.message, new RegExp(`^could not wait for tasks ${one}, ${two}: `));
        return error.cause instanceof Error;
    });
    await marked(client, [one, two]);
    await awaited(client, kill);
    await told;
    await awaited(client, `SELECT count(*) = 0 FROM (${LAST}) x`); // it would be killed once more
    const waiter = new Waiter(DRIVERS['node-postgres']);
    const waiting = assert.rejects(waiter.wait(one), { message: /^could not wait for task \d+: / });
    await awaited(client, kill);
    await waiting;
    const again = waiter.wait(two, { timeout: '60 s' });
    await awaited(client, `SELECT count(*) = 1 FROM (${LAST}) x`);
    await finish(client, two);
    assert.deepEqual(await again, done(two, 1));
    assert.deepEqual(await waiter.wait(one, { timeout: '1 ms' }), unfinished(one));
    const last = assert.rejects(
        waiter.wait(one),
        /could not wait for task \d+: the waiter was closed/,
    );
    await waiter.close();
    await last;
    await assert.rejects(waiter.wait(one), /^Error: the waiter was closed/);
});

test('postgres.js connects again by itself, and nothing is missed', async (t) => {
    const client = await connected(t);
    const [id] = await enqueued(client, 1);
    const sql = postgres(DATABASE_URL, { max: 1, connection: { application_name: 'listens' } });
    t.after(() => sql.end());
    const waits = wait(sql, [id], { timeout: '60 s' });
    await marked(client, [id]);
    const listens = `SELECT pid FROM pg_stat_activity WHERE application_name = 'listens' AND query ~* 'listen'`;
    await awaited(client, `SELECT bool_or(pg_terminate_backend(pid)) FROM (${listens}) x`);
    await finish(client, id);
    assert.deepEqual(await waits, [done(id, 0)]);
});

test('a server that is away', async () => {
    const waiter = new Waiter(async () => {
        const client = new pg.Client({ connectionString: 'postgresql://127.0.0.1:1/none' });
        await client.connect();
        return client;
    });
    for (let i = 0; i < 2; i++) {
        await assert.rejects(waiter.wait(17), /could not wait for task 17: .*ECONNREFUSED/);
    }
});

test('each wait connects anew when connect throws at once', async () => {
    let connects = 0;
    const waiter = new Waiter(() => {
        connects++;
        throw new Error('no address');
    });
    await assert.rejects(waiter.wait(1, { timeout: '5 s' }), /no address/);
    await assert.rejects(waiter.wait(1, { timeout: '5 s' }), /no address/);
    assert.equal(connects, 2);
    await waiter.close();
});

test("another role's task is the driver's error, and the others go on", async (t) => {
    const client = await connected(t);
    const [id] = await enqueued(client, 1);
    await client.query(`CREATE ROLE waits_node; SELECT tenon.grant_producer('waits_node')`);
    const waiter = new Waiter(async () => {
        const mine = await DRIVERS['node-postgres']();
        await mine.query('SET SESSION AUTHORIZATION waits_node');
        return mine;
    });
    t.after(() => waiter.close());
    await assert.rejects(waiter.wait(id), { code: '42501' });
    assert.equal((await waiter.wait(10n ** 12n)).state, null);
    await waiter.close();
    await client.query('SET SESSION AUTHORIZATION waits_node');
    await assert.rejects(wait(client, [id]), { code: '42501' });
    await client.query('RESET SESSION AUTHORIZATION');
    await client.query('DROP OWNED BY waits_node; DROP ROLE waits_node');
    assert.equal(await single(client, 'SELECT count(*)::integer FROM pg_listening_channels()'), 0);
});

test('what cannot be waited on, or for, is refused', async (t) => {
    const client = await connected(t);
    const pool = new pg.Pool({ connectionString: DATABASE_URL });
    t.after(() => pool.end());
    await client.query('BEGIN');
    await assert.rejects(wait(client, [1]), /cannot wait in a transaction/);
    await client.query('ROLLBACK');
    assert.equal(await single(client, 'SELECT count(*)::integer FROM pg_listening_channels()'), 0);
    await assert.rejects(wait(pool, [1]), /a client of node-postgres, not its pool/);
    await assert.rejects(new Waiter(() => pool).wait(1), /a client of node-postgres, not its pool/);
    const told = client.processID;
    client.processID = told + 1; // as a pooler does; PgBouncer itself is in tests/enqueue/pooler_test.c
    await assert.rejects(wait(client, [1]), /leads through a pooler/);
    client.processID = told;
    await assert.rejects(wait(client, ['x']), /"x" is not the id of a task/);
    await assert.rejects(wait(client, 17), /ids is 17; it should be an array/);
    await assert.rejects(wait(client, [1], { timeot: 1 }), /there is no option "timeot"/);
    await assert.rejects(wait(client, [1], { timeout: 'soon' }), /timeout is "soon"/);
    await assert.rejects(wait(client, Array(10_001).fill(1)), /at most 10000 in one call/);
    assert.throws(() => new Waiter(client), /it should be a function that makes a connection/);
});
