// Waiting for the ends of tasks: of some on a connection, and by any number of callers on one (docs/steps.md).
import { Awaited } from './awaited.js';
import { inspect, milliseconds } from './duration.js';
import { listenerOf, serve } from './listening.js';

/**
 * @typedef {import('../index.d.ts').TaskResult} TaskResult
 * @typedef {import('../index.d.ts').TaskId} TaskId
 * @typedef {import('../index.d.ts').WaitOptions} WaitOptions
 * @typedef {import('./listening.js').Listener} Listener
 * @typedef {{ resolve: (result: TaskResult) => void, reject: (error: any) => void }} Caller
 */

/** So many tasks are waited for in one call. */
const WAITED_MAX = 10_000;
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
export async function wait(db, ids, options = {}) {
    const wanted = checkedIds(ids);
    const until = Date.now() + timeoutOf(options);
    /** @type {Map<string, TaskResult>} */
    const ended = new Map();
    const awaited = new Awaited((result) => ended.set(result.id, result));
    awaited.add(wanted, Date.now());
    const left = () => (awaited.due === undefined ? 0 : Math.max(until - Date.now(), 0));
    const refused = (/** @type {string} */ _, /** @type {any} */ error) => {
        throw error;
    };
    const listener = listenerOf(db);
    try {
        await listener.open();
        await serve(listener, awaited, { more() {}, left, refused }).finally(() =>
            listener.close(),
        );
    } catch (error) {
        const unfinished = [...new Set(wanted)].filter((id) => !ended.has(id));
        throw listener.isLost(error) ? failure(unfinished, error) : error;
    }
    return wanted.map((id) => ended.get(id) ?? unfinished(id));
}

export class Waiter {
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
        const ms = Math.min(timeoutOf(options), TIMER_MS_MAX);
        if (this.#closed) {
            throw new Error('the waiter was closed');
        }
        /** @type {NodeJS.Timeout | undefined} */
        let timer;
        /** @type {Caller | undefined} */
        let caller;
        try {
            return await new Promise((resolve, reject) => {
                caller = { resolve, reject };
                timer = setTimeout(() => resolve(unfinished(id)), ms);
                this.#come(id, caller);
            });
        } finally {
            clearTimeout(timer);
            this.#go(id, /** @type {Caller} */ (caller));
        }
    }

    async close() {
        this.#closed = true;
        this.#listener?.bell.ring();
        await this.#serving;
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

    /** Until it is closed, or the connection is lost; whoever comes then begins anew. */
    async #serve() {
        /** @type {any} */
        let why = new Error('the waiter was closed');
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
        /** @type {Listener | undefined} */
        let listener;
        try {
            listener = listenerOf(db);
            await listener.open();
            this.#listener = listener;
            await this.#listen(listener);
        } finally {
            this.#listener = undefined;
            await within(CLOSE_LIMIT_MS, freed(db, listener));
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
 * @param {Promise<void>} promise
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
 * @param {any} db
 * @param {Listener | undefined} listener
 */
async function freed(db, listener) {
    await listener?.close().catch(() => {});
    await ended(db, listener).catch(() => {});
}

/**
 * Ends what was made for the waiter: no pool, which would be the caller's, and nothing that another waits on.
 *
 * @param {any} db
 * @param {Listener | undefined} listener
 */
async function ended(db, listener) {
    if (listener) {
        await (listener.isTaken() || listener.end());
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
 * @returns {number} milliseconds; Infinity without one
 */
function timeoutOf(options) {
    const { timeout, ...others } = Object(options);
    const [other] = Object.keys(others);
    if (other !== undefined || options === null || typeof options !== 'object') {
        throw new TypeError(`there is no option ${inspect(other ?? options)}; there is: timeout`);
    }
    return timeout === undefined ? Infinity : milliseconds(timeout, 'timeout');
}

/**
 * As PostgreSQL prints them.
 *
 * @param {readonly TaskId[]} ids
 */
function checkedIds(ids) {
    if (!Array.isArray(ids)) {
        throw new TypeError(`ids is ${inspect(ids)}; it should be an array of ids`);
    }
    if (ids.length > WAITED_MAX) {
        throw new TypeError(`${ids.length} tasks: wait for at most ${WAITED_MAX} in one call`);
    }
    return ids.map((id) => {
        if (!/^\d{1,19}$/.test(String(id))) {
            throw new TypeError(`${inspect(id)} is no id of a task`);
        }
        return String(BigInt(id));
    });
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
