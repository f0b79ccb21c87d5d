// The cases that every client runs: clients/conformance.
import assert from 'node:assert/strict';
import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
    cancel,
    Dead,
    defineTask,
    enqueue,
    enqueueMany,
    handle,
    publish,
    publishMany,
    Retry,
    result,
    Snooze,
    setLimit,
} from 'tenon-tasks';
import { run, runDue } from 'tenon-tasks/testing';
import { milliseconds } from '../node_modules/tenon-tasks/src/duration.js';
import { connected, HERE, Pool } from './support.js';

const PACKAGE = await realpath(join(HERE, '../node_modules/tenon-tasks'));
const read = async (name) =>
    JSON.parse(await readFile(join(PACKAGE, '../conformance', name), 'utf8'));
const PROTOCOL = await read('protocol.json');
const ENQUEUE = await read('enqueue.json');
const WAIT_FOR = await read('wait_for.json');
const RUN_DUE = await read('run_due.json');
const PUBLISH = await read('publish.json');
const DURATIONS = await read('durations.json');
const TIMES = ['run_at', 'start_before', 'run_ats'];

async function greeted(t) {
    const pool = new Pool(t, join(HERE, 'conformance.fixture.js'));
    const { kinds, in_flight, ...hello } = await pool.line();
    assert.deepEqual(hello, PROTOCOL.hello);
    assert.deepEqual(kinds, PROTOCOL.kinds);
    assert.ok(in_flight >= 4);
    return pool;
}

/** Has `line` what is expected of it? */
function fits(line, expected, { absent = [], ...more }) {
    const { id: _, ...wanted } = expected;
    for (const [key, value] of Object.entries(wanted)) {
        assert.deepEqual(line[key], value);
    }
    assert.deepEqual(
        absent.filter((key) => key in line),
        [],
    );
    if (more.error_contains) assert.ok(line.error.includes(more.error_contains), line.error);
    for (const text of more.error_without ?? []) assert.ok(!line.error.includes(text));
    if (more.error_bytes_max) assert.ok(Buffer.byteLength(line.error) <= more.error_bytes_max);
    if (more.result_begins) assert.ok(line.result.startsWith(more.result_begins), line.result);
}

function fitsAny(line, all, step) {
    const found = all.some((expected) => {
        try {
            fits(line, expected, step);
            return true;
        } catch {
            return false;
        }
    });
    assert.ok(found, `${JSON.stringify(line)} is none of ${JSON.stringify(all)}`);
}

/** A line of texts, some of them many times. */
function lineOf(send) {
    return Array.isArray(send)
        ? send.map((one) => (Array.isArray(one) ? one[0].repeat(one[1]) : one)).join('')
        : send;
}

const idIn = (text) => /"id": ?(\d+)/.exec(text)?.[1];

async function runStep(pool, step, ids) {
    if ('send' in step) {
        const line = lineOf(step.send);
        ids.add(idIn(typeof line === 'string' ? line : JSON.stringify(line)));
        pool.say(line);
    } else if ('end' in step) {
        pool.child.stdin.end();
    } else if ('exit' in step) {
        assert.equal((await pool.end).code, step.exit);
        assert.deepEqual(pool.lines, []);
    } else {
        const text = await pool.text();
        const all = step.expect_any ?? [step.expect];
        assert.ok(ids.has(idIn(text)), text); // digit by digit
        assert.equal(JSON.parse(text).id, all[0].id);
        fitsAny(JSON.parse(text), all, step);
    }
}

test('protocol.json', async (t) => {
    let shared;
    for (const { name, steps } of PROTOCOL.cases) {
        await t.test(name, { timeout: 20_000 }, async (of) => {
            const ends = steps.some((step) => 'end' in step);
            shared ??= ends ? undefined : await greeted(t);
            const pool = ends ? await greeted(of) : shared;
            const ids = new Set();
            for (const step of steps) {
                await runStep(pool, step, ids);
            }
            assert.deepEqual(pool.lines, []);
        });
    }
});

const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
const moment = (text) => (text === null ? null : new Date(text));

function optionsOf(options) {
    return Object.fromEntries(
        Object.entries(options).map(([name, value]) => [
            camel(name),
            TIMES.includes(name)
                ? Array.isArray(value)
                    ? value.map(moment)
                    : moment(value)
                : value,
        ]),
    );
}

