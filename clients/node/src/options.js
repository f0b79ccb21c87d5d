// What a task may be given when it is enqueued: the arguments of tenon.enqueue.
'use strict';

const { inspect, milliseconds } = require('./duration.js');

/** @typedef {import('../index.d.ts').EnqueueOptions & import('../index.d.ts').EnqueueManyOptions} Options */
/**
 * How a value becomes an argument. Each goes as text and is cast, so that it is the same with every driver.
 *
 * @typedef {{ sql: (param: string) => string, text: (value: unknown, name: string) => string }} Type
 */

/** @type {Type} */
const TEXT = {
    sql: (param) => `${param}::text`,
    text: (value, name) => need(typeof value === 'string', value, name, 'a string'),
};
/** @type {Type} */
const INTEGER = {
    sql: (param) => `${param}::text::integer`,
    text: (value, name) => need(Number.isSafeInteger(value), value, name, 'a whole number'),
};
/** @type {Type} */
const BIGINT = {
    sql: (param) => `${param}::text::bigint`,
    text: (value, name) => need(isId(value), value, name, 'an id'),
};
/** @type {Type} */
const BOOLEAN = {
    sql: (param) => `${param}::text::boolean`,
    text: (value, name) => need(typeof value === 'boolean', value, name, 'true or false'),
};
/** @type {Type} */
const MOMENT = {
    sql: (param) => `${param}::text::timestamptz`,
    text: (value, name) => {
        const text = need(isMoment(value), value, name, 'a Date');
        return value instanceof Date ? value.toISOString() : text;
    },
};
/** @type {Type} */
const DURATION = {
    sql: (param) => `${param}::text::interval`,
    text: (value, name) => `${milliseconds(value, name)} milliseconds`,
};
const fromJson = (/** @type {string} */ param) => `json_array_elements_text(${param}::text::json)`;
/** @type {Type} */
const TEXTS = {
    sql: (param) => `ARRAY(SELECT ${fromJson(param)})`,
    text: (value, name) => listed(value, name, 'an array of strings', isText),
};
/** @type {Type} */
const KEYS = {
    sql: TEXTS.sql,
    text: (value, name) =>
        listed(value, name, 'an array of strings and nulls', (one) => one === null || isText(one)),
};
/** @type {Type} */
const BIGINTS = {
    sql: (param) => `ARRAY(SELECT ${fromJson(param)}::bigint)`,
    text: (value, name) => listed(value, name, 'an array of ids', isId),
};

const orNull = (/** @type {(one: unknown) => boolean} */ fits) => (/** @type {unknown} */ one) =>
    one === null || fits(one);
/** @type {Type} */
const INTEGERS = {
    sql: (param) => `ARRAY(SELECT ${fromJson(param)}::integer)`,
    text: (value, name) =>
        listed(value, name, 'an array of whole numbers and nulls', orNull(Number.isSafeInteger)),
};
/** @type {Type} */
const MOMENTS = {
    sql: (param) => `ARRAY(SELECT ${fromJson(param)}::timestamptz)`,
    text: (value, name) => listed(value, name, 'an array of Dates and nulls', orNull(isMoment)),
};
/** What an array has one of for each payload; null: what the call says. */
const ELEMENTS = ['uniqueKeys', 'queues', 'priorities', 'runAts'];

/** @type {Record<string, [argument: string, Type]>} */
const OPTIONS = {
    queue: ['queue', TEXT],
    priority: ['priority', INTEGER],
    runAt: ['run_at', MOMENT],
    delay: ['delay', DURATION],
    uniqueKey: ['unique_key', TEXT],
    uniqueKeys: ['unique_keys', KEYS],
    queues: ['queues', KEYS],
    priorities: ['priorities', INTEGERS],
    runAts: ['run_ats', MOMENTS],
    onConflict: ['on_conflict', TEXT],
    uniqueFor: ['unique_for', DURATION],
    debounce: ['debounce', DURATION],
    debounceMax: ['debounce_max', DURATION],
    startBefore: ['start_before', MOMENT],
    maxAttempts: ['max_attempts', INTEGER],
    timeout: ['timeout', DURATION],
    retry: ['retry', TEXT],
    limitKeys: ['limit_keys', TEXTS],
    flow: ['flow', BIGINT],
    dependsOn: ['depends_on', BIGINTS],
    onParentDead: ['on_parent_dead', TEXT],
    tags: ['tags', TEXTS],
    trace: ['trace', TEXT],
    notify: ['notify', BOOLEAN],
    announced: ['announced', BOOLEAN],
};

/**
 * Those that were given; TypeError for one that does not exist.
 *
 * @param {Options} options
 * @param {readonly string[]} [without] those that are not allowed here
 * @returns {Options}
 */
function checkedOptions(options, without = []) {
    if (typeof options !== 'object' || options === null) {
        throw new TypeError(`the options are ${inspect(options)}; they should be an object`);
    }
    const known = [...Object.keys(OPTIONS), 'wakeUps'].filter((name) => !without.includes(name));
    for (const name of Object.keys(options)) {
        if (!known.includes(name)) {
            throw new TypeError(
                `there is no option ${inspect(name)}; there are: ${known.join(', ')}`,
            );
        }
    }
    return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/**
 * The named arguments of the SQL function.
 *
 * @param {Options} options
 * @param {(text: string) => string} param keeps a value, and returns its $n
 */
function argumentsOf(options, param) {
    return Object.entries(options)
        .filter(([name]) => name !== 'wakeUps')
        .map(([name, value]) => {
            const [argument, type] = OPTIONS[name];
            return `, ${argument} => ${type.sql(param(type.text(value, name)))}`;
        })
        .join('');
}

/** @param {unknown} value */
function isText(value) {
    return typeof value === 'string';
}

/** @param {unknown} value */
function isMoment(value) {
    return value instanceof Date && !Number.isNaN(value.getTime());
}

/** @param {unknown} value */
function isId(value) {
    return typeof value === 'string' ? /^\d{1,19}$/.test(value) : Number.isSafeInteger(value);
}

/**
 * @param {boolean} fits
 * @param {unknown} value
 * @param {string} name
 * @param {string} wanted
 */
function need(fits, value, name, wanted) {
    if (!fits) {
        throw new TypeError(`${name} is ${inspect(value)}; it should be ${wanted}`);
    }
    return String(value);
}

/**
 * @param {unknown} value
 * @param {string} name
 * @param {string} wanted
 * @param {(one: unknown) => boolean} fits
 */
function listed(value, name, wanted, fits) {
    if (!Array.isArray(value) || !value.every(fits)) {
        throw new TypeError(`${name} is ${inspect(value)}; it should be ${wanted}`);
    }
    return JSON.stringify(value);
}

/**
 * A value in a description, which is JSON.
 *
 * @param {Type} type
 * @param {unknown} value
 * @param {string} name
 */
function described(type, value, name) {
    const text = type.text(value, name);
    return [INTEGER, BOOLEAN, TEXTS, KEYS].includes(type) ? JSON.parse(text) : text;
}

exports.TYPES = { TEXT, INTEGER, BIGINT, BOOLEAN, MOMENT, DURATION, TEXTS };
exports.ELEMENTS = ELEMENTS;
exports.OPTIONS = OPTIONS;
exports.described = described;
exports.checkedOptions = checkedOptions;
exports.argumentsOf = argumentsOf;
