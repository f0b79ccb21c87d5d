// How a task ends, when it does not end well: thrown by handlers.
'use strict';

const { milliseconds } = require('./duration.js');

/** @typedef {import('../index.d.ts').OutcomeOptions} OutcomeOptions */

class Retry extends Error {
    /**
     * @param {string} [message]
     * @param {OutcomeOptions} [options]
     */
    constructor(message = '', { after, cause } = {}) {
        super(message, cause === undefined ? undefined : { cause });
        this.name = 'Retry';
        this.after = after;
        this.delayMs = after === undefined ? undefined : milliseconds(after, 'after');
    }
}

class Snooze extends Error {
    /**
     * @param {string} [message]
     * @param {OutcomeOptions} [options]
     */
    constructor(message = '', { after, cause } = {}) {
        super(message, cause === undefined ? undefined : { cause });
        this.name = 'Snooze';
        this.after = after;
        this.delayMs = after === undefined ? undefined : milliseconds(after, 'after');
    }
}

class Dead extends Error {
    /**
     * @param {string} [message]
     * @param {{ cause?: unknown }} [options]
     */
    constructor(message = '', { cause } = {}) {
        super(message, cause === undefined ? undefined : { cause });
        this.name = 'Dead';
    }
}

class Interrupted extends Error {
    constructor(message = '') {
        super(message);
        this.name = 'Interrupted';
    }
}

class SecretError extends Error {
    /** @param {string} [message] */
    constructor(message) {
        super(message);
        this.name = 'SecretError';
    }
}

/** @typedef {{ outcome: 'snooze' | 'wait_signal', delay_ms?: number, signal?: string, timeout_ms?: number }} SuspendedReply */

class Suspended extends Error {
    /** @param {SuspendedReply} reply */
    constructor(reply) {
        super('the task continues later: do not catch this');
        this.name = 'Suspended';
        this.reply = reply;
    }
}

class InvalidPayload extends Error {
    /**
     * @param {string} kind
     * @param {readonly import('../index.d.ts').SchemaIssue[]} issues
     */
    constructor(kind, issues) {
        super(`the payload does not fit ${kind}: ${issues.map(described).join('; ')}`);
        this.name = 'InvalidPayload';
        this.issues = issues;
    }
}

const WHYS = {
    cancelled: 'the task was cancelled',
    lost: 'the claim is lost: the task may run elsewhere',
    drain: 'the worker ends',
    timeout: 'the time is over',
    terminated: 'the worker stops this process',
};

class Stopped extends Error {
    /** @param {keyof typeof WHYS} why */
    constructor(why) {
        super(WHYS[why]);
        this.name = 'Stopped';
        this.why = why;
    }
}

// Of the registry, so that two copies of the package know each other's.
const OUTCOME = Symbol.for('tenon.outcome');
const OUTCOMES = [
    { outcome: 'failed', type: Retry },
    { outcome: 'snooze', type: Snooze },
    { outcome: 'dead', type: Dead },
    { outcome: 'dead', type: InvalidPayload },
    { outcome: 'interrupted', type: Interrupted },
];
for (const { outcome, type } of OUTCOMES) {
    Object.defineProperty(type.prototype, OUTCOME, { value: outcome });
}

/**
 * The outcome that an error asks for; undefined: it is just an error.
 *
 * @param {any} error
 * @returns {string | undefined}
 */
function outcomeOf(error) {
    return error?.[OUTCOME];
}

/** @param {import('../index.d.ts').SchemaIssue} issue */
function described({ path = [], message }) {
    const keys = path.map((part) => String(typeof part === 'object' ? part.key : part));
    return keys.length > 0 ? `${keys.join('.')}: ${message}` : message;
}

exports.Retry = Retry;
exports.Snooze = Snooze;
exports.Dead = Dead;
exports.Interrupted = Interrupted;
exports.SecretError = SecretError;
exports.Suspended = Suspended;
exports.InvalidPayload = InvalidPayload;
exports.Stopped = Stopped;
exports.outcomeOf = outcomeOf;
