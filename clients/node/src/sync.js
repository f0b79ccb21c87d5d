// What the code says of its kinds, queues, limits and schedules, set in the database by one call: tenon.sync.
'use strict';

const { LIMIT, objectOf, SCHEDULE } = require('./acts.js');
const { rowsOf } = require('./databases.js');
const { inspect } = require('./duration.js');
const { OPTIONS } = require('./options.js');
const { isHandler, isTask, KIND_OPTIONS } = require('./task.js');

/** The options of a task that are those of its kind, too; the others stay with each call. */
const { queue, priority, maxAttempts, timeout, retry, limitKeys } = OPTIONS;
const KIND = { queue, priority, maxAttempts, timeout, retry, limitKeys };
const QUEUE = { priority, maxAttempts, timeout, retry };
const SYNC = 'SELECT s.what, s.name, s.act FROM tenon.sync($1::text::jsonb) s';

/**
 * @param {import('../index.d.ts').Declared} declared
 * @returns {Record<string, any>}
 */
function description({ tasks = [], queues = {}, limits = {}, schedules = {}, ...rest }) {
    const { remove, source, ...others } = rest;
    const [other] = Object.keys(others);
    if (other !== undefined) {
        throw new TypeError(
            `there is no ${inspect(other)}; there are: tasks, queues, limits, schedules, remove, source`,
        );
    }
    return {
        queues: each(queues, (one, name) => objectOf(QUEUE, one, `the queue ${name}`)),
        kinds: Object.fromEntries(tasksOf(tasks).map((task) => [task.kind, kindObject(task)])),
        limits: each(limits, (one, name) => objectOf(LIMIT, one, `the limit ${name}`)),
        schedules: each(schedules, (one, name) => objectOf(SCHEDULE, one, `the schedule ${name}`)),
        ...(remove === undefined ? {} : { remove }),
        ...(source === undefined ? {} : { source }),
    };
}

/**
 * @param {Record<string, any>} named
 * @param {(one: any, name: string) => object} make
 */
function each(named, make) {
    return Object.fromEntries(Object.entries(named).map(([name, one]) => [name, make(one, name)]));
}

/**
 * The tasks in a list, or in what a module exports, which may have handlers as well.
 *
 * @param {readonly any[] | Record<string, any>} from
 * @returns {import('./task.js').Task[]}
 */
function tasksOf(from) {
    return Object.values(from)
        .map((one) => (isHandler(one) ? one.task : one))
        .filter(isTask);
}

/** @param {import('./task.js').Task} task */
function kindObject({ kind, defaults, ofKind }) {
    const known = { ...KIND, ...KIND_OPTIONS };
    const given = Object.entries({ ...defaults, ...ofKind });
    const own = given.filter(([name]) => Object.hasOwn(known, name));
    return objectOf(known, Object.fromEntries(own), kind);
}

/**
 * @param {import('../index.d.ts').Database} db
 * @param {import('../index.d.ts').Declared} declared
 * @returns {Promise<import('../index.d.ts').Change[]>}
 */
async function sync(db, declared) {
    const rows = await rowsOf(db, SYNC, [JSON.stringify(description(declared))]);
    return rows.map(([what, name, act]) => ({ what, name, act }));
}

exports.description = description;
exports.sync = sync;
