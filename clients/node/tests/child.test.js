// The pool child as a worker sees it: docs/protocol.md, line by line.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { directory, HERE, Pool, ran, TENON_NODE } from './support.js';

const FIXTURE = join(HERE, 'handlers.fixture.js');

async function started(t, args = [], env = {}) {
    const pool = new Pool(t, FIXTURE, args, env);
    const hello = await pool.line();
    assert.equal(hello.hello, 'tenon');
    return pool;
}

/** What is answered to one task. */
async function answer(pool, kind, payload, more) {
    pool.task(1, kind, payload, more);
    const { id, ...reply } = await pool.line();
    assert.equal(id, 1);
    return reply;
}

test('it says hello with its concurrency', async (t) => {
    const pool = new Pool(t, FIXTURE, ['--concurrency', '3']);
    const { kinds, ...hello } = await pool.line();
    assert.deepEqual(hello, { hello: 'tenon', in_flight: 3, stop: true });
    assert.ok(kinds.includes('echo') && kinds.includes('dead'));
});

test('many tasks at once, answered in any order', async (t) => {
    const pool = await started(t);
    pool.task(1, 'wait', { name: 'a' });
    pool.task(2, 'wait', { name: 'b' });
    pool.task(3, 'release', { name: 'b' });
    const [one, two] = [await pool.line(), await pool.line()];
    assert.deepEqual(
        [one, two].sort((a, b) => a.id - b.id),
        [
            { id: 2, outcome: 'done', result: 'released b' },
            { id: 3, outcome: 'done' },
        ],
    );
    pool.task(4, 'release', { name: 'a' });
    const ids = [(await pool.line()).id, (await pool.line()).id];
    assert.deepEqual(ids.sort(), [1, 4]);
});

