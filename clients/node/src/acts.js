// What is done with tasks, flows, signals, schedules and limits: each is one statement in the caller's transaction.
'use strict';

const { checkedIds, ENDS, resultsOf } = require('./awaited.js');
const { rowsOf } = require('./databases.js');
const { inspect } = require('./duration.js');
const { givenText, numbered } = require('./enqueue.js');
const { storable } = require('./json.js');
const { described, OPTIONS, TYPES } = require('./options.js');
const { isTask, kindOf } = require('./task.js');

/**
 * @typedef {import('../index.d.ts').Database} Database
 * @typedef {import('../index.d.ts').TaskId} TaskId
 * @typedef {typeof TYPES.TEXT} Type
 * @typedef {Record<string, [argument: string, Type]>} Arguments
 */

/** @type {Type} */
const KIND = {
    ...TYPES.TEXT,
    text: (value, name) => TYPES.TEXT.text(kindOf(value), name),
};
/** @type {Type} */
const PAYLOAD = {
    sql: (param) => `${param}::text::jsonb`,
    text: (value, name) => storable(value, name),
};

/** @type {Arguments} */
const SCHEDULE = {
    cron: ['cron', TYPES.TEXT],
    every: ['every', TYPES.DURATION],
    task: ['kind', KIND],
    payload: ['payload', PAYLOAD],
    zone: ['zone', TYPES.TEXT],
    catchUp: ['catch_up', TYPES.TEXT],
    overlap: ['overlap', TYPES.TEXT],
    queue: OPTIONS.queue,
    priority: OPTIONS.priority,
    maxAttempts: OPTIONS.maxAttempts,
    timeout: OPTIONS.timeout,
};
/** @type {Arguments} */
const LIMIT = {
    maxRunning: ['max_running', TYPES.INTEGER],
    maxStarts: ['max_starts', TYPES.INTEGER],
    per: ['per', TYPES.DURATION],
    strict: ['strict', TYPES.BOOLEAN],
    fair: ['fair', TYPES.BOOLEAN],
    weight: ['weight', TYPES.INTEGER],
    whenDead: ['when_dead', TYPES.TEXT],
};
/** @type {Arguments} */
const CALLBACKS = {
    onDone: ['on_done', KIND],
    onDead: ['on_dead', KIND],
    onEnd: ['on_end', KIND],
};

/**
 * Calls a function of tenon with named arguments; those that are undefined are left to it.
 *
 * @param {Database} db
 * @param {string} name
 * @param {Arguments} known
 * @param {Record<string, any>} given
 * @param {(call: string) => string} [shown] what is selected
 * @returns {Promise<any>} the first column of its first row
 */
async function called(db, name, known, given, shown = (call) => `${call}::text`) {
    const { params, param } = numbered();
    const list = entriesOf(known, given, name).map(
        ([argument, type, value, key]) =>
            `${argument} => ${type.sql(param(type.text(value, key)))}`,
    );
    const statement = `SELECT ${shown(`tenon.${name}(${list.join(', ')})`)} AS value`;
    return (await rowsOf(db, statement, params))[0]?.[0];
}

/**
 * What was given, with the names and types of its arguments; TypeError for what does not exist.
 *
 * @param {Arguments} known
 * @param {Record<string, any>} given
 * @param {string} what
 * @returns {[argument: string, type: Type, value: unknown, key: string][]}
 */
function entriesOf(known, given, what) {
    if (typeof given !== 'object' || given === null) {
        throw new TypeError(`${what}: ${inspect(given)} should be an object`);
    }
    return Object.entries(given)
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => {
            if (!Object.hasOwn(known, key)) {
                const names = Object.keys(known).join(', ');
                throw new TypeError(`${what}: there is no ${inspect(key)}; there are: ${names}`);
            }
            return [...known[key], value, key];
        });
}

/**
 * The same as an object for a description, which is JSON.
 *
 * @param {Arguments} known
 * @param {Record<string, any>} given
 * @param {string} what
 */
