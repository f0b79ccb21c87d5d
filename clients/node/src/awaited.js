// Which tasks are waited for, and what is to be asked next, without a clock; and how tasks have ended.
'use strict';

const { rowsOf } = require('./databases.js');
const { inspect } = require('./duration.js');

/**
 * @typedef {import('../index.d.ts').TaskResult} TaskResult
 * @typedef {import('../index.d.ts').TaskId} TaskId
 */

/** The maximum number of tasks in one call. */
const WAITED_MAX = 10_000;

/** A task without news for this long is asked for again: the mark of a task that was locked is missing. */
const ASK_MS = 10_000;
/** The maximum number of tasks in one statement. */
const ASKED_MAX = 1000;

/** @type {(string | null)[]} */
const ENDS = ['done', 'dead', 'cancelled', 'expired', null];
const COLUMNS = 'i.id::text, r.state, r.result::text, r.error';
const IDS = 'pg_catalog.unnest($1::text::bigint[]) i (id)';
const RESULT = `SELECT ${COLUMNS} FROM ${IDS}, tenon.result(i.id) r`;
// A mark that is lost in a crash of the server is set again: that breaks the connection, too.
const AWAIT = `SELECT ${COLUMNS}
    FROM (SELECT pg_catalog.set_config('synchronous_commit', 'off', true)) s, ${IDS}, tenon.await(i.id) r`;

class Awaited {
    /** @type {Set<string>} */
    #tasks = new Set();
    /** @type {string[]} */
    #new = [];
    /** @type {string[]} */
    #said = [];
    /** @type {string[]} */
    #again = [];
    #due = 0;
    #tell;

    /** @param {(result: TaskResult) => void} tell gets each result */
    constructor(tell) {
        this.#tell = tell;
    }

    /**
     * @param {string[]} ids
     * @param {number} now
     */
    add(ids, now) {
        if (this.#tasks.size === 0) {
            this.#due = now + ASK_MS;
        }
        for (const id of ids) {
            this.#tasks.add(id);
            this.#new.push(id);
        }
    }

    /**
     * Nobody waits for them any more.
     *
     * @param {string[]} ids
     */
    drop(ids) {
        for (const id of ids) {
            this.#tasks.delete(id);
        }
    }

    /**
     * It is said to have ended.
     *
     * @param {string} id
     */
    heard(id) {
        if (this.#tasks.has(id)) {
            this.#said.push(id);
        }
    }

    /** What may have been said was not heard: all are asked for. */
    missed() {
        this.#again = [...this.#tasks];
    }

    /** When there is a question, though nothing is heard. */
    get due() {
        return this.#tasks.size > 0 ? this.#due : undefined;
    }

    /**
     * The next one. New ones are asked for one by one: so each is locked no longer than it must.
     *
     * @param {number} now
     * @returns {{ text: string, ids: string[] } | undefined}
     */
    question(now) {
        if (this.#tasks.size > 0 && now >= this.#due) {
            this.#due = now + ASK_MS;
            this.missed();
        }
        return (
            this.#some(AWAIT, this.#new, 1) ??
            this.#some(RESULT, this.#said, ASKED_MAX) ??
            this.#some(AWAIT, this.#again, ASKED_MAX)
        );
    }

    /**
     * @param {string} text
     * @param {string[]} waiting
     * @param {number} most
     */
    #some(text, waiting, most) {
        while (waiting.length > 0) {
            const ids = [...new Set(waiting.splice(0, most))].filter((id) => this.#tasks.has(id));
            if (ids.length > 0) {
                return { text, ids };
            }
        }
    }

    /** @param {any[][]} rows */
    answer(rows) {
        for (const [id, state, result, error] of rows) {
            if (ENDS.includes(state)) {
                this.#tasks.delete(id);
                this.#tell({ id, state, result: JSON.parse(result), error });
            }
        }
    }
}

/**
 * The state of each task now, in the order of the ids.
 *
 * @param {import('../index.d.ts').Database} db
 * @param {string[]} ids
 * @returns {Promise<{ id: string, state: string | null, result: any, error: string | null }[]>}
 */
async function resultsOf(db, ids) {
    if (ids.length === 0) {
        return [];
    }
    const rows = await rowsOf(db, RESULT, [`{${ids.join(',')}}`]);
    const found = new Map(rows.map(([id, ...rest]) => [id, rest]));
    return ids.map((id) => {
        const [state = null, result = null, error = null] = found.get(id) ?? [];
        return { id, state, result: JSON.parse(result), error };
    });
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
            throw new TypeError(`${inspect(id)} is not the id of a task`);
        }
        return String(BigInt(id));
    });
}

exports.checkedIds = checkedIds;
exports.ENDS = ENDS;
exports.resultsOf = resultsOf;
exports.ASK_MS = ASK_MS;
exports.ASKED_MAX = ASKED_MAX;
exports.RESULT = RESULT;
exports.AWAIT = AWAIT;
exports.Awaited = Awaited;
