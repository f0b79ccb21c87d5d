// Waiting for the ends of tasks: of some on a connection, and by any number of callers on one (docs/steps.md).
'use strict';

const { Awaited, checkedIds } = require('./awaited.js');
const { inspect, milliseconds } = require('./duration.js');
const { listenerOf, serve } = require('./listening.js');

/**
 * @typedef {import('../index.d.ts').TaskResult} TaskResult
 * @typedef {import('../index.d.ts').TaskId} TaskId
 * @typedef {import('../index.d.ts').WaitOptions} WaitOptions
 * @typedef {import('./listening.js').Listener} Listener
 * @typedef {{ resolve: (result: TaskResult) => void, reject: (error: any) => void }} Caller
 */

const CLOSED = 'the waiter was closed';
/** What a timer takes. */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** How long a waiter's connection may take to end. */
const CLOSE_LIMIT_MS = 5000;

/**
 * @param {import('../index.d.ts').Listenable} db
 * @param {readonly TaskId[]} ids
 * @param {WaitOptions} [options]
 * @returns {Promise<TaskResult[]>}
 */
async function wait(db, ids, options = {}) {
    const wanted = checkedIds(ids);
    const { ms, signal } = checkedOptions(options);
    const until = Date.now() + ms;
    /** @type {Map<string, TaskResult>} */
    const ended = new Map();
    const awaited = new Awaited((result) => ended.set(result.id, result));
    awaited.add(wanted, Date.now());
    const over = () => awaited.due === undefined || signal?.aborted;
    const left = () => (over() ? 0 : Math.max(until - Date.now(), 0));
    const refused = (/** @type {string} */ _, /** @type {any} */ error) => {
        throw error;
    };
    const listener = listenerOf(db);
    const ring = () => listener.bell.ring();
    signal?.addEventListener('abort', ring);
    const missing = () => [...new Set(wanted)].filter((id) => !ended.has(id));
    try {
        await opened(listener, () => serve(listener, awaited, { more() {}, left, refused }));
    } catch (error) {
        throw listener.isLost(error) ? failure(missing(), error) : error;
    } finally {
        signal?.removeEventListener('abort', ring);
    }
    if (signal?.aborted && missing().length > 0) {
        throw signal.reason;
    }
    return wanted.map((id) => ended.get(id) ?? unfinished(id));
}

/**
 * @param {Listener} listener
 * @param {() => Promise<void>} use
 */
async function opened(listener, use) {
    try {
        await listener.open();
        await use();
    } finally {
        await listener.close();
    }
}

class Waiter {
    #connect;
    /** @type {Map<string, Set<Caller>>} */
    #callers = new Map();
    /** @type {string[]} */
    #new = [];
    /** @type {string[]} */
    #gone = [];
    /** @type {Listener | undefined} */
    #listener;
    /** @type {Promise<void> | undefined} */
    #serving;
    #closed = false;

    /** @param {() => PromiseLike<any> | any} connect */
    constructor(connect) {
        if (typeof connect !== 'function') {
            throw new TypeError(
                `connect is ${inspect(connect)}; it should be a function that makes a connection`,
            );
        }
        this.#connect = connect;
    }

    /**
     * @param {TaskId} taskId
     * @param {WaitOptions} [options]
     * @returns {Promise<TaskResult>}
     */
    async wait(taskId, options = {}) {
        const [id] = checkedIds([taskId]);
        const { ms, signal } = checkedOptions(options);
        if (this.#closed) {
            throw new Error(CLOSED);
        }
        /** @type {NodeJS.Timeout | undefined} */
        let timer;
        /** @type {Caller | undefined} */
        let caller;
        const abort = () => caller?.reject(signal?.reason);
        try {
            return await new Promise((resolve, reject) => {
                caller = { resolve, reject };
                timer = setTimeout(() => resolve(unfinished(id)), Math.min(ms, TIMER_MS_MAX));
                signal?.addEventListener('abort', abort);
                this.#come(id, caller);
            });
        } finally {
            clearTimeout(timer);
            signal?.removeEventListener('abort', abort);
            this.#go(id, /** @type {Caller} */ (caller));
        }
    }

    async close() {
        this.#closed = true;
        this.#listener?.bell.ring();
        await within(CLOSE_LIMIT_MS, this.#serving);
        if (this.#serving) {
            const discarded = this.#listener?.discard().catch(() => {}); // the server does not answer
            await within(CLOSE_LIMIT_MS, discarded);
            this.#fail(new Error(CLOSED));
        }
    }

    /**
     * @param {string} id
     * @param {Caller} caller
     */
    #come(id, caller) {
        const callers = this.#callers.get(id) ?? new Set();
        this.#callers.set(id, callers.add(caller));
        this.#new.push(id);
        this.#serving ??= Promise.resolve().then(() => this.#serve()); // which may end at once
        this.#listener?.bell.ring();
    }