test('payloads of any text and size arrive as they were', async (t) => {
    const pool = await started(t);
    const payload = { text: '\u2028\u2029\r\n\t"\\ \u0001 😀', long: 'ä'.repeat(600_000) };
    assert.deepEqual(await answer(pool, 'echo', payload), { outcome: 'done', result: payload });
    const whole = JSON.stringify({ kind: 'echo', timeout_ms: 1000, payload: 'cut' }).slice(1);
    const bytes = Buffer.from(`{"id":9007199254740993,${whole}\n`);
    for (const byte of bytes) {
        pool.child.stdin.write(Buffer.of(byte)); // also cut within a line
    }
    assert.match(await pool.text(), /^\{"id":9007199254740993,/); // more than a double has digits for
});

test('the context tells what the line says', async (t) => {
    const pool = await started(t);
    const more = { attempt: 3, failures: 2, progress: { done: 7 }, trace: '00-a-b-01' };
    const { result } = await answer(pool, 'context', {}, more);
    assert.deepEqual(result, {
        id: '1',
        kind: 'context',
        queue: 'default',
        attempt: 3,
        failures: 2,
        maxAttempts: 25,
        trace: '00-a-b-01',
        claim: '1/1/0000000000000000',
        checkpoint: { done: 7 },
        aborted: false,
    });
    const before = Date.now();
    const told = await answer(pool, 'until', {}, { timeout_ms: 60_000 });
    const deadline = Date.parse(told.result);
    assert.ok(deadline >= before + 60_000 && deadline <= Date.now() + 60_000, told.result);
});

const OUTCOMES = [
    ['nothing', { outcome: 'done' }],
    [
        'fails',
        {
            outcome: 'failed',
            error: /^Error: no funds\n.*at .*handlers\.fixture/s,
            error_class: 'CardDeclined',
        },
    ],
    [
        'refused',
        {
            outcome: 'failed',
            error: /fetch failed.*caused by: .*ECONNREFUSED/s,
            error_class: 'ECONNREFUSED',
        },
    ],
    [
        'retry',
        {
            outcome: 'failed',
            error: /^busy\nRangeError: 451/,
            error_class: 'RangeError',
            delay_ms: 30_000,
        },
    ],
    ['snooze', { outcome: 'snooze', error: 'not yet', delay_ms: 1500 }],
    ['dead', { outcome: 'dead', error: 'no such address', error_class: 'Dead' }],
    ['interrupted', { outcome: 'interrupted' }],
    ['odd', { outcome: 'failed', error: 'undefined', error_class: 'undefined' }],
    [
        'wrong_after',
        {
            outcome: 'failed',
            error: /after is "soon"; it should be like /,
            error_class: 'TypeError',
        },
    ],
    ['unknown', { outcome: 'failed', error: 'no handler for unknown' }],
];

test('each way to end has its outcome', async (t) => {
    const pool = await started(t);
    for (const [kind, expected] of OUTCOMES) {
        const { error, ...rest } = await answer(pool, kind);
        const { error: wanted, ...others } = expected;
        assert.deepEqual(rest, others);
        assert[wanted instanceof RegExp ? 'match' : 'equal'](error, wanted);
        assert.doesNotMatch(error ?? '', /tenon\/src|node\/src/); // none of our own frames
    }
});

test('the handler gets what the schema makes; a payload that does not fit is dead', async (t) => {
    const pool = await started(t);
    const fits = await answer(pool, 'mail', { to: 'ann', at: '2026-01-01T00:00:00Z' });
    assert.deepEqual(fits, { outcome: 'done', result: ['ann', 2026] });
    const { outcome, error, error_class } = await answer(pool, 'mail', { to: 5 });
    assert.deepEqual([outcome, error_class], ['dead', 'InvalidPayload']);
    assert.match(error, /^the payload does not fit mail: to: .*; at: /);
});

test('results and errors that the protocol does not take are cut, not fatal', async (t) => {
    const pool = await started(t);
    const result = async (what) => (await answer(pool, 'result', { what })).result;
    assert.match(await result('map'), /^tenon: the result was not kept: .* is a Map$/);
    assert.match(await result('long'), /not kept: it is longer than 2 MB/);
    assert.match(
        await result('deep'),
        /not kept: it is (longer than 2 MB, or too deep|not JSON: Maximum call stack)/,
    );
    const notes = {
        surrogate: /it has \\udc00 in a text, which PostgreSQL cannot store/,
        zero: /it has \\u0000 in a text/,
        bigint: /"n" is a bigint/,
        infinity: /"1" is -Infinity/,
        circular: /circular structure/,
        symbol: /it is a symbol/,
        toJSON: /an error whose message cannot be read/,
    };
    for (const [what, note] of Object.entries(notes)) {
        const text = await result(what);
        assert.match(text, /^tenon: the result was not kept: /);
        assert.match(text, note);
    }
    assert.equal(await result('exponent'), 1e-300);
    const { error } = await answer(pool, 'long_error');
    assert.ok(Buffer.byteLength(error) <= 8191);
    assert.match(error, /^Error: 😀+\n\[\.\.\.\]\n[^\ufffd]*\ufffd\n.*fixture/su); // U+0000 became U+FFFD
});

test('whatever is thrown costs its own task only', async (t) => {
    const pool = await started(t);
    pool.task(1000, 'wait', { name: 'neighbour' });
    const thrown = async (what) => answer(pool, 'throws', { what });
    assert.equal((await thrown('object')).error, '[object Object]');
    for (const what of ['symbol', 'getter', 'bare']) {
        assert.equal((await thrown(what)).outcome, 'failed');
    }
    assert.equal((await thrown('long_class')).error_class, 'ä'.repeat(50));
    assert.equal((await thrown('delay')).delay_ms, 3);
    assert.equal((await thrown('no_delay')).delay_ms, 1);
    const { error, error_class } = await thrown('aggregate');
    assert.equal(error_class, 'AggregateError');
    assert.match(error, /^AggregateError: all failed\n.*\[0\] Error: first address\n/s);
    assert.match(error, /\[1\] TypeError: second address\n.*caused by: Error: the cause\n/s);
    assert.match((await thrown('many')).error, /\[9\] Error: no. 9\n.*\nand 2 more$/s);
    pool.task(1001, 'release', { name: 'neighbour' });
    const last = [await pool.line(), await pool.line()];
    assert.deepEqual(last.map(({ id, outcome }) => [id, outcome]).sort(), [
        [1000, 'done'],
        [1001, 'done'],
    ]);
});

test('what handlers print does not get into the protocol', async (t) => {
    const pool = await started(t);
    assert.deepEqual(await answer(pool, 'print'), { outcome: 'done', result: 'printed' });
    pool.child.stdin.end();
    const { code, err } = await pool.end;
    assert.equal(code, 0);
    assert.match(err, /"outcome":"dead"\}\nno line feed\n/);
});

test('progress and more time, but nothing after the answer and nothing too long', async (t) => {
    const pool = await started(t);
    pool.task(1, 'progress', { bad: true });
    const said = { done: 1, text: '\ufffd' };
    assert.deepEqual(await pool.line(), { id: 1, progress: said });
    assert.deepEqual(await pool.line(), { id: 1, extend_ms: 120_000 });
    assert.deepEqual(await pool.line(), { id: 1, outcome: 'done', result: said });
    pool.task(2, 'says_more'); // of the first one, which has been answered
    assert.deepEqual(await pool.line(), { id: 2, outcome: 'done' });
    pool.child.stdin.end();
    const { err } = await pool.end;
    assert.match(err, /RangeError\nRangeError\nTypeError/);
});