function objectOf(known, given, what) {
    const entries = entriesOf(known, given, what);
    return Object.fromEntries(
        entries.map(([argument, type, value, key]) => [
            argument,
            type === PAYLOAD ? JSON.parse(type.text(value, key)) : described(type, value, key),
        ]),
    );
}

const BY_ID = { id: /** @type {[string, Type]} */ (['id', TYPES.BIGINT]) };
const BY_FLOW = {
    flow: /** @type {[string, Type]} */ (['flow', TYPES.BIGINT]),
};
const BY_NAME = { name: /** @type {[string, Type]} */ (['name', TYPES.TEXT]) };
/** @type {Arguments} */
const CHANGE = {
    ...BY_ID,
    why: ['why', TYPES.TEXT],
};
/** @type {Arguments} */
const RETRY = { ...CHANGE, fromStep: ['from_step', TYPES.TEXT] };

/**
 * @param {TaskId} id
 * @returns {string}
 */
function idOf(id) {
    return checkedIds([id])[0];
}

// --- tasks and signals ---

/**
 * @param {Database} db
 * @param {TaskId} id
 * @returns {Promise<boolean>}
 */
async function cancel(db, id) {
    return (await called(db, 'cancel', BY_ID, { id: idOf(id) })) === 'true';
}

/**
 * @param {Database} db
 * @param {TaskId} id
 * @param {{ why?: string | undefined, fromStep?: string | undefined }} [options]
 * @returns {Promise<boolean>}
 */
async function retry(db, id, options = {}) {
    return (await called(db, 'retry', RETRY, { ...options, id: idOf(id) })) === 'true';
}

/**
 * @param {Database} db
 * @param {TaskId} id
 * @param {{ why?: string | undefined }} [options]
 * @returns {Promise<boolean>}
 */
async function runNow(db, id, options = {}) {
    return (await called(db, 'run_now', CHANGE, { ...options, id: idOf(id) })) === 'true';
}

/**
 * @param {Database} db
 * @param {TaskId} id
 * @returns {Promise<import('../index.d.ts').TaskResult>}
 */
async function result(db, id) {
    const [found] = await resultsOf(db, [idOf(id)]);
    const state = ENDS.includes(found.state) ? found.state : 'unfinished';
    const error = found.state === null ? null : found.error;
    return { ...found, state: /** @type {any} */ (state), error };
}

/**
 * @param {Database} db
 * @param {string} name
 * @param {unknown} [payload]
 * @returns {Promise<boolean>}
 */
async function signal(db, name, payload = true) {
    /** @type {Arguments} */
    const known = { ...BY_NAME, payload: ['payload', PAYLOAD] };
    return (await called(db, 'signal', known, { name, payload })) === 'true';
}

// --- flows and batches ---

/**
 * @param {Database} db
 * @param {string | import('../index.d.ts').FlowDescription} [of]
 * @returns {Promise<string>}
 */
async function flow(db, of) {
    if (typeof of !== 'object') {
        return called(db, 'flow', BY_NAME, { name: of });
    }
    const { name, tasks, payload, ...callbacks } = of;
    if (!Array.isArray(tasks)) {
        throw new TypeError(`tasks is ${inspect(tasks)}; it should be an array`);
    }
    const text = JSON.stringify({
        ...(name === undefined ? {} : { name }),
        ...objectOf(CALLBACKS, callbacks, 'the flow'),
        ...(payload === undefined ? {} : { payload: JSON.parse(storable(payload, 'payload')) }),
        tasks: await Promise.all(tasks.map(flowTask)),
    });
    return called(
        db,
        'flow',
        { description: ['description', { ...PAYLOAD, text: String }] },
        { description: text },
    );
}

/**
 * @param {import('../index.d.ts').FlowTask<any>} of
 * @param {number} place
 */