const task = defineTask(ENQUEUE.kind);
const given = ({ payload, options = {} }) => [payload, optionsOf(options)];

async function rowOf(client, id, table = 'tasks') {
    const sql = `SELECT to_jsonb(t) AS row FROM tenon.${table} t WHERE t.id = $1`;
    return (await client.query(sql, [id])).rows[0].row;
}

async function checkRow(client, id, of) {
    const row = await rowOf(client, id);
    for (const [key, value] of Object.entries(of.row ?? {})) assert.deepEqual(row[key], value, key);
    const own = of.task && (await rowOf(client, id, 'task'));
    for (const [key, value] of Object.entries(of.task ?? {})) assert.deepEqual(own[key], value);
    if (of.delay_ms) {
        const late = Date.parse(row.run_at) - Date.parse(row.created_at) - of.delay_ms;
        assert.ok(Math.abs(late) <= 1000, `${late} ms`);
    }
}

async function rolledBack(t, work) {
    const client = await connected(t);
    await client.query(`SET timezone = 'UTC'`);
    await client.query('BEGIN');
    await work(client);
    await client.query('ROLLBACK');
}

/** What tenon refuses with this SQLSTATE, or the client before. */
function refused(promise, code) {
    return assert.rejects(promise, (error) => error.code === code || error instanceof TypeError);
}

for (const of of ENQUEUE.enqueue) {
    test(`enqueue.json: ${of.name}`, (t) =>
        rolledBack(t, async (client) => {
            if (of.error) {
                return refused(enqueue(client, task, ...given(of)), of.error);
            }
            const first = of.first && (await enqueue(client, task, ...given(of.first)));
            const id = await enqueue(client, task, ...given(of));
            assert.ok(!of.same_id || id === first);
            await checkRow(client, id, of);
        }));
}

for (const of of ENQUEUE.enqueue_many) {
    test(`enqueue.json, many: ${of.name}`, (t) =>
        rolledBack(t, async (client) => {
            const made = enqueueMany(client, task, of.payloads, optionsOf(of.options));
            if (of.error) {
                return refused(made, of.error);
            }
            const ids = await made;
            assert.equal(ids.length, of.rows.length);
            for (const [i, row] of of.rows.entries()) {
                await checkRow(client, ids[i], { row });
            }
        }));
}

async function taskIn(client, state, before) {
    if (state === 'same' || state === 'missing') {
        return state === 'same' ? before : '999999999999';
    }
    const id = await enqueue(client, task, {});
    if (state === 'cancelled') {
        await cancel(client, id);
    }
    return id;
}

for (const of of WAIT_FOR.cases) {
    const { name } = WAIT_FOR;
    const since = `${name}:since`;
    const waits = (ids, client, steps) => {
        const states = handle(task, async (_, context) => {
            const ended = await context.waitFor(ids, client, name);
            return ended.map(({ state }) => state);
        });
        return run(states, {}, { steps });
    };

    test(`wait_for.json: ${of.name}`, (t) =>
        rolledBack(t, async (client) => {
            const ids = [];
            for (const state of of.tasks) {
                ids.push(await taskIn(client, state, ids.at(-1)));
            }
            const steps = of.waited_ms ? { [since]: Date.now() - of.waited_ms } : {};
            const ended = await waits(ids, client, steps);
            const recorded = Object.keys(ended.steps);
            assert.equal(ended.outcome, of.outcome);
            if (of.states) {
                const again = await waits(ids, null, ended.steps);
                assert.deepEqual([ended.result, recorded], [of.states, [name]]);
                assert.deepEqual([again.result, again.steps], [of.states, {}]);
            } else {
                const [least, most] = of.delay_ms;
                assert.ok(least <= ended.delayMs && ended.delayMs <= most, `${ended.delayMs} ms`);
                assert.deepEqual(recorded, of.waited_ms ? [] : [since]);
            }
        }));
}

const AGAIN = {
    snooze: () => new Snooze('not yet', { after: '1 h' }),
    failed: () => new Retry('not yet', { after: '1 h' }),
    dead: () => new Dead('never'),
};

/** A handler, and the names of the tasks that it has run. */
function dueHandler(tasks) {
    const first = new Map(tasks.map((one) => [one.name, one.first]));
    const ran = [];
    const handler = handle(defineTask(RUN_DUE.kind), ({ name }) => {
        const how = first.get(name);
        first.delete(name);
        ran.push(name);
        if (how) throw AGAIN[how]();
        return name;
    });
    return { handler, ran };
}

