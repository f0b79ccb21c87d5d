// Encryption: the vectors that both clients read (clients/conformance/secrets.json), and what a worker and a database get to see.
import assert from 'node:assert/strict';
import { readFile, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { defineTask, enqueue, enqueueMany, handle, Keys, SecretError, setKeys } from 'tenon-tasks';
import { mine, run, runMine } from 'tenon-tasks/testing';
import { charge, KEYS, onCharge } from './secrets.fixture.js';
import { connected, DATABASE_URL, directory, HERE, Pool, ran, TENON_NODE } from './support.js';

const FIXTURE = join(HERE, 'secrets.fixture.js');
const PACKAGE = await realpath(join(HERE, '../node_modules/tenon-tasks'));
const VECTORS = JSON.parse(await readFile(join(PACKAGE, '../conformance/secrets.json'), 'utf8'));
const vectorKeys = Object.entries(VECTORS.keys).map(([id, key]) => [
    id,
    Buffer.from(key, 'base64'),
]);
const NUMBER = '4111 1111 1111 1111';

test('both clients write and read the same', () => {
    assert.deepEqual(new Set(VECTORS.sealed.map(({ by }) => by)), new Set(['node', 'python']));
    for (const { kind, what, plain, envelope } of VECTORS.sealed) {
        const { key, nonce } = envelope['tenon:secret'];
        const first = vectorKeys.filter(([id]) => id === key);
        const rest = vectorKeys.filter(([id]) => id !== key);
        const keys = new Keys([...first, ...rest]);
        assert.deepEqual(keys.sealText(plain, kind, what, Buffer.from(nonce, 'base64')), envelope);
        const opened = new Keys(vectorKeys).decrypt(envelope, { kind, what });
        assert.deepEqual(opened, JSON.parse(plain));
    }
});

for (const { why, kind, what, envelope, error } of VECTORS.refused) {
    test(`refused: ${why}`, () => {
        const decrypt = () => new Keys(vectorKeys).decrypt(envelope, { kind, what });
        assert.throws(decrypt, (thrown) => {
            assert.ok(thrown instanceof SecretError);
            assert.ok(thrown.message.includes(error), thrown.message);
            return thrown.cause === undefined;
        });
    });
}

test('keys', () => {
    const [b, a] = [Buffer.alloc(32, 'b'), Buffer.alloc(32, 'a')];
    const text = `b:${b.toString('base64')}  a:${a.toString('base64')}\n`;
    const keys = Keys.parse(text);
    assert.deepEqual(keys.ids, ['b', 'a']);
    const one = keys.encrypt({ n: 1 }, { kind: 'k' });
    assert.equal(one['tenon:secret'].key, 'b');
    assert.notDeepEqual(keys.encrypt({ n: 1 }, { kind: 'k' }), one); // a nonce of its own
    const old = new Keys({ a }).encrypt([1], { kind: 'k', what: 'result' });
    assert.deepEqual(keys.decrypt(old, { kind: 'k', what: 'result' }), [1]);
    assert.deepEqual(keys.decrypt({ plain: 1 }, { kind: 'k' }), { plain: 1 });
    for (const wrong of [
        `a:${b.toString('base64').slice(8)}`,
        'a',
        'a:x!',
        ':AAAA',
        '',
        text + text,
    ]) {
        assert.throws(
            () => Keys.parse(wrong),
            ({ message }) => /key/.test(message) && !message.includes('YmJi'),
        );
    }
});

test('without keys', async (t) => {
    const client = await connected(t);
    setKeys(null);
    t.after(() => setKeys(KEYS));
    await assert.rejects(
        enqueue(client, charge, { number: NUMBER }),
        /the payload of charge is to be encrypted, but there are no keys/,
    );
    const plain = handle(defineTask('plain'), () => 'not run');
    const { outcome, error, errorClass } = await run(plain, KEYS.encrypt({}, { kind: 'plain' }));
    assert.deepEqual([outcome, errorClass], ['failed', 'SecretError']);
    assert.match(error, /the payload of plain is encrypted, but there are no keys/);
});

test('options', async (t) => {
    const client = await connected(t);
    const merge = { uniqueKey: 'a', onConflict: 'merge' };
    await assert.rejects(enqueue(client, charge, { number: NUMBER }, merge), /cannot merge/);
    assert.throws(() => defineTask('x', null, { secret: true }), /it should be 'payload' or 'all'/);
});

test('a test sees plain values', async (t) => {
    const client = await connected(t);
    await client.query('BEGIN');
    await enqueue(client, charge, { number: NUMBER });
    assert.deepEqual((await mine(client))[0].payload, { number: NUMBER });
    const [{ result, progress, steps }] = await runMine(client, [onCharge]);
    assert.deepEqual([result, progress], [{ last: NUMBER }, [{ at: NUMBER }]]);
    assert.deepEqual(steps, { authorise: `code of ${NUMBER}` });
    await client.query('ROLLBACK');
});

async function stored(client) {
    const tables = ['tasks', 'task', 'history', 'dead', 'attempt'];
    const texts = tables.map((table) => `SELECT t::text FROM tenon.${table} t`);
    const { rows } = await client.query(texts.join(' UNION ALL '));
    return JSON.stringify(rows);
}

test('the database sees ciphertext', async (t) => {
    const client = await connected(t);
    const id = await enqueue(client, charge, { number: NUMBER });
    for (const fails of ['raises', 'says', 'retries', 'result', 'misfit']) {
        await enqueue(client, charge, { number: NUMBER, fails });
    }
    await enqueueMany(client, charge, [{ number: NUMBER }, { number: NUMBER }]);
    assert.doesNotMatch(await stored(client), /4111/);
    const file = join(await directory(t), 'handlers.conf');
    const { out } = await ran(process.execPath, [TENON_NODE, '--print-handlers', FIXTURE]);
    await writeFile(file, out);
    const env = {
        ...process.env,
        AMQP_URL: 'none',
        SECRET_CHILD: '1',
        APP_DATABASE_URL: DATABASE_URL,
    };
    await ran(process.env.TENON, ['worker', '--until-empty', '--handlers', file], { env });
    const text = await stored(client);
    assert.doesNotMatch(text, /4111/);
    assert.match(text, /Secret, but said on purpose/);
    assert.match(text, /RangeError \(its message is not kept, because the task is secret\)/);
    assert.match(text, /InvalidPayload \(its message is not kept/);
    assert.match(text, /at deeper/);
    const { rows } = await client.query('SELECT result FROM tenon.tasks WHERE id = $1', [id]);
    const result = KEYS.decrypt(rows[0].result, { kind: 'charge', what: 'result' });
    assert.deepEqual(result, { last: NUMBER });
});

test('progress and steps come back', async (t) => {
    const pool = new Pool(t, FIXTURE);
    await pool.line();
    pool.task(1, 'charge', KEYS.encrypt({ number: NUMBER }, { kind: 'charge' }));
    const [{ progress }, { step }] = [await pool.line(), await pool.line()];
    pool.say('{"step":1,"name":"authorise","recorded":true}');
    assert.doesNotMatch(JSON.stringify([progress, step, await pool.line()]), /4111/);
    const more = { progress, steps: { authorise: step.value } };
    pool.task(2, 'charge', { number: NUMBER, fails: 'shows' }, more);
    const shown = KEYS.decrypt((await pool.line()).result, { kind: 'charge', what: 'result' });
    assert.deepEqual(shown, [{ at: NUMBER }, `code of ${NUMBER}`]);
    pool.task(3, 'charge', KEYS.encrypt({ number: NUMBER }, { kind: 'refund' }));
    const { outcome, error, error_class } = await pool.line();
    assert.deepEqual([outcome, error_class], ['failed', 'SecretError']);
    assert.match(error, /the payload of charge cannot be decrypted with the key '2026-11'/);
});
