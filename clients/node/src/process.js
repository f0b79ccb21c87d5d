// This process as a pool child: its stdin and stdout are the protocol's.
'use strict';

const { closeSync, createWriteStream, openSync } = require('node:fs');
const { Socket } = require('node:net');
const { Child } = require('./child.js');

/**
 * Takes stdin and stdout out of the reach of what handlers print or read: from here on console.log goes to stderr, and
 * so does what their subprocesses and native addons print. Call it before anything else touches process.stdout.
 *
 * @returns {{ input: NodeJS.ReadableStream, output: NodeJS.WritableStream }}
 */
function takeWire() {
    let [from, to] = [0, 1];
    try {
        // There is no dup2() in Node, but a descriptor that is opened gets the lowest number that is free.
        const [input, output] = [
            openSync('/proc/self/fd/0', 'r'),
            openSync('/proc/self/fd/1', 'a'),
        ];
        const errors = openSync('/proc/self/fd/2', 'a');
        closeSync(0);
        openSync('/dev/null', 'r');
        closeSync(1);
        openSync('/proc/self/fd/2', 'a');
        closeSync(errors);
        [from, to] = [input, output];
    } catch {
        // as another user than the worker's, or not on Linux: at least what goes through process.stdout
        Object.defineProperty(process, 'stdout', { get: () => process.stderr });
    }
    return { input: from === 0 ? process.stdin : opened(from, 'r'), output: opened(to, 'w') };
}

/**
 * @param {number} fd
 * @param {'r' | 'w'} mode
 * @returns {any}
 */
function opened(fd, mode) {
    try {
        return new Socket({ fd, readable: mode === 'r', writable: mode === 'w' });
    } catch {
        return mode === 'w' ? createWriteStream('', { fd }) : process.stdin; // a file or a terminal
    }
}

/**
 * Serves until no more tasks come and all have been answered, and then exits.
 *
 * @param {Map<string, import('./task.js').Handler>} handlers
 * @param {number} concurrency
 * @param {{ input: NodeJS.ReadableStream, output: NodeJS.WritableStream }} wire
 */
function serve(handlers, concurrency, { input, output }) {
    const say = (/** @type {string} */ line) => void output.write(`${line}\n`);
    const exit = (/** @type {number} */ code) => void output.end(() => process.exit(code));
    const child = new Child(handlers, say, exit);
    output.on('error', () => process.exit(1)); // the worker is gone, and nobody wants the answers
    const caught = (/** @type {unknown} */ error) => {
        console.error(child.hides ? 'an error that is not shown, because a task is secret' : error);
        child.uncaught(error);
    };
    process.on('uncaughtException', caught);
    process.on('unhandledRejection', caught);
    process.on('SIGTERM', () => child.terminate());
    child.hello(concurrency);
    readLines(input, (line) => child.line(line));
    input.on('end', () => child.end());
    input.on('error', () => child.end());
}

/**
 * Lines end with a line feed and nothing else: readline has other ideas, and a payload may be of megabytes.
 *
 * @param {NodeJS.ReadableStream} input
 * @param {(line: string) => void} each
 */
function readLines(input, each) {
    /** @type {Buffer[]} */
    let begun = [];
    input.on('data', (/** @type {Buffer} */ data) => {
        let from = 0;
        for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, from)) {
            each(Buffer.concat([...begun, data.subarray(from, at)]).toString());
            begun = [];
            from = at + 1;
        }
        if (from < data.length) {
            begun.push(data.subarray(from));
        }
    });
}

exports.takeWire = takeWire;
exports.serve = serve;
exports.readLines = readLines;
