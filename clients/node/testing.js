// Tests without a worker: run a handler here and now, and look at what a transaction has enqueued.
'use strict';

const { execFile } = require('node:child_process');
const { promisify } = require('node:util');
const { TaskContext } = require('./src/context.js');
const { rowsOf } = require('./src/databases.js');
const due = require('./src/due.js');
const { setInstead } = require('./src/enqueue.js');
const { run: runOnce } = require('./src/run.js');
const { opened } = require('./src/secrets.js');
const { isHandler, payloadText } = require('./src/task.js');

/**
 * @typedef {import('./src/task.js').Handler} Handler
 * @typedef {import('./testing.d.ts').Run} Run
 */

const MINE = `SELECT id::text, kind, queue, state, priority::text, extract(epoch FROM run_at)::text, unique_key,
    payload::text FROM tenon.mine() m ORDER BY m.id`;

/** The tables with tasks and what belongs to them; the others have settings. */
const FLUSHED = [
    'task',
    'task_step',
    'suspect',
    'history',
    'dead',
    'attempt',
    'unique_hold',
    'again',
].concat(
    [
        'again_note',
        'flow',
        'flow_task',
        'flow_wait',
        'flow_note',
        'limit_task',
        'limit_start',
        'limit_due',
    ],
    ['limit_turn', 'limit_event', 'signal', 'waiting', 'minute', 'depth', 'set_aside'],
);

/**
 * @param {Handler} handler
 * @param {unknown} [payload]
 * @param {import('./testing.d.ts').RunOptions} [options]
 * @returns {Promise<Run>}
 */
async function run(handler, payload, { stopped, ...options } = {}) {
    /** @type {any[]} */
    const said = [];
    const text = await payloadText(handler.task, payload);
    const context = new TaskContext(lineOf(handler.task.kind, options), (text) => {
        const line = JSON.parse(text);
        said.push(line);
        if ('step' in line) {
            context.told(line.step.name, true);
        }
    });
    if (stopped) {
        context.stop(stopped);
    }
    const reply = await runOnce(handler, JSON.parse(text), context);
    context.end();
    return runOf(handler.task.kind, reply, said);
}

/**
 * @param {string} kind
 * @param {import('./src/run.js').Reply} reply
 * @param {any[]} said
 * @returns {Run}
 */
function runOf(kind, reply, said) {
    return {
        outcome: /** @type {Run['outcome']} */ (reply.outcome),
        result:
            reply.result === undefined
                ? undefined
                : opened(JSON.parse(reply.result), kind, 'result'),
        error: reply.error,
        errorClass: reply.error_class,
        delayMs: reply.delay_ms ?? reply.timeout_ms,
        signal: reply.signal,
        steps: Object.fromEntries(
            said
                .filter((line) => 'step' in line)
                .map(({ step }) => [step.name, opened(step.value, kind, `step:${step.name}`)]),
        ),
        progress: said
            .filter((line) => 'progress' in line)
            .map((line) => opened(line.progress, kind, 'progress')),
        extendedMs: said.filter((line) => 'extend_ms' in line).map((line) => line.extend_ms),
    };
}

/**
 * @param {string} kind
 * @param {Omit<import('./testing.d.ts').RunOptions, 'stopped'>} options
 */
function lineOf(kind, options) {
    return {
        id: options.id ?? '1',
        kind,
        queue: options.queue ?? 'default',
        attempt: options.attempt ?? 1,
        failures: (options.attempt ?? 1) - 1,
        max_attempts: options.maxAttempts ?? 25,
        timeout_ms: options.timeoutMs ?? 3_600_000,
        claim: options.claim ?? '1/1/0000000000000000',
        trace: options.trace ?? null,
        progress: options.checkpoint ?? null,
        steps: options.steps ?? {},
    };
}

/**
 * @param {import('./index.d.ts').Database} db
 * @returns {Promise<import('./testing.d.ts').Enqueued[]>}
 */
async function mine(db) {
    const rows = await rowsOf(db, MINE, []);
    return rows.map(([id, kind, queue, state, priority, seconds, uniqueKey, payload]) => ({
        id,
        kind,
        queue,
        state,
        priority: Number(priority),
        runAt: new Date(Number(seconds) * 1000),
        uniqueKey,
        payload: opened(JSON.parse(payload), kind, 'payload'),
    }));
}

