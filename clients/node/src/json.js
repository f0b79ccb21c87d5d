// JSON as PostgreSQL and the worker take it.
'use strict';

/**
 * The JSON text of a value, or a TypeError that says what is not JSON; JSON.stringify alone makes null of NaN and {} of a Map.
 *
 * @param {unknown} value
 * @param {string} what it is, for the error
 * @returns {string}
 */
function encoded(value, what) {
    /** @type {string | undefined} */
    let text;
    try {
        text = JSON.stringify(value, checked);
    } catch (error) {
        throw new TypeError(`${what} is not JSON: ${messageOf(error)}`, { cause: error });
    }
    if (text === undefined) {
        throw new TypeError(`${what} is not JSON: it is ${typeof value}`);
    }
    return text;
}

/**
 * As `encoded`, for PostgreSQL, which has no U+0000 in its texts, nor half a surrogate pair.
 *
 * @param {unknown} value
 * @param {string} what
 */
function storable(value, what) {
    const text = encoded(value, what);
    const found = UNSTORABLE.exec(text);
    if (found) {
        throw new TypeError(`${what} has \\${found[1]} in a text, which PostgreSQL cannot store`);
    }
    return text;
}

// JSON.stringify escapes no other surrogates than those that are alone.
const UNSTORABLE = /(?<!\\)(?:\\\\)*\\(u0000|ud[89a-f]..)/;

/**
 * @this {any}
 * @param {string} key
 * @param {unknown} value
 */
function checked(key, value) {
    const original = this[key];
    if (typeof value === 'number' && !Number.isFinite(value)) {
        throw new TypeError(`${where(key)} is ${value}`);
    }
    if (typeof value === 'function' || typeof value === 'symbol' || typeof value === 'bigint') {
        throw new TypeError(`${where(key)} is a ${typeof value}`);
    }
    if (original instanceof Date && value === null) {
        throw new TypeError(`${where(key)} is an invalid Date`);
    }
    if (value instanceof Map || value instanceof Set) {
        throw new TypeError(`${where(key)} is a ${value.constructor.name}`);
    }
    return value;
}

/** @param {string} key */
function where(key) {
    return key === '' ? 'it' : `"${key}"`;
}

/** @param {unknown} error */
function messageOf(error) {
    try {
        return String(error instanceof Error ? error.message : error).split('\n')[0];
    } catch {
        return 'an error whose message cannot be read';
    }
}

/**
 * How long PostgreSQL prints it, at most, in bytes: it puts a space behind each comma and colon, and writes out
 * exponents.
 *
 * @param {string} text JSON
 */
function printedBytes(text) {
    const separators = text.match(/[,:]/g)?.length ?? 0;
    const exponents = text.match(/\de[+-]?\d/g)?.length ?? 0;
    return Buffer.byteLength(text) + separators + 330 * exponents;
}

/**
 * How deep arrays and objects are in each other, at most.
 *
 * @param {string} text JSON
 */
function depth(text) {
    let now = 0;
    let most = 0;
    for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{]|[\]}]/g)) {
        now += token === '[' || token === '{' ? 1 : token === ']' || token === '}' ? -1 : 0;
        most = Math.max(most, now);
    }
    return most;
}

/**
 * Without halves of surrogate pairs, which are not valid UTF-8.
 *
 * @param {string} text JSON of JSON.stringify
 */
function wellFormed(text) {
    return text.replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f]../g, '$1\\ufffd');
}

exports.encoded = encoded;
exports.storable = storable;
exports.printedBytes = printedBytes;
exports.depth = depth;
exports.wellFormed = wellFormed;
