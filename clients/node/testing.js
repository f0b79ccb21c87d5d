// Tests without a worker: run a handler here and now, and look at what a transaction has enqueued.
'use strict';

const { TaskContext } = require('./src/context.js');
const { rowsOf } = require('./src/databases.js');
const { run: runOnce } = require('./src/run.js');
const { opened } = require('./src/secrets.js');
const { isHandler, payloadText } = require('./src/task.js');

/**
 * @typedef {import('./src/task.js').Handler} Handler
 * @typedef {import('./testing.d.ts').Run} Run
 */

const MINE = `SELECT id::text, kind, queue, state, priority::text, extract(epoch FROM run_at)::text, unique_key,
    payload::text FROM tenon.mine() m ORDER BY m.id`;

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
    const { kind } = handler.task;
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
    const known = new Map(
        Object.values(handlers)
            .filter(isHandler)
            .map((handler) => [handler.task.kind, handler]),
    );
    const runs = [];
    for (const { id, kind, queue, payload } of await mine(db)) {
        const handler = known.get(kind);
        if (!handler) {
            throw new Error(`task ${id}: there is no handler for ${kind}`);
        }
        runs.push(await run(handler, payload, { id, queue }));
    }
    return runs;
}

exports.run = run;
exports.mine = mine;
exports.runMine = runMine;