for (const of of RUN_DUE.cases) {
    test(`run_due.json: ${of.name}`, (t) =>
        rolledBack(t, async (client) => {
            const { handler, ran } = dueHandler(of.tasks);
            for (const [name, maxRunning] of Object.entries(of.limits ?? {})) {
                await setLimit(client, name, { maxRunning });
            }
            const ids = [];
            for (const { name, delay_ms, limit_keys, max_attempts } of of.tasks) {
                const options = { limitKeys: limit_keys, maxAttempts: max_attempts };
                const delay = delay_ms && { milliseconds: delay_ms };
                ids.push(await enqueue(client, handler.task, { name }, { ...options, delay }));
            }
            for (const { ahead_ms, ran: wanted } of of.calls) {
                const ahead = ahead_ms && { milliseconds: ahead_ms };
                const runs = await runDue(client, [handler], { ahead });
                const names = ran.splice(0);
                assert.deepEqual(
                    runs.map(({ outcome }, i) => `${names[i]} ${outcome}`),
                    wanted,
                );
            }
            const states = [];
            for (const id of ids) {
                states.push((await result(client, id)).state);
            }
            assert.deepEqual(states, of.states);
        }));
}

const inCamel = (options) =>
    Object.fromEntries(
        Object.entries(options).map(([name, value]) => [
            name.replace(/_(.)/g, (_, letter) => letter.toUpperCase()),
            value,
        ]),
    );

function bodyOf(of) {
    const bytes = (hex) => Buffer.from(hex, 'hex');
    if ('hex' in of) {
        return Array.isArray(of.hex) ? of.hex.map(bytes) : bytes(of.hex);
    }
    return 'text' in of ? of.text : of.json;
}

async function checkMessage(client, id, row, hex, json) {
    const { rows } = await client.query(
        `SELECT to_jsonb(o) - 'body' AS row, encode(o.body, 'hex') AS hex,
            (o.expires_at - o.created_at)::text AS expires FROM tenon.outbox o WHERE id = $1`,
        [id],
    );
    for (const [key, value] of Object.entries(row)) {
        assert.deepEqual(rows[0].row[key], value, key);
    }
    if (hex === undefined) {
        assert.deepEqual(JSON.parse(Buffer.from(rows[0].hex, 'hex')), json);
    } else {
        assert.equal(rows[0].hex, hex);
    }
    return rows[0];
}

for (const of of PUBLISH.publish) {
    test(`publish.json: ${of.name}`, (t) =>
        rolledBack(t, async (client) => {
            const options = inCamel(of.options);
            const made = publish(client, of.exchange, of.routing_key, bodyOf(of), options);
            if (of.error) {
                return refused(made, of.error);
            }
            const row = await checkMessage(client, await made, of.row, of.body_hex, of.body_json);
            if (of.expires_ms) {
                assert.equal(row.expires, '00:10:00');
            }
        }));
}

for (const of of PUBLISH.publish_many) {
    test(`publish.json, many: ${of.name}`, (t) =>
        rolledBack(t, async (client) => {
            const options = inCamel(of.options);
            const made = publishMany(client, of.exchange, of.routing_key, bodyOf(of), options);
            if (of.error) {
                return refused(made, of.error);
            }
            const ids = await made;
            assert.equal(ids.length, of.rows.length);
            for (const [i, row] of of.rows.entries()) {
                await checkMessage(client, ids[i], row, of.bodies_hex?.[i], of.bodies_json?.[i]);
            }
        }));
}

test('publish: what it refuses itself', async () => {
    await assert.rejects(publish({}, 'a', 'b', 'c', { orderkey: 'x' }), /no option "orderkey"/);
    await assert.rejects(publishMany({}, 'a', 'b', [Buffer.of(1), 'text']), /different forms/);
    await assert.rejects(publishMany({}, 'a', 'b', 'c'), TypeError);
});

test('durations.json', () => {
    for (const [text, ms] of DURATIONS.texts) {
        assert.equal(milliseconds(text, 'it'), ms, text);
    }
    for (const text of DURATIONS.refused) {
        assert.throws(() => milliseconds(text, 'it'), TypeError, text);
    }
});