test('a task that is cancelled hears it, and only that one', async (t) => {
    const pool = await started(t);
    pool.task(1, 'listens');
    pool.task(2, 'says_why');
    pool.say('{"stop":1,"why":"cancelled"}');
    assert.deepEqual(await pool.line(), { id: 1, outcome: 'interrupted' });
    pool.say('{"stop":77,"why":"lost"}'); // was answered long ago
    pool.say('{"stop":2,"why":"lost"}');
    assert.deepEqual(await pool.line(), { id: 2, outcome: 'done', result: 'lost' });
    pool.child.stdin.end();
    const { err } = await pool.end;
    assert.match(err, /^1 cancelled true$/m);
});

test('a drain is heard by all; what has ended its tasks ends', async (t) => {
    const pool = await started(t);
    pool.task(1, 'listens');
    pool.task(2, 'says_why');
    pool.say('{"stop":null,"why":"drain"}');
    pool.child.stdin.end();
    const lines = [await pool.line(), await pool.line()].sort((a, b) => a.id - b.id);
    assert.deepEqual(lines, [
        { id: 1, outcome: 'interrupted' },
        { id: 2, outcome: 'done', result: 'drain' },
    ]);
    const { code, err } = await pool.end;
    assert.equal(code, 0);
    assert.match(err, /^1 drain false$/m); // nobody has abandoned it
});

test("the end of a task's time is heard, and is a failure", async (t) => {
    const pool = await started(t);
    pool.task(1, 'listens', {}, { timeout_ms: 20 });
    const { outcome, error, error_class } = await pool.line();
    assert.deepEqual([outcome, error_class], ['failed', 'AbortError']);
    assert.match(error, /the time is over/);
    pool.task(2, 'says_why', {}, { timeout_ms: 20 });
    assert.equal((await pool.line()).result, 'timeout');
    pool.task(3, 'says_why', {}, { timeout_ms: 3_000_000_000 }); // more than a timer takes
    pool.task(4, 'naps');
    assert.equal((await pool.line()).id, 4);
    pool.say('{"stop":3,"why":"cancelled"}');
    assert.equal((await pool.line()).result, 'cancelled');
});

const told = (step, name, recorded = true) => JSON.stringify({ step, name, recorded });

test('a step returns when it is recorded, and what is recorded is not done again', async (t) => {
    const pool = await started(t);
    const at = '1970-01-01T00:00:00.000Z';
    pool.task(1, 'buys');
    assert.deepEqual(await pool.line(), { id: 1, step: { name: 'price', value: { at } } });
    pool.task(2, 'nothing'); // meanwhile
    assert.deepEqual(await pool.line(), { id: 2, outcome: 'done' });
    pool.say(told(1, 'price'));
    assert.deepEqual(await pool.line(), { id: 1, step: { name: 'pay', value: null } });
    pool.say(told(1, 'pay'));
    const steps = { price: { at }, pay: null };
    assert.deepEqual(await pool.line(), { id: 1, outcome: 'done', result: { at, steps } });
    const again = await answer(pool, 'buys', {}, { steps: { price: { at: 'then' }, pay: 7 } });
    assert.deepEqual(again.result, { at: 'then', steps: { price: { at: 'then' }, pay: 7 } });
});

test('two steps at once, and one that is refused', async (t) => {
    const pool = await started(t);
    pool.task(1, 'both_steps');
    const asked = [await pool.line(), await pool.line()].map(({ step }) => step.name);
    assert.deepEqual(asked.sort(), ['a', 'b']);
    for (const name of asked) pool.say(told(1, name));
    assert.deepEqual(await pool.line(), { id: 1, outcome: 'done', result: [1, 2] });
    pool.task(2, 'buys');
    await pool.line();
    pool.say(told(2, 'price', false));
    const { outcome, error } = await pool.line();
    assert.equal(outcome, 'failed');
    assert.match(error, /the step price was not recorded: a task has 1,000 steps/);
});

test('steps that cannot be', async (t) => {
    const pool = await started(t);
    const { result } = await answer(pool, 'misuses_steps');
    for (const said of result.slice(0, 4)) {
        assert.match(said, /^the name of a step or signal is .*; it should be a text of 1 to 100/);
    }
    assert.deepEqual(result.slice(4), [
        'the step outer is being done: give the other another name',
        'the step long is longer than 1 MiB',
        'the step zero has \\u0000 in a text, which PostgreSQL cannot store',
        'wait for a signal for 1 ms to 365 days, not 0 ms',
    ]);
});

