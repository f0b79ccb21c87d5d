// What child.test.js and worker.test.js have run.
import { spawnSync } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Dead, defineTask, handle, Interrupted, Snooze, Retry } from 'tenon-tasks';
import { z } from 'zod';

const define = (kind) => defineTask(kind);
const never = new Promise(() => {});

class CardDeclined extends Error {}

const waiting = new Map();
const neighbours = [];
let sayMore;

/** One of each way to end, and to say something. */
export const handlers = [
    handle(define('echo'), (payload) => payload),
    handle(define('nothing'), () => {}),
    handle(define('context'), (_, { finish, progress, extend, signal, ...known }) => ({
        ...known,
        aborted: signal.aborted,
    })),
    handle(define('until'), (_, context) => context.deadline),
    // answered when somebody else of this process says so
    handle(define('wait'), ({ name }) => new Promise((resolve) => waiting.set(name, resolve))),
    handle(define('release'), ({ name }) => waiting.get(name)(`released ${name}`)),
    handle(define('print'), () => {
        console.log('{"id":1,"outcome":"dead"}');
        process.stdout.write('no line feed\n');
        return 'printed';
    }),
    // as a worker's child, which has pipes: node gives its children sockets
    handle(define('print_by_number'), () => {
        console.log('{"id":1,"outcome":"dead"}');
        writeSync(1, 'by its number\n');
        const { status } = spawnSync('sh', ['-c', 'echo from a subprocess; cat'], {
            stdio: 'inherit',
        });
        return status;
    }),
    handle(define('fails'), () => {
        throw new CardDeclined('no funds\non the second line');
    }),
    handle(define('refused'), () => sleep(0).then(() => fetch('http://127.0.0.1:65535/'))),
    handle(define('retry'), () => {
        throw new Retry('busy', { after: '30 s', cause: new RangeError('451') });
    }),
    handle(define('snooze'), () => {
        throw new Snooze('not yet', { after: '1.5 s' });
    }),
    handle(define('dead'), () => {
        throw new Dead('no such address');
    }),
    handle(define('interrupted'), () => {
        throw new Interrupted();
    }),
    handle(define('odd'), () => {
        throw undefined;
    }),
    handle(define('throws'), ({ what }) => {
        throw ERRORS[what]();
    }),
    handle(define('wrong_after'), () => {
        throw new Retry('soon', { after: 'soon' });
    }),
    handle(define('long_error'), () => {
        throw new Error(`${'😀'.repeat(10_000)}\0`);
    }),
    handle(defineTask('mail', z.object({ to: z.string(), at: z.coerce.date() })), ({ to, at }) => [
        to,
        at.getUTCFullYear(),
    ]),
    handle(define('result'), ({ what }) => RESULTS[what]()),
    handle(define('progress'), ({ bad }, task) => {
        for (const value of bad
            ? ['x'.repeat(70_000), [1e300].concat(Array(300).fill(1e300)), NaN]
            : []) {
            try {
                task.progress(value);
            } catch (error) {
                console.error(error.name);
                continue;
            }
            throw new Error('it was taken');
        }
        task.progress({ done: 1, text: '\ud800' });
        task.extend('2 min');
        sayMore = () => {
            task.progress('too late');
            task.extend('1 ms');
        };
        return task.checkpoint;
    }),
    handle(define('says_more'), () => sayMore()),
    handle(define('naps'), () => sleep(50)),
    handle(define('listens'), (_, { id, signal, abandoned }) => {
        return sleep(600_000, undefined, { signal }).catch((error) => {
            console.error(id, signal.reason.why, abandoned.aborted);
            for (const resolve of neighbours) resolve('neighbour');
            throw error;
        });
    }),
    // done when the task beside it has been stopped
    handle(define('progress_then_wait'), (_, context) => {
        context.progress('waits');
        return new Promise((resolve) => neighbours.push(resolve));
    }),
    handle(define('says_why'), (_, { signal }) => {
        return new Promise((resolve) => {
            const say = () => resolve(signal.reason.why);
            signal.addEventListener('abort', say);
            if (signal.aborted) say();
        });
    }),
    handle(define('deaf'), () => never),
    handle(define('buys'), async (_, context) => {
        const { at } = await context.step('price', async () => ({ at: new Date(0) }));
        await context.step('pay', () => {});
        return { at, steps: context.steps };
    }),
    handle(define('both_steps'), (_, context) =>
        Promise.all([context.step('a', () => 1), context.step('b', () => sleep(1, 2))]),
    ),
    handle(define('misuses_steps'), async (_, context) => {
        const said = [];
        const say = (error) => said.push(error.message);
        for (const name of ['', 'x'.repeat(101), 'a\0b', 7]) {
            await context.step(name, () => 1).catch(say);
        }
        await context.step('outer', () => context.step('outer', () => 1)).catch(say);
        await context.step('long', () => 'x'.repeat(1_048_577)).catch(say);
        await context.step('zero', () => '\0').catch(say);
        await context.waitSignal('paid', '0 s').catch(say);
        return said;
    }),
    handle(define('goes_on_later'), async (_, context) => {
        await context.sleep('nap', '1 h');
        try {
            return { paid: await context.waitSignal('paid', '5 s') };
        } catch (error) {
            await context.step('refund', () => 1).catch(() => {}); // must not be done
            return error;
        }
    }),
    handle(define('timer_throws'), () => {
        setTimeout(() => {
            throw new TypeError('in a timer');
        });
        return never;
    }),
    handle(define('rejects'), () => {
        Promise.reject(new RangeError('nobody awaits me'));
        return never;
    }),
    handle(define('emits'), () => {
        setImmediate(() => new EventEmitter().emit('error', new Error('no listener')));
        return never;
    }),
    handle(define('exits'), ({ code }) => process.exit(code)),
    handle(define('counts'), ({ to }, { checkpoint, attempt, ...task }) => {
        return { to, attempt, checkpoint, id: task.id };
    }),
];