/**
 * @param {import('./index.d.ts').Database} db
 * @param {readonly Handler[] | Record<string, unknown>} handlers
 * @returns {Promise<Run[]>}
 */
async function runMine(db, handlers) {
    const known = byKind(handlers);
    const runs = [];
    for (const { id, kind, queue, payload } of await mine(db)) {
        runs.push(await run(handlerOf(known, id, kind), payload, { id, queue }));
    }
    return runs;
}

/**
 * @param {Map<string, Handler>} known
 * @param {string} id
 * @param {string} kind
 */
function handlerOf(known, id, kind) {
    const handler = known.get(kind);
    if (!handler) {
        throw new Error(`task ${id}: there is no handler for ${kind}`);
    }
    return handler;
}

/** A task that was run where it was enqueued has failed, or is dead. */
class TaskFailed extends Error {
    /**
     * @param {string} kind
     * @param {Run} ended
     */
    constructor(kind, ended) {
        super(`${kind} is ${ended.outcome}: ${ended.error}`);
        this.name = 'TaskFailed';
        this.run = ended;
    }
}

/**
 * @template T
 * @param {readonly Handler[] | Record<string, unknown>} handlers
 * @param {(runs: Run[]) => T | Promise<T>} work
 * @param {{ throws?: boolean | undefined }} [options]
 * @returns {Promise<T>}
 */
async function eager(handlers, work, { throws = true } = {}) {
    const known = byKind(handlers);
    /** @type {Run[]} */
    const runs = [];
    let last = 0;
    const before = setInstead(async (task, payloads, given) => {
        const ids = [];
        for (const text of payloads) {
            const id = String(++last);
            const { queue, maxAttempts, trace } = /** @type {any} */ (given);
            const handler = handlerOf(known, id, task.kind);
            const ended = await run(handler, JSON.parse(text), { id, queue, maxAttempts, trace });
            runs.push(ended);
            if (throws && (ended.outcome === 'failed' || ended.outcome === 'dead')) {
                throw new TaskFailed(task.kind, ended);
            }
            ids.push(id);
        }
        return ids;
    });
    try {
        return await work(runs);
    } finally {
        setInstead(before);
    }
}

/** @param {readonly Handler[] | Record<string, unknown>} handlers */
function byKind(handlers) {
    const found = Object.values(handlers).filter(isHandler);
    return new Map(found.map((handler) => [handler.task.kind, handler]));
}

/**
 * @param {import('./index.d.ts').Database} db
 * @param {readonly Handler[] | Record<string, unknown>} handlers
 * @param {import('./testing.d.ts').DueOptions} [options]
 * @returns {Promise<Run[]>}
 */
async function runDue(db, handlers, options = {}) {
    const ran = await due.runDue(db, byKind(handlers), options);
    return ran.map(({ line, reply, said }) => runOf(line.kind, reply, said));
}

/**
 * @param {import('./index.d.ts').Database} db
 * @returns {Promise<void>}
 */
async function flush(db) {
    const names = FLUSHED.map((name) => `tenon.${name}`).join(', ');
    await rowsOf(db, `TRUNCATE ${names}`, []);
}

/**
 * @param {string} url
 * @returns {Promise<void>}
 */
async function setup(url) {
    const program = process.env.TENON ?? 'tenon';
    const env = { ...process.env, TENON_DATABASE_URL: url };
    try {
        await promisify(execFile)(program, ['setup', '--amqp-url', 'none'], { env });
    } catch (error) {
        const { code, stderr } = /** @type {any} */ (error);
        const hint = code === 'ENOENT' ? 'it is not in PATH: set TENON to its path' : stderr;
        throw new Error(`${program} setup failed: ${String(hint).trim()}`, { cause: error });
    }
}

exports.TaskFailed = TaskFailed;
exports.eager = eager;
exports.flush = flush;
exports.runDue = runDue;
exports.setup = setup;
exports.run = run;
exports.mine = mine;
exports.runMine = runMine;
