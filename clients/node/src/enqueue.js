// Enqueue: one statement in the caller's own transaction.
'use strict';

const { rowsOf } = require('./databases.js');
const { inspect } = require('./duration.js');
const { storable } = require('./json.js');
const { argumentsOf, checkedOptions, ELEMENTS, OPTIONS } = require('./options.js');
const { sealed } = require('./secrets.js');
const { isTask, payloadText } = require('./task.js');

/**
 * @typedef {import('../index.d.ts').Database} Database
 * @typedef {import('./task.js').Task} Task
 * @typedef {import('./options.js').Options} Options
 * @typedef {import('./wakeups.js').WakeUps} WakeUps
 */

/**
 * What happens to tasks that are enqueued, instead of a statement: tenon-tasks/testing sets it.
 *
 * @typedef {(task: Task, payloads: readonly string[], given: Options) => Promise<string[]>} Instead
 * @type {Instead | undefined}
 */
let instead;

/** @param {Instead | undefined} what */
function setInstead(what) {
    const before = instead;
    instead = what;
    return before;
}

/**
 * @param {Database} db
 * @param {Task} task
 * @param {unknown} [payload]
 * @param {import('../index.d.ts').EnqueueOptions} [options]
 * @returns {Promise<string>}
 */
async function enqueue(db, task, payload, options = {}) {
    const given = merged(task, options, ELEMENTS);
    if (instead) {
        return (await instead(task, [await payloadText(task, payload, storable)], given))[0];
    }
    const { params, param } = numbered();
    const text = await givenText(task, payload);
    const call = `(${param(task.kind)}::text, ${param(text)}::text${argumentsOf(given, param)})`;
    const statement = given.wakeUps
        ? `SELECT id::text, exchange, routing_key FROM tenon.enqueue_routed${call}`
        : `SELECT tenon.enqueue${call}::text AS id`;
    return kept(await rowsOf(db, statement, params), given.wakeUps)[0];
}

/**
 * @param {Database} db
 * @param {Task} task
 * @param {readonly unknown[]} payloads
 * @param {import('../index.d.ts').EnqueueManyOptions} [options]
 * @returns {Promise<string[]>}
 */
async function enqueueMany(db, task, payloads, options = {}) {
    const given = merged(task, options, ['uniqueKey']);
    if (!Array.isArray(payloads)) {
        throw new TypeError(`payloads is ${inspect(payloads)}; it should be an array`);
    }
    if (payloads.length === 0) {
        return [];
    }
    if (instead) {
        const plain = payloads.map((one) => payloadText(task, one, storable));
        return await instead(task, await Promise.all(plain), given);
    }
    const texts = await Promise.all(payloads.map((one) => givenText(task, one)));
    const { params, param } = numbered();
    const statement = manyStatement(param, task.kind, texts, given);
    return kept(await rowsOf(db, statement, params), given.wakeUps);
}

/**
 * @param {(text: string | null) => string} param
 * @param {string} kind
 * @param {string[]} texts
 * @param {Options} given
 */
function manyStatement(param, kind, texts, given) {
    const name = `${param(kind)}::text`;
    const documents = `ARRAY(SELECT json_array_elements(${param(`[${texts.join(',')}]`)}::text::json))`;
    const { wakeUps } = given;
    const routed = wakeUps ? { ...given, announced: true } : given;
    const ids =
        `unnest(tenon.enqueue_many(${name}, ${documents}${argumentsOf(routed, param)}))` +
        ' WITH ORDINALITY AS t (id, n)';
    if (!wakeUps) {
        return `SELECT t.id::text FROM ${ids} ORDER BY t.n`;
    }
    const [, { sql, text }] = OPTIONS.queues;
    const own = given.queues
        ? `(${sql(param(text(given.queues, 'queues')))})[t.n::integer]`
        : 'NULL';
    const queue = `coalesce(${own}, ${param(given.queue ?? null)}::text)`;
    const route = `tenon.route_of(${name}, ${queue}) r`;
    return `SELECT t.id::text, r.exchange, r.routing_key FROM ${ids}, ${route} ORDER BY t.n`;
}

/**
 * @param {Task} task
 * @param {unknown} payload
 */
async function givenText(task, payload) {
    const text = await payloadText(task, payload, storable);
    return task.secret ? sealed(text, task.kind, 'payload') : text;
}

/** The parameters of a statement; param() keeps one, and returns its $n. */
function numbered() {
    /** @type {(string | null)[]} */
    const params = [];
    const param = (/** @type {string | null} */ text) => `$${params.push(text)}`;
    return { params, param };
}

/**
 * The options that hold: those of the task, and those of this call.
 *
 * @param {Task} task
 * @param {Options} options
 * @param {readonly string[]} without
 */
function merged(task, options, without) {
    if (!isTask(task)) {
        throw new TypeError(`task is ${inspect(task)}; it should be one of defineTask`);
    }
    const given = /** @type {any} */ ({ ...task.defaults, ...checkedOptions(options, without) });
    const other = without.find((name) => name in given);
    if (other) {
        throw new TypeError(`${task.kind} has the default ${other}, which is not for many tasks`);
    }
    if (task.secret && given.onConflict === 'merge') {
        throw new TypeError(
            `${task.kind}: the database cannot merge payloads that are encrypted; use 'replace'`,
        );
    }
    if (given.wakeUps !== undefined && typeof given.wakeUps?.add !== 'function') {
        throw new TypeError(`wakeUps is ${inspect(given.wakeUps)}; it should be a new WakeUps()`);
    }
    return given;
}

/**
 * @param {any[][]} rows [id], or [id, exchange, routing key]
 * @param {WakeUps | undefined} wakeUps
 * @returns {string[]}
 */
function kept(rows, wakeUps) {
    for (const [id, exchange, routingKey] of rows) {
        wakeUps?.add({ id, exchange, routingKey });
    }
    return rows.map(([id]) => id);
}

exports.setInstead = setInstead;
exports.givenText = givenText;
exports.numbered = numbered;
exports.enqueue = enqueue;
exports.enqueueMany = enqueueMany;