async function flowTask({ name, task, payload, dependsOn, ...options }, place) {
    if (!isTask(task)) {
        throw new TypeError(
            `tasks[${place}].task is ${inspect(task)}; it should be one of defineTask`,
        );
    }
    const { wakeUps: _, ...defaults } = task.defaults;
    return {
        ...(name === undefined ? {} : { name }),
        ...(dependsOn === undefined ? {} : { depends_on: dependsOn }),
        ...objectOf(OPTIONS, { ...defaults, ...options }, `tasks[${place}]`),
        kind: task.kind,
        payload: JSON.parse(await givenText(task, payload)),
    };
}

/**
 * @param {Database} db
 * @param {import('../index.d.ts').BatchOptions} options
 * @returns {Promise<string>}
 */
function batch(db, options) {
    /** @type {Arguments} */
    const known = { ...CALLBACKS, ...BY_NAME, payload: ['payload', PAYLOAD] };
    return called(db, 'batch', known, options);
}

/**
 * @param {Database} db
 * @param {TaskId} id
 * @returns {Promise<boolean>}
 */
async function closeBatch(db, id) {
    return (await called(db, 'close', BY_FLOW, { flow: idOf(id) })) === 'true';
}

/**
 * @param {Database} db
 * @param {TaskId} id
 * @returns {Promise<number>}
 */
async function cancelFlow(db, id) {
    return Number(await called(db, 'cancel_flow', BY_FLOW, { flow: idOf(id) }));
}

const PARENTS = `SELECT p.id::text, p.name, p.state, p.result::text FROM tenon.parent_results($1::text) WITH ORDINALITY p
    (id, name, state, result, place) ORDER BY p.place`;

/**
 * @param {Database} db
 * @param {TaskId} child its id, or the claim of a handler
 * @returns {Promise<import('../index.d.ts').ParentResult[]>}
 */
async function parentResults(db, child) {
    const rows = await rowsOf(db, PARENTS, [String(child)]);
    return rows.map(([id, name, state, result]) => ({
        id,
        name,
        state,
        result: JSON.parse(result),
    }));
}

// --- schedules and limits ---

/**
 * @param {Database} db
 * @param {string} name
 * @param {import('../index.d.ts').ScheduleOptions} options
 * @returns {Promise<Date>}
 */
async function setSchedule(db, name, options) {
    const known = { ...SCHEDULE, ...BY_NAME };
    const ms = (/** @type {string} */ call) => `(extract(epoch FROM ${call}) * 1000)::text`;
    return new Date(Number(await called(db, 'set_schedule', known, { ...options, name }, ms)));
}

/**
 * @param {Database} db
 * @param {string} name
 * @returns {Promise<boolean>}
 */
async function removeSchedule(db, name) {
    return (await called(db, 'remove_schedule', BY_NAME, { name })) === 'true';
}

/**
 * @param {Database} db
 * @param {string} name
 * @param {import('../index.d.ts').LimitOptions} options
 * @returns {Promise<void>}
 */
async function setLimit(db, name, options) {
    await called(db, 'set_limit', { ...LIMIT, ...BY_NAME }, { ...options, name });
}

/**
 * @param {Database} db
 * @param {string} name
 * @returns {Promise<boolean>}
 */
async function removeLimit(db, name) {
    return (await called(db, 'remove_limit', BY_NAME, { name })) === 'true';
}

const TAKE = 'SELECT tenon.take_limit($1::text, $2::text::integer)::text';

/**
 * @param {Database} db
 * @param {string} key
 * @param {number} [n]
 */
async function takeLimit(db, key, n = 1) {
    return Number((await rowsOf(db, TAKE, [key, String(n)]))[0][0]);
}

exports.LIMIT = LIMIT;
exports.SCHEDULE = SCHEDULE;
exports.objectOf = objectOf;
exports.batch = batch;
exports.cancel = cancel;
exports.cancelFlow = cancelFlow;
exports.closeBatch = closeBatch;
exports.flow = flow;
exports.parentResults = parentResults;
exports.removeLimit = removeLimit;
exports.removeSchedule = removeSchedule;
exports.result = result;
exports.retry = retry;
exports.runNow = runNow;
exports.setLimit = setLimit;
exports.setSchedule = setSchedule;
exports.signal = signal;
exports.takeLimit = takeLimit;