    /**
     * @param {string} id
     * @param {Caller} caller
     */
    #go(id, caller) {
        const callers = this.#callers.get(id);
        if (callers?.delete(caller) && callers.size === 0) {
            this.#callers.delete(id);
            this.#gone.push(id);
        }
    }

    /** Until it is closed, or the connection is lost; later callers begin again. */
    async #serve() {
        /** @type {any} */
        let why = new Error(CLOSED);
        try {
            await this.#use(await this.#connect());
        } catch (error) {
            why = error;
        }
        this.#serving = undefined;
        this.#fail(why);
    }

    /** @param {any} db what connect has made; it is ended */
    async #use(db) {
        try {
            this.#listener = listenerOf(db);
            await this.#listener.open();
            await this.#listen(this.#listener);
        } finally {
            const listener = this.#listener;
            this.#listener = undefined;
            await within(
                CLOSE_LIMIT_MS,
                ended(db, listener).catch(() => {}),
            );
        }
    }

    /** @param {Listener} listener */
    #listen(listener) {
        const awaited = new Awaited((result) => {
            this.#answer(result.id, (caller) => caller.resolve(result));
        });
        return serve(listener, awaited, {
            more: () => {
                awaited.add(this.#new.splice(0), Date.now());
                awaited.drop(this.#gone.splice(0).filter((id) => !this.#callers.has(id)));
            },
            left: () => (this.#closed ? 0 : Infinity),
            refused: (id, error) => this.#answer(id, (caller) => caller.reject(error)),
        });
    }

    /**
     * @param {string} id
     * @param {(caller: Caller) => void} answer
     */
    #answer(id, answer) {
        const callers = this.#callers.get(id) ?? [];
        this.#callers.delete(id);
        for (const caller of callers) {
            answer(caller);
        }
    }

    /** @param {any} why */
    #fail(why) {
        this.#new = [];
        this.#gone = [];
        for (const id of [...this.#callers.keys()]) {
            const error = why instanceof TypeError ? why : failure([id], why);
            this.#answer(id, (caller) => caller.reject(error));
        }
    }
}

/**
 * A server that is gone may never answer, and callers wait to be told.
 *
 * @param {number} ms
 * @param {Promise<void> | undefined} promise
 */
async function within(ms, promise) {
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const late = new Promise((resolve) => {
        timer = setTimeout(resolve, ms);
    });
    await Promise.race([promise, late]);
    clearTimeout(timer);
}

/**
 * Ends what was made for the waiter: no pool, which would be the caller's, and nothing that another waits on.
 *
 * @param {any} db
 * @param {Listener | undefined} listener
 */
async function ended(db, listener) {
    if (listener) {
        await listener.discard();
    } else if (!/Pool$/.test(db?.constructor?.name)) {
        await db?.end?.();
    }
}

/** @param {string} id */
function unfinished(id) {
    return { id, state: /** @type {const} */ ('unfinished'), result: null, error: null };
}

/**
 * @param {WaitOptions} options
 * @returns {{ ms: number, signal: AbortSignal | undefined }} milliseconds; Infinity without a timeout
 */
function checkedOptions(options) {
    const { timeout, signal, ...others } = Object(options);
    const [other] = Object.keys(others);
    if (other !== undefined || options === null || typeof options !== 'object') {
        throw new TypeError(
            `there is no option ${inspect(other ?? options)}; there are: timeout, signal`,
        );
    }
    if (signal !== undefined && !(signal instanceof AbortSignal)) {
        throw new TypeError(`signal is ${inspect(signal)}; it should be an AbortSignal`);
    }
    signal?.throwIfAborted();
    return { ms: timeout === undefined ? Infinity : milliseconds(timeout, 'timeout'), signal };
}

/**
 * @param {string[]} ids
 * @param {any} cause
 */
function failure(ids, cause) {
    const what =
        ids.length > 10
            ? `${ids.length} tasks`
            : `task${ids.length === 1 ? '' : 's'} ${ids.join(', ')}`;
    return new Error(`could not wait for ${what}: ${cause?.message || cause?.code || cause}`, {
        cause,
    });
}

exports.wait = wait;
exports.Waiter = Waiter;
