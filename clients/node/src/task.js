// Tasks and handlers: what a kind is called, what its payloads are, and what runs them.
'use strict';

const { inspect } = require('./duration.js');
const { encoded } = require('./json.js');
const { checkedOptions } = require('./options.js');
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
 * @param {string} kind
 * @param {Schema | null} [schema]
 * @param {import('../index.d.ts').TaskOptions} [defaults]
 * @returns {Task}
 */
function defineTask(kind, schema, { secret, ...defaults } = {}) {
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
    const task = {
        kind,
        schema: schema ?? undefined,
        defaults: checkedOptions(defaults, 'uniqueKeys'),
        secret,
    };
    return Object.freeze(Object.defineProperty(task, TASK, { value: true }));
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

exports.defineTask = defineTask;
exports.handle = handle;
exports.isTask = isTask;
exports.isHandler = isHandler;
exports.fitted = fitted;
exports.payloadText = payloadText;
