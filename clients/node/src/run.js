// One run of one task: calls the function, and makes of what comes of it the reply that the worker is given.
'use strict';

const { DEPTH_MAX } = require('./context.js');
const { depth, storable, wellFormed } = require('./json.js');
const { around } = require('./middleware.js');
const { InvalidPayload, outcomeOf, SecretError, Stopped } = require('./outcomes.js');
const { fitted } = require('./task.js');

const RESULT_BYTES_MAX = 2_000_000;
const ERROR_BYTES_MAX = 8191;
const CLASS_BYTES_MAX = 100;
/** Causes of causes, and errors in an AggregateError, are told up to here. */
const CAUSES_DEPTH_MAX = 5;
const INNER_ERRORS_MAX = 10;
const NOTE_CHARACTERS_MAX = 500;
const DELAY_MS_MAX = 30 * 86_400_000;
const OWN_FRAMES = `${__dirname}/`;

/**
 * A reply without its id; `result` is JSON text.
 *
 * @typedef {{ outcome: string, result?: string, error?: string, error_class?: string, delay_ms?: number,
 *     signal?: string, timeout_ms?: number }} Reply
 */

/**
 * @param {import('./task.js').Handler} handler
 * @param {unknown} payload
 * @param {import('./context.js').TaskContext} context
 * @returns {Promise<Reply>}
 */
async function run(handler, payload, context) {
    /** @type {Reply} */
    let reply;
    try {
        const plain = context.open(payload, handler.task.secret);
        const result = await around(context, async () =>
            handler.run(await fitted(handler.task, plain), context),
        );
        reply = done(result, context);
    } catch (error) {
        reply = failed(error, context);
    }
    return context.suspended ?? reply; // also where its function has caught that
}

/**
 * @param {string} id
 * @param {Reply} reply
 */
function replyLine(id, { result, ...rest }) {
    const others = wellFormed(JSON.stringify(rest)).slice(1, -1);
    return `{"id":${id},${others}${result === undefined ? '' : `,"result":${result}`}}`;
}

/**
 * A result that is not JSON does not undo the work: a text replaces it, like a result beyond the worker's own limits.
 *
 * @param {unknown} result
 * @param {import('./context.js').TaskContext} context
 * @returns {Reply}
 */
function done(result, context) {
    if (result === undefined) {
        return { outcome: 'done' };
    }
    try {
        const plain = storable(result, 'it');
        const text = context.sealed(plain, 'result');
        if (Buffer.byteLength(text) > RESULT_BYTES_MAX || depth(plain) > DEPTH_MAX) {
            throw new RangeError('it is longer than 2 MB, or too deep');
        }
        return { outcome: 'done', result: text };
    } catch (error) {
        const why = context.hides ? classOf(error) : messageOf(error).slice(0, NOTE_CHARACTERS_MAX);
        const note = `tenon: the result was not kept: ${why}`;
        return { outcome: 'done', result: wellFormed(JSON.stringify(note)) };
    }
}

/**
 * The outcome that an error stands for; if its task is secret, without what the error says.
 *
 * @param {any} error
 * @param {{ signal?: AbortSignal, hides: boolean }} of
 * @returns {Reply}
 */
function failed(error, of) {
    try {
        return replyOf(error, of);
    } catch (problem) {
        return {
            outcome: 'failed',
            error: `an error that cannot be described: ${messageOf(problem)}`,
        };
    }
}

/**
 * @param {any} error
 * @param {{ signal?: AbortSignal, hides: boolean }} of
 * @returns {Reply}
 */
function replyOf(error, { signal, hides }) {
    const outcome = outcomeOf(error) ?? (signal && stopped(error, signal)) ?? 'failed';
    if (outcome === 'interrupted') {
        return { outcome };
    }
    /** @type {Reply} */
    const reply = { outcome, error: shortened(described(error, hides)) };
    if (outcome !== 'snooze') {
        reply.error_class = classOf(causeOf(error));
    }
    if (outcomeOf(error) && error.delayMs !== undefined) {
        reply.delay_ms = Math.round(
            Math.min(Math.max(Number(error.delayMs) || 1, 1), DELAY_MS_MAX),
        );
    }
    return reply;
}

/**
 * An error that only says that the signal was aborted: interrupted, unless the time was over.
 *
 * @param {any} error
 * @param {AbortSignal} signal
 */
