// Runs due tasks on the caller's connection, as a worker would, with their ends in the database: for tests.
'use strict';

const { randomBytes } = require('node:crypto');
const { TaskContext } = require('./context.js');
const { rowsOf } = require('./databases.js');
const { milliseconds } = require('./duration.js');
const { run } = require('./run.js');

/** @typedef {import('./task.js').Handler} Handler */
/** @typedef {import('../index.d.ts').Database} Database */
/** @typedef {{ line: any, reply: import('./run.js').Reply, said: any[] }} Ran */

/** More runs in one call are taken for tasks that enqueue each other without end. */
const RUNS_MAX = 10_000;
const SNOOZE_MS = 60_000;

// Those of the transaction, since a database may have more in it than the test has put there; or all.
const MINE = 'SELECT m.id FROM tenon.mine() m';
const ALL = 'SELECT t.id FROM tenon.task t';
const EARLIER = `UPDATE tenon.task SET run_at = run_at - $1::text::interval, wanted_at = wanted_at - $1::text::interval,
    start_before = start_before - $1::text::interval WHERE start_time IS NULL AND id IN `;
const WAIT_EARLIER = `UPDATE tenon.waiting SET until = until - $1::text::interval, settled = false WHERE task_id IN `;
const LIMIT_EARLIER = `UPDATE tenon.limit_task SET wanted_at = wanted_at - $1::text::interval
    WHERE state IN ('later', 'ending') AND task_id IN `;
const CLAIM = (/** @type {string} */ which) => `UPDATE tenon.task t
       SET start_time = clock_timestamp(), claims = claims + 1, claim_key = $1::text::bigint,
           worker_id = '00000000-0000-0000-0000-000000000000'
     WHERE t.id = (SELECT d.id FROM tenon.task d
                    WHERE d.id IN (${which}) AND d.start_time IS NULL AND d.run_at <= clock_timestamp()
                      AND d.kind IN (SELECT json_array_elements_text($2::text::json))
                      AND coalesce(d.start_before > clock_timestamp(), true)
                    ORDER BY d.priority DESC, d.run_at, d.id LIMIT 1)
    RETURNING t.id::text, json_build_object('kind', t.kind, 'queue', t.queue, 'attempt', 1 + t.failures + t.crashes,
        'failures', t.failures, 'max_attempts', t.max_attempts, 'timeout_ms', t.timeout_ms, 'trace', t.trace,
        'claim', t.id || '/' || t.claims || '/' || lpad(to_hex(t.claim_key), 16, '0'), 'progress', t.progress,
        'payload', t.payload, 'steps', CASE WHEN t.step_count IS NOT NULL THEN tenon.steps_of(t.id) ELSE '{}' END)::text`;
const HELD =
    'SELECT t.id::text FROM tenon.task t WHERE t.id = $1::text::bigint AND t.claim_key = $2::text::bigint';
const STEP = 'SELECT tenon.step($1::text, $2::text, $3::text::jsonb)::text';
const PROGRESS = 'SELECT tenon.progress($1::text, $2::text::jsonb)::text';
const FINISH = 'SELECT tenon.finish($1::text, $2::text::jsonb)::text';
const REQUEUE = `SELECT state FROM tenon.requeue(ARRAY[$1::text::bigint], ARRAY[$2::text::bigint], ARRAY[$3::text],
    ARRAY[$4::text], ARRAY[$5::text::bigint], ARRAY[$6::text], ARRAY[$7::text])`;

/**
 * @param {Database} db
 * @param {Map<string, Handler>} handlers by kind
 * @param {{ ahead?: import('../index.d.ts').Duration | undefined, all?: boolean | undefined }} options
 * @returns {Promise<Ran[]>}
 */
async function runDue(db, handlers, { ahead, all = false }) {
    const which = all ? ALL : MINE;
    if (ahead !== undefined) {
        const span = `${milliseconds(ahead, 'ahead')} milliseconds`;
        await rowsOf(db, `${EARLIER}(${which}) RETURNING id::text`, [span]);
        for (const update of [WAIT_EARLIER, LIMIT_EARLIER]) {
            await rowsOf(db, `${update}(${which}) RETURNING task_id::text`, [span]);
        }
    }
    const kinds = JSON.stringify([...handlers.keys()]);
    /** @type {Ran[]} */
    const runs = [];
    while (runs.length < RUNS_MAX) {
        await rowsOf(db, 'SELECT tenon.settle()::text', []);
        const key = String(BigInt(`0x${randomBytes(7).toString('hex')}`) + 1n);
        const [row] = await rowsOf(db, CLAIM(which), [key, kinds]);
        if (!row) {
            return runs;
        }
        const ran = await attempt(handlers, { id: row[0], ...JSON.parse(row[1]) });
        await end(db, key, ran);
        runs.push(ran);
    }
    throw new Error(`${RUNS_MAX} runs, and there are still due tasks: do they enqueue each other?`);
}

/**
 * @param {Map<string, Handler>} handlers
 * @param {any} line
 * @returns {Promise<Ran>}
 */
async function attempt(handlers, line) {
    /** @type {any[]} */
    const said = [];
    const context = new TaskContext(line, (text) => {
        const message = JSON.parse(text);
        said.push(message);
        if ('step' in message) {
            context.told(message.step.name, true);
        }
    });
    const handler = /** @type {Handler} */ (handlers.get(line.kind));
    const reply = await run(handler, line.payload, context);
    context.end();
    return { line, reply, said };
}

/**
 * What a worker does with an answer.
 *
 * @param {Database} db
 * @param {string} key
 * @param {Ran} ran
 */
async function end(db, key, { line: { id, claim }, reply, said }) {
    if ((await rowsOf(db, HELD, [id, key])).length === 0) {
        return; // its handler has finished it, or it was cancelled
    }
    for (const { step, progress } of said) {
        if (step) {
            await rowsOf(db, STEP, [claim, step.name, JSON.stringify(step.value)]);
        } else if (progress !== undefined) {
            await rowsOf(db, PROGRESS, [claim, JSON.stringify(progress)]);
        }
    }
    if (reply.outcome === 'done') {
        await rowsOf(db, FINISH, [claim, reply.result ?? null]);
        return;
    }
    const snooze = reply.outcome === 'snooze' ? SNOOZE_MS : undefined;
    const delay = reply.delay_ms ?? reply.timeout_ms ?? snooze;
    const reason = reply.outcome === 'interrupted' ? 'released' : reply.outcome;
    const texts = [reply.error, delay, reply.error_class, reply.signal];
    const params = texts.map((one) => (one === undefined ? null : String(one)));
    await rowsOf(db, REQUEUE, [id, key, reason, ...params]);
}

exports.runDue = runDue;
