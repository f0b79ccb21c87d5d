// What a handler knows of the task it runs, and what it may say about it.
'use strict';

const { parentResults } = require('./acts.js');
const { rowsOf } = require('./databases.js');
const { milliseconds } = require('./duration.js');
const { depth, encoded, printedBytes, storable, wellFormed } = require('./json.js');
const { Interrupted, Stopped } = require('./outcomes.js');
const { isEnvelope, opened, sealed } = require('./secrets.js');
const { Steps } = require('./steps.js');

const PROGRESS_BYTES_MAX = 65_536;
const EXTEND_MS_MAX = 30 * 86_400_000;
const TIMER_MS_MAX = 2 ** 31 - 1;
/** The worker is to be the first that says so. */
const LATE_MS = 50;
/** A result nested deeper than this is not given to PostgreSQL. */
const DEPTH_MAX = 5000;

/** What a handler calls. */
/** Characters; the worker keeps 4,096 bytes of a message. */
const LOG_MESSAGE_MAX = 8192;

const METHODS = ['progress', 'extend', 'finish', 'step', 'sleep', 'waitSignal', 'waitFor'].concat([
    'parentResults',
]);

/**
 * A task line of the worker, without its payload.
 *
 * @typedef {{ id: string, kind: string, queue: string, attempt: number, failures: number, max_attempts: number,
 *     timeout_ms: number, claim: string, trace: string | null, progress: unknown,
 *     steps?: Record<string, unknown> }} Line
 */

/** @typedef {import('../index.d.ts').Context} Context */
/** @implements {Context} */
class TaskContext {
    #say;
    #steps;
    #deadline;
    #stop = new AbortController();
    #abandon = new AbortController();
    /** @type {NodeJS.Timeout | undefined} */
    #timer;
    #ended = false;
    /** @type {import('../index.d.ts').Secret | undefined} */
    #secret;
    #hides = false;

    /**
     * @param {Line} line
     * @param {(line: string) => void} say
     */
    constructor(line, say) {
        this.id = line.id;
        this.kind = line.kind;
        this.queue = line.queue;
        this.attempt = line.attempt;
        this.failures = line.failures;
        this.maxAttempts = line.max_attempts;
        this.trace = line.trace;
        this.claim = line.claim;
        /** @type {any} */
        this.checkpoint = line.progress;
        this.#say = say;
        const seal = (/** @type {string} */ text, /** @type {string} */ what) =>
            this.sealed(text, what);
        this.#steps = new Steps(line, (text) => this.#tell(text), seal);
        this.#deadline = Date.now() + line.timeout_ms;
        this.#watch();
        for (const name of METHODS) {
            const value = /** @type {any} */ (this)[name].bind(this);
            Object.defineProperty(this, name, { value }); // handlers take them out of the context: ({ progress }) => ...
        }
    }

    /**
     * Decrypts what came encrypted; if all of the task is secret, what it says is encrypted from here on.
     *
     * @param {unknown} payload
     * @param {import('../index.d.ts').Secret | undefined} secret
     * @returns {unknown} the payload
     */
    open(payload, secret) {
        this.#secret = secret;
        const came = [payload, this.checkpoint, ...Object.values(this.steps)];
        this.#hides = secret !== undefined || came.some(isEnvelope);
        this.checkpoint = opened(this.checkpoint, this.kind, 'progress');
        this.#steps.open(this.kind);
        return opened(payload, this.kind, 'payload');
    }

    /** Whether something of it is secret, and so are the messages of its errors. */
    get hides() {
        return this.#hides;
    }

    /**
     * JSON text as it leaves this process.
     *
     * @param {string} text
     * @param {string} what
     */
    sealed(text, what) {
        return this.#secret === 'all' ? sealed(text, this.kind, what) : text;
    }