test('who waits for a record is interrupted by a lost claim and by the end of input', async (t) => {
    const pool = await started(t);
    pool.task(1, 'buys');
    pool.task(2, 'buys');
    await pool.line();
    await pool.line();
    pool.say('{"stop":null,"why":"drain"}'); // the record comes all the same
    pool.say('{"stop":1,"why":"lost"}');
    assert.deepEqual(await pool.line(), { id: 1, outcome: 'interrupted' });
    pool.child.stdin.end();
    assert.deepEqual(await pool.line(), { id: 2, outcome: 'interrupted' });
    assert.equal((await pool.end).code, 0);
});

test('sleeping and waiting end the attempt, whatever the handler makes of it', async (t) => {
    const pool = await started(t);
    const steps = { nap: 1 };
    const waits = { outcome: 'wait_signal', signal: 'paid', timeout_ms: 5000 };
    assert.deepEqual(await answer(pool, 'goes_on_later', {}, { steps }), waits);
    const paid = { ...steps, paid: { amount: 30 } };
    const done = { outcome: 'done', result: { paid: paid.paid } };
    assert.deepEqual(await answer(pool, 'goes_on_later', {}, { steps: paid }), done);
    const late = { outcome: 'done', result: { paid: null } };
    assert.deepEqual(
        await answer(pool, 'goes_on_later', {}, { steps: { nap: 1, paid: null } }),
        late,
    );
    pool.task(1, 'goes_on_later');
    const { step } = await pool.line();
    pool.say(told(1, 'nap'));
    const { outcome, delay_ms } = await pool.line();
    assert.deepEqual([step.name, outcome], ['nap', 'snooze']);
    assert.ok(delay_ms > 3_000_000 && delay_ms <= 3_600_000);
});

test('TERM stops everything, and what was stopped is interrupted', async (t) => {
    const pool = await started(t);
    pool.task(1, 'listens');
    pool.task(2, 'echo');
    assert.equal((await pool.line()).id, 2);
    pool.child.kill('SIGTERM');
    assert.deepEqual(await pool.line(), { id: 1, outcome: 'interrupted' });
    assert.equal((await pool.end).code, 0);
});

for (const [kind, wanted] of [
    ['timer_throws', /^TypeError: in a timer/],
    ['rejects', /^RangeError: nobody awaits me/],
    ['emits', /^Error: no listener/],
]) {
    test(`an error that nobody catches is its task's, and the process is replaced: ${kind}`, async (t) => {
        const pool = await started(t);
        pool.task(1, 'wait', { name: 'a' });
        pool.task(2, kind);
        assert.deepEqual(await pool.line(), { bye: true });
        const { id, outcome, error } = await pool.line();
        assert.deepEqual([id, outcome], [2, 'failed']);
        assert.match(error, wanted);
        pool.task(3, 'echo'); // not taken any more
        pool.child.kill('SIGTERM');
    });
}

test('a module that cannot be had, or has no handlers, does not start', async (t) => {
    const dir = await directory(t);
    const write = async (name, text) => {
        await writeFile(join(dir, name), text);
        return join(dir, name);
    };
    for (const [args, message] of [
        [[], /which module\?/],
        [['--concurrency', '0', FIXTURE], /--concurrency: a number from 1 to 1024/],
        [['--frobnicate', FIXTURE], /frobnicate/],
        [[join(dir, 'none.js')], /Cannot find module/],
        [[await write('empty.mjs', 'export const a = 1;')], /empty\.mjs exports no handler/],
        [[await write('broken.mjs', 'throw new Error("no key");')], /no key/],
        [
            [
                FIXTURE,
                await write(
                    'twice.mjs',
                    `import { defineTask, handle } from 'tenon-tasks';
export const again = handle(defineTask('echo'), () => 1);`,
                ),
            ],
            /there are two handlers for echo; the second one is in .*twice\.mjs/,
        ],
    ]) {
        const { err, out } = await ran(process.execPath, [TENON_NODE, ...args], { code: 2 });
        assert.match(err, message);
        assert.doesNotMatch(out, /hello/);
    }
});

test('it prints a handlers file', async () => {
    const args = ['--print-handlers', '--concurrency', '5', FIXTURE];
    const { out } = await ran(process.execPath, [TENON_NODE, ...args]);
    assert.match(
        out,
        /^handler "books,[^"]*,context,counts,dead,deaf,echo,[^"]*,wrong_after" \{$/m,
    );
    assert.match(
        out,
        /command = \{"[^"]*node", "[^"]*tenon-node\.js", "--concurrency", "5", "[^"]*"\}/,
    );
});

test('when the worker is gone, so is the child', async (t) => {
    const pool = await started(t);
    pool.task(1, 'wait', { name: 'a' });
    pool.child.stdout.destroy();
    pool.task(2, 'echo', 'x'.repeat(200_000));
    assert.equal((await pool.end).code, 1);
});
