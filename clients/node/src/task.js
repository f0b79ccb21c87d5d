// Tasks and handlers: what a kind is called, what its payloads are, and what runs them.
'use strict';

const { inspect } = require('./duration.js');
const { encoded } = require('./json.js');
const { checkedOptions, ELEMENTS, TYPES } = require('./options.js');
const { InvalidPayload } = require('./outcomes.js');

/**
 * @typedef {import('../index.d.ts').Task<any, any>} Task
 * @typedef {import('../index.d.ts').Handler<any, any>} Handler
 * @typedef {import('../index.d.ts').StandardSchema<any, any>} Schema
 * @typedef {import('../index.d.ts').Context} Context
 */

// Of the registry, so that two copies of the package know each other's.
const TASK = Symbol.for('tenon.task');
const HANDLER = Symbol.for('tenon.handler');

/**
 * Options that a kind has and no single task; `sync` sets them.
 *
 * @type {Record<string, [argument: string, typeof TYPES.TEXT]>}
 */
const KIND_OPTIONS = {
    maxCrashes: ['max_crashes', TYPES.INTEGER],
    historyKeep: ['history_keep', TYPES.DURATION],
    deadKeep: ['dead_keep', TYPES.DURATION],
    timeoutMin: ['timeout_min', TYPES.DURATION],
    onTimeout: ['on_timeout', TYPES.TEXT],
    onDead: [
        'on_dead',
        {
            ...TYPES.TEXT,
            text: (value, name) => TYPES.TEXT.text(kindOf(value), name),
        },
    ],
};

/**
 * The kind of a task, or what was given instead.
 *
 * @param {unknown} task
 */
function kindOf(task) {
    return isTask(task) ? task.kind : task;
}

/**
 * @param {string} kind
 * @param {Schema | null} [schema]
 * @param {import('../index.d.ts').TaskOptions} [defaults]
 * @returns {Task}
 */
function defineTask(kind, schema, { secret, ...given } = {}) {
    if (typeof kind !== 'string' || !/^[\w.:-]{1,100}$/.test(kind)) {
        throw new TypeError(
            `kind is ${inspect(kind)}; it should be 1 to 100 of A-Z a-z 0-9 _ . : -`,
        );
    }
    if (schema != null && typeof schema['~standard']?.validate !== 'function') {
        throw new TypeError(
            `the schema of ${kind} is not a Standard Schema (zod, valibot, arktype ...); without one, give undefined`,
        );
    }
    if (secret !== undefined && secret !== 'payload' && secret !== 'all') {
        throw new TypeError(`secret is ${inspect(secret)}; it should be 'payload' or 'all'`);
    }
    const [defaults, ofKind] = parted(given);
    const task = {
        kind,
        schema: schema ?? undefined,
        defaults: checkedOptions(defaults, ELEMENTS),
        ofKind,
        secret,
    };
    return Object.freeze(Object.defineProperty(task, TASK, { value: true }));
}

/**
 * Those of each task, and those of the kind.
 *
 * @param {Record<string, unknown>} given
 * @returns {[Record<string, any>, import('../index.d.ts').KindOptions]}
 */
function parted(given) {
    /** @type {Record<string, any>} */
    const defaults = {};
    /** @type {Record<string, any>} */
    const ofKind = {};
    for (const [name, value] of Object.entries(given)) {
        if (!Object.hasOwn(KIND_OPTIONS, name)) {
            defaults[name] = value;
        } else if (value !== undefined) {
            KIND_OPTIONS[name][1].text(value, name);
            ofKind[name] = value;
        }
    }
    return [defaults, ofKind];
}

/**
 * @param {Task} task
 * @param {(payload: any, context: Context) => any} run
 * @returns {Handler}
 */
function handle(task, run) {
    if (!isTask(task)) {
        throw new TypeError(`handle(task, function): ${inspect(task)} is not a task of defineTask`);
    }
    if (typeof run !== 'function') {
        throw new TypeError(
            `handle(task, function): of ${task.kind}, ${inspect(run)} is not a function`,
        );
    }
    return Object.freeze(Object.defineProperty({ task, run }, HANDLER, { value: true }));
}

/**
 * @param {unknown} value
 * @returns {value is Task}
 */
function isTask(value) {
    return typeof value === 'object' && value !== null && TASK in value;
}

/**
 * @param {unknown} value
 * @returns {value is Handler}
 */
function isHandler(value) {
    return typeof value === 'object' && value !== null && HANDLER in value;
}

/**
 * What the schema makes of a payload as it comes from JSON.
 *
 * @param {Task} task
 * @param {unknown} payload
 * @returns {Promise<unknown>}
 */
async function fitted(task, payload) {
    if (!task.schema) {
        return payload;
    }
    const result = await task.schema['~standard'].validate(payload);
    if (result.issues) {
        throw new InvalidPayload(task.kind, result.issues);
    }
    return result.value;
}

/**
 * The payload as JSON text, once it is sure that a handler will take it.
 *
 * @param {Task} task
 * @param {unknown} payload
 * @param {(value: unknown, what: string) => string} [encode]
 */
async function payloadText(task, payload, encode = encoded) {
    const text = encode(payload === undefined ? {} : payload, `the payload of ${task.kind}`);
    if (task.schema) {
        await fitted(task, JSON.parse(text));
    }
    return text;
}

exports.KIND_OPTIONS = KIND_OPTIONS;
exports.kindOf = kindOf;
exports.defineTask = defineTask;
exports.handle = handle;
exports.isTask = isTask;
exports.isHandler = isHandler;
exports.fitted = fitted;
exports.payloadText = payloadText;