const RESULTS = {
    map: () => new Map(),
    long: () => 'x'.repeat(3_000_000),
    deep: () => JSON.parse('['.repeat(5000) + ']'.repeat(5000)),
    surrogate: () => 'a\udc00b \\ud800',
    zero: () => 'a\0b',
    exponent: () => 1e-300,
    bigint: () => ({ n: 10n ** 400n }),
    infinity: () => [1, -Infinity],
    circular: () => {
        const a = { b: {} };
        a.b.a = a;
        return a;
    },
    symbol: () => Symbol('s'),
    toJSON: () => ({
        toJSON() {
            throw Object.create(null);
        },
    }),
};

const named = (fields) => Object.defineProperties(new Error('x'), fields);

/** Errors as libraries make them, and as only tests do. */
const ERRORS = {
    object: () => named({ message: { value: { code: 7 } }, stack: { value: undefined } }),
    symbol: () => named({ name: { value: Symbol('s') } }),
    getter: () =>
        named({
            stack: {
                get() {
                    throw new Error('no stack');
                },
            },
        }),
    bare: () => Object.create(null),
    long_class: () => named({ name: { value: `${'ä'.repeat(99)}\0` } }),
    delay: () => Object.assign(new Retry('x', { after: '1 ms' }), { delayMs: 2.5 }),
    no_delay: () => Object.assign(new Retry('x', { after: '1 ms' }), { delayMs: NaN }),
    aggregate: () => {
        const inner = [new Error('first address'), new TypeError('second address')];
        return new AggregateError(inner, 'all failed', { cause: new Error('the cause') });
    },
    many: () => new AggregateError(Array.from({ length: 12 }, (_, i) => new Error(`no. ${i}`))),
};

let pool;

async function connect() {
    const { default: pg } = await import('pg');
    pool ??= new pg.Pool({ connectionString: process.env.APP_DATABASE_URL });
    return pool.connect();
}

/** The effect and the end of the task in one transaction. */
export const pay = handle(define('pay'), async ({ account, amount, dies }, context) => {
    const client = await connect();
    try {
        await client.query('BEGIN');
        const sql = 'UPDATE node_account SET balance = balance + $2 WHERE id = $1';
        await client.query(sql, [account, amount]);
        await context.finish(client, { paid: amount });
        if (dies === 'before' && context.attempt === 1) {
            process.kill(process.pid, 'SIGKILL');
        }
        await client.query('COMMIT');
        if (dies === 'after') {
            process.kill(process.pid, 'SIGKILL');
        }
    } catch (error) {
        await client.query('ROLLBACK');
        throw error;
    } finally {
        client.release();
    }
});

/** Recorded with its effect: rolled back once, then done, then known; and known to the next attempt. */
export const books = handle(define('books'), async (_, context) => {
    const client = await connect();
    const book = async () => {
        await client.query('INSERT INTO node_booking VALUES ($1)', [context.id]);
        return { attempt: context.attempt };
    };
    try {
        for (const end of ['ROLLBACK', 'COMMIT', 'COMMIT']) {
            await client.query('BEGIN');
            const { attempt } = await context.step('book', book, client);
            if (attempt !== 1) throw new Dead(`the step is of attempt ${attempt}`);
            await client.query(end);
        }
    } finally {
        client.release();
    }
    if (context.attempt === 1) throw new Retry('once more', { after: '1 ms' });
});