function stopped(error, signal) {
    const { reason } = signal;
    const says = error === reason || error?.cause === reason || error?.name === 'AbortError';
    return signal.aborted && says && reason instanceof Stopped && reason.why !== 'timeout'
        ? 'interrupted'
        : undefined;
}

/**
 * `throw new Retry('...', { cause: error })`: error is what went wrong.
 *
 * @param {any} error
 */
function causeOf(error) {
    return outcomeOf(error) && error.cause !== undefined ? error.cause : error;
}

/**
 * `TypeError`; of errors that are just called Error, their code: `ECONNREFUSED`, PostgreSQL's `23505`; of fetch, why
 * it failed.
 *
 * @param {any} error
 * @returns {string}
 */
function classOf(error) {
    if (!(error instanceof Error)) {
        return typeof error;
    }
    const { cause, code } = /** @type {any} */ (error);
    const plain = /^(aggregate)?error$/i.test(error.name)
        ? code || error.constructor.name
        : error.name;
    const told =
        error.message === 'fetch failed' && cause instanceof Error ? classOf(cause) : plain;
    return Buffer.from(String(told).replaceAll('\0', '\ufffd'))
        .subarray(0, CLASS_BYTES_MAX)
        .toString()
        .replace(/\ufffd+$/, '');
}

/** @param {unknown} error */
function messageOf(error) {
    try {
        return String(error instanceof Error ? error.message : error);
    } catch {
        return 'an error whose message cannot be read';
    }
}

/**
 * What went wrong, on its first line; then where, without our own frames. `hides`: without messages, which may be of
 * what is secret, except those that were given on purpose.
 *
 * @param {any} error
 * @param {boolean} hides
 */
function described(error, hides) {
    const cause = causeOf(error);
    const said = outcomeOf(error) && !(hides && error instanceof InvalidPayload);
    if (cause === error && said) {
        return messageOf(error) || error.name; // it was said on purpose: where does not matter
    }
    const head = cause === error ? '' : messageOf(error);
    const rest = hides && !(cause instanceof SecretError) ? framesOf(cause) : stackOf(cause);
    return (head && `${head}\n`) + rest;
}

/**
 * A stack without the message.
 *
 * @param {any} error
 */
function framesOf(error) {
    const lines = stackOf(error).split('\n');
    const from = lines.reduce((at, line, i) => (line.startsWith('    at ') ? at : i + 1), 0);
    const name = `${classOf(error)} (its message is not kept, because the task is secret)`;
    return [name, ...lines.slice(from)].join('\n');
}

/**
 * Without our own frames, and with what caused it.
 *
 * @param {any} error
 * @param {number} [deep]
 * @returns {string}
 */
function stackOf(error, deep = 0) {
    if (!(error instanceof Error) || typeof error.stack !== 'string') {
        return messageOf(error);
    }
    const lines = error.stack.split('\n').filter((line) => !line.includes(OWN_FRAMES));
    if (deep < CAUSES_DEPTH_MAX) {
        const { cause, errors } = /** @type {any} */ (error);
        const inner = Array.isArray(errors) ? errors.slice(0, INNER_ERRORS_MAX) : [];
        lines.push(...inner.map((one, i) => `[${i}] ${stackOf(one, deep + 1)}`));
        if (inner.length < errors?.length) {
            lines.push(`and ${errors.length - inner.length} more`);
        }
        if (cause !== undefined) {
            lines.push(`caused by: ${stackOf(cause, deep + 1)}`);
        }
    }
    return lines.join('\n');
}

/**
 * Without its middle, if it is too long; and without what PostgreSQL cannot store.
 *
 * @param {string} text
 */
function shortened(text) {
    const bytes = Buffer.from(text.replaceAll('\0', '\ufffd'));
    if (bytes.length <= ERROR_BYTES_MAX) {
        return bytes.toString();
    }
    const half = Math.floor(ERROR_BYTES_MAX / 2) - 20;
    const [head, tail] = [bytes.subarray(0, half), bytes.subarray(-half)];
    return `${head}\n[...]\n${tail}`.replace(/\ufffd+\n\[/, '\n[').replace(/\]\n\ufffd+/, ']\n');
}

exports.run = run;
exports.replyLine = replyLine;
exports.failed = failed;