    get deadline() {
        return new Date(this.#deadline);
    }

    get signal() {
        return this.#stop.signal;
    }

    get abandoned() {
        return this.#abandon.signal;
    }

    get ended() {
        return this.#ended;
    }

    /** @param {unknown} value */
    progress(value) {
        const text = wellFormed(encoded(value, 'the progress'));
        const said = this.sealed(text, 'progress');
        if (printedBytes(said) > PROGRESS_BYTES_MAX || depth(text) > DEPTH_MAX) {
            throw new RangeError(`the progress of ${this.kind} is longer than 64 KiB, or too deep`);
        }
        this.checkpoint = JSON.parse(text);
        this.#tell(`{"id":${this.id},"progress":${said}}`);
    }

    /** @param {import('../index.d.ts').Duration} duration */
    extend(duration) {
        const ms = milliseconds(duration, 'the duration of extend');
        if (ms < 1 || ms > EXTEND_MS_MAX) {
            throw new RangeError(`extend by 1 ms to 30 days, not ${ms} ms`);
        }
        this.#deadline = Math.max(this.#deadline, Date.now() + ms);
        this.#watch();
        this.#tell(`{"id":${this.id},"extend_ms":${ms}}`);
    }

    /**
     * @param {import('../index.d.ts').Database} db
     * @param {unknown} [result]
     */
    async finish(db, result = null) {
        const text = storable(result, 'the result');
        const params = [this.claim, result === null ? text : this.sealed(text, 'result')];
        await rowsOf(db, 'SELECT tenon.finish($1::text, $2::text::jsonb)::text', params);
    }

    get steps() {
        return this.#steps.kept;
    }

    /**
     * @param {string} name
     * @param {() => any} work
     * @param {import('../index.d.ts').Database} [db]
     */
    step(name, work, db) {
        return this.#steps.step(name, work, db);
    }

    /**
     * @param {string} name
     * @param {import('../index.d.ts').Duration} duration
     */
    sleep(name, duration) {
        return this.#steps.sleep(name, duration);
    }

    /**
     * @param {string} name
     * @param {import('../index.d.ts').Duration} [timeout]
     */
    waitSignal(name, timeout) {
        return this.#steps.waitSignal(name, timeout);
    }

    /**
     * @param {readonly import('../index.d.ts').TaskId[]} ids
     * @param {import('../index.d.ts').Database} db
     * @param {string} [name]
     */
    waitFor(ids, db, name) {
        return this.#steps.waitFor(ids, db, name);
    }

    /** @param {import('../index.d.ts').Database} db */
    parentResults(db) {
        return parentResults(db, this.claim);
    }

    /**
     * The worker's word on a step.
     *
     * @param {string} name
     * @param {boolean} recorded
     */
    told(name, recorded) {
        this.#steps.told(name, recorded);
    }

    /** The worker says nothing more. */
    endOfLines() {
        this.#steps.end(new Interrupted('the worker says nothing more'));
    }

    /** The reply of an attempt that sleep() or waitSignal() has ended. */
    get suspended() {
        return this.#steps.suspended?.reply;
    }

    /**
     * Tells the handler to stop.
     *
     * @param {Stopped['why']} why
     */
    stop(why) {
        const reason = new Stopped(why);
        this.#stop.abort(reason);
        if (why !== 'drain') {
            this.#abandon.abort(reason);
            this.#steps.end(why === 'timeout' ? reason : new Interrupted(reason.message));
        }
    }

    /** What is said from now on is said too late. */
    end() {
        this.#ended = true;
        clearTimeout(this.#timer);
    }

    get log() {
        const logs =
            (/** @type {string} */ level) =>
            (/** @type {unknown} */ message, /** @type {any} */ fields) =>
                this.#log(level, message, fields);
        return {
            error: logs('error'),
            warning: logs('warning'),
            info: logs('info'),
            debug: logs('debug'),
        };
    }

    /**
     * @param {string} level
     * @param {unknown} message
     * @param {Record<string, unknown>} [fields]
     */
    #log(level, message, fields) {
        if (this.#hides) {
            return;
        }
        let said = wellFormed(JSON.stringify(String(message).slice(0, LOG_MESSAGE_MAX)));
        try {
            said +=
                fields === undefined ? '' : `,"fields":${wellFormed(encoded(fields, 'fields'))}`;
        } catch {
            // a log line fails no task
        }
        this.#tell(`{"id":${this.id},"log":{"level":"${level}","message":${said}}}`);
    }

    #watch() {
        clearTimeout(this.#timer);
        const left = this.#deadline + LATE_MS - Date.now();
        this.#timer = setTimeout(
            () => (left > TIMER_MS_MAX ? this.#watch() : this.stop('timeout')),
            Math.min(left, TIMER_MS_MAX),
        ).unref();
    }

    /** @param {string} line */
    #tell(line) {
        if (!this.#ended) {
            this.#say(line);
        }
    }
}

exports.DEPTH_MAX = DEPTH_MAX;
exports.TaskContext = TaskContext;
