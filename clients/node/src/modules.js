// The handlers of the user's modules, and the handlers file that names them.
'use strict';

const { resolve } = require('node:path');
const { pathToFileURL } = require('node:url');
const { isHandler } = require('./task.js');

/** @typedef {import('./task.js').Handler} Handler */

/** The maximum number of kinds of one handler in a handlers file. */
const KINDS_MAX = 100;

/**
 * @param {string[]} paths
 * @returns {Promise<Map<string, Handler>>} by kind
 */
async function handlersOf(paths) {
    const found = new Map();
    for (const path of paths) {
        const exported = await import(pathToFileURL(resolve(path)).href);
        for (const handler of Object.values(exported).flatMap(inside)) {
            const { kind } = handler.task;
            if (found.has(kind) && found.get(kind) !== handler) {
                throw new Error(`there are two handlers for ${kind}; the second one is in ${path}`);
            }
            found.set(kind, handler);
        }
    }
    if (found.size === 0) {
        throw new Error(
            `${paths.join(', ')} exports no handler: export const onMail = handle(mail, ...)`,
        );
    }
    return found;
}

/**
 * An export may be a handler, or an array or an object of them.
 *
 * @param {unknown} value
 * @returns {Handler[]}
 */
function inside(value) {
    if (isHandler(value)) {
        return [value];
    }
    return typeof value === 'object' && value !== null
        ? Object.values(value).filter(isHandler)
        : [];
}

/**
 * Entries of a handlers file, each for a hundred kinds at most.
 *
 * @param {string[]} command
 * @param {string[]} kinds
 * @param {string} directory
 */
function handlersFile(command, kinds, directory) {
    const words = command.map(quoted).join(', ');
    const entries = [];
    for (let i = 0; i < kinds.length; i += KINDS_MAX) {
        const title = kinds.slice(i, i + KINDS_MAX).join(',');
        entries.push(
            `handler "${title}" {\n    command = {${words}}\n    mode = "pool"\n` +
                `    directory = ${quoted(directory)}\n}\n`,
        );
    }
    return entries.join('\n');
}

/** @param {string} word */
function quoted(word) {
    if (word.includes('${')) {
        throw new Error(`${word}: a handlers file cannot have \${ in a word`);
    }
    return JSON.stringify(word);
}

exports.handlersOf = handlersOf;
exports.handlersFile = handlersFile;
