// Results of tests/answers.json, as far as JavaScript has them: returned by a handler, and kept by a real worker.
import assert from 'node:assert/strict';
import { readFile, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { defineTask, enqueue } from 'tenon-tasks';
import { connected, directory, HERE, ran, TENON_NODE } from './support.js';

const NOTE = 'tenon: the result was not kept: ';

function value(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined; // JavaScript cannot have it
    }
}

async function results() {
    const client = await realpath(join(HERE, '../node_modules/tenon-tasks'));
    const { results } = JSON.parse(
        await readFile(join(client, '../../tests/answers.json'), 'utf8'),
    );
    return results.map(({ name, text, pool }) => {
        const pieces = text.map((one) => (typeof one === 'string' ? one : one[0].repeat(one[1])));
        return { name, text: pieces.join(''), pool };
    });
}

test('each is kept or a note, and costs no neighbour', async (t) => {
    const client = await connected(t);
    const there = (await results()).filter(({ text }) => value(text) !== undefined);
    assert.ok(there.length > 15);
    const texts = join(await directory(t), 'texts.json');
    await writeFile(texts, JSON.stringify(Object.fromEntries(there.map((r) => [r.name, r.text]))));
    for (const { name } of there) {
        await enqueue(client, defineTask('answers'), name, { maxAttempts: 1 });
    }
    const fixture = join(HERE, 'answers.fixture.js');
    const handler = `answers=pool:exec ${process.execPath} ${TENON_NODE} --concurrency 64 ${fixture}`;
    const args = ['worker', '--until-empty', '--slots', '1', '--handler', handler];
    await ran(process.env.TENON, args, {
        env: { ...process.env, TEXTS: texts, TENON_AMQP_URL: 'none' },
    });
    const { rows } = await client.query(
        'SELECT payload, outcome, claims, result::text FROM tenon.history',
    );
    assert.equal(rows.length, there.length);
    for (const { payload, outcome, claims, result } of rows) {
        const { text, pool } = there.find(({ name }) => name === payload);
        assert.deepEqual([outcome, claims], ['done', 1], payload);
        const noted = result.startsWith(`"${NOTE}`);
        if (noted && /Maximum call stack/.test(result)) {
            continue; // JSON.stringify cannot have it
        }
        const given = JSON.stringify(value(text)); // of 1e400: null
        if (pool === 'note' && given === text) {
            assert.ok(noted, payload);
        } else if (!noted || (pool === 'kept' && given === text)) {
            assert.ok(JSON.stringify(value(result)) === given, payload);
        }
    }
});
