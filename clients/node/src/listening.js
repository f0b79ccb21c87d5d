// Connections that hear of tasks' ends: a class for each driver. Nothing here polls.
'use strict';

const { inspect } = require('./duration.js');

const CHANNEL = 'tenon_ended';
/** How long a server may take to end a connection. */
const END_LIMIT_MS = 2000;
const POOLED =
    'waiting for tasks needs a direct connection; this one leads through a pooler, which delivers no notifications';
const BUSY =
    'another call waits on this connection: give all ids to one call, or let a Waiter wait';

/**
 * What is heard, or happens, until someone looks.
 *
 * @typedef {{ ids: string[], missed: boolean, lost: Error | undefined }} Heard
 */

/** Rings when there is something to do. */
class Bell {
    #rung = false;
    #wake = () => {};

    ring() {
        this.#rung = true;
        this.#wake();
    }

    /**
     * Until it rings, or this many milliseconds have passed.
     *
     * @param {number} ms Infinity: until it rings
     */
    async rung(ms) {
        if (!this.#rung) {
            /** @type {NodeJS.Timeout | undefined} */
            let timer;
            await new Promise((resolve) => {
                this.#wake = () => resolve(undefined);
                timer = ms === Infinity ? undefined : setTimeout(resolve, ms);
            });
            clearTimeout(timer);
        }
        this.#rung = false;
    }
}

/** What the drivers have in common. */
class Listener {
    /** @type {WeakSet<object>} */
    static #listening = new WeakSet();
    /** @type {Heard} */
    heard = { ids: [], missed: false, lost: undefined };
    bell = new Bell();
    #occupies = false;

    /** @param {any} db */
    constructor(db) {
        this.db = db;
    }

    /** Hears of the connection's loss from here on. After this, also when it fails: close() or discard(). */
    async open() {
        if (this.isTaken()) {
            throw new TypeError(BUSY);
        }
        Listener.#listening.add(this.db);
        this.#occupies = true;
        await this.listen();
    }

    /** Whether somebody waits on it; after close(): somebody else. */
    isTaken() {
        return Listener.#listening.has(this.db);
    }

    /** As it was, if it is this one's and not lost. */
    async close() {
        if (!this.#occupies) {
            return;
        }
        this.#occupies = false;
        try {
            if (!this.heard.lost) {
                await this.unlisten();
            }
        } finally {
            Listener.#listening.delete(this.db);
        }
    }

    /** Ends a connection that was made for this alone, unless another waits on it. It is not left as it was. */
    async discard() {
        if (!this.#occupies && this.isTaken()) {
            return;
        }
        this.#occupies = false;
        try {
            await this.end();
        } finally {
            Listener.#listening.delete(this.db);
        }
    }

    /**
     * Anybody may say anything there: it is only a reason to ask.
     *
     * @param {string | undefined} payload
     */
    note(payload) {
        this.heard.ids.push(payload ?? '');
        this.bell.ring();
    }

    /** @param {any} error of a statement, or of the connection */
    isLost(error) {
        const refused =
            error instanceof TypeError || (error?.severity && error.severity !== 'FATAL');
        return Boolean(this.heard.lost) || !refused;
    }

    /**
     * Each value as PostgreSQL prints it: the caller's own converters are not for these.
     *
     * @param {string} _text
     * @param {string[]} [_params]
     * @returns {Promise<any[][]>}
     */
    rows(_text, _params) {
        throw new Error('not built');
    }

    /** @returns {Promise<void>} */
    listen() {
        throw new Error('not built');
    }

    /** @returns {Promise<void>} */
    unlisten() {
        throw new Error('not built');
    }

    /** @returns {Promise<void>} closes the connection */
    end() {
        throw new Error('not built');
    }
}

/** A client of node-postgres. */
class PgListener extends Listener {
    #handlers = {
        notification: (/** @type {any} */ { channel, payload }) => {
            if (channel === CHANNEL) {
                this.note(payload);
            }
        },
        error: (/** @type {Error} */ error) => this.#lost(error),
        end: () => this.#lost(new Error('the connection was closed')),
    };
    #hears = false;

    /**
     * @override
     * @param {string} text
     * @param {string[]} [values]
     */
    async rows(text, values) {
        const types = { getTypeParser: () => String };
        return (await this.db.query({ text, values, types, rowMode: 'array' })).rows;
    }

    /** @override */
    async listen() {
        // First of all: an error that nobody listens to ends the process.
        for (const [event, handler] of Object.entries(this.#handlers)) {
            this.db.on(event, handler);
        }
        this.#hears = true;
        if (this.db.processID === null) {
            await this.db.connect();
        }
        const [[pid]] = await this.rows('SELECT pg_catalog.pg_backend_pid()::text');
        if (Number(pid) !== this.db.processID) {
            throw new TypeError(POOLED);
        }
        await this.db.query(`LISTEN ${CHANNEL}`);
        const begun = `SELECT (count(*) > 0)::text FROM pg_listening_channels() c WHERE c = '${CHANNEL}'`;
        const [[heard]] = await this.rows(begun); // from its commit on
        if (heard !== 'true') {
            throw new TypeError(
                'cannot wait in a transaction, because it receives no notifications: wait after its end',
            );
        }
    }

    /** @override */
    async unlisten() {
        if (this.#hears) {
            await this.db.query(`UNLISTEN ${CHANNEL}`);
            for (const [event, handler] of Object.entries(this.#handlers)) {
                this.db.off(event, handler);
            }
        }
    }

    /** @override */
    async end() {
        this.db.release?.(true); // of a pool, which begins to end it
        const destroy = () => this.db.connection?.stream?.destroy();
        const timer = setTimeout(destroy, END_LIMIT_MS).unref();
        await this.db.end();
        clearTimeout(timer);
    }

    /** @param {Error} error */
    #lost(error) {
        this.heard.lost ??= error;
        this.bell.ring();
    }
}

/** postgres.js, which listens on a connection of its own, and makes another when that is lost. */
class PostgresJsListener extends Listener {
    /** @type {{ unlisten(): Promise<void>, state: { pid: number } } | undefined} */
    #listened;

    /**
     * @override
     * @param {string} text
     * @param {string[]} [params]
     */
    async rows(text, params) {
        const rows = await this.db.unsafe(text, params).raw();
        return rows.map((/** @type {(Buffer | null)[]} */ row) =>
            row.map((value) => value && String(value)),
        );
    }

    /** @override */
    async listen() {
        this.#listened = await this.db.listen(
            CHANNEL,
            (/** @type {string} */ payload) => this.note(payload),
            () => {
                this.heard.missed = true;
                this.bell.ring();
            },
        );
        this.heard.missed = false; // nothing was awaited before
        const there =
            'SELECT count(*)::text FROM pg_catalog.pg_stat_activity WHERE pid = $1::text::integer';
        const [[found]] = await this.rows(there, [String(this.#listened?.state.pid)]);
        if (found !== '1') {
            throw new TypeError(POOLED);
        }
    }

    /** @override */
    async unlisten() {
        await this.#listened?.unlisten();
    }

    /** @override */
    async end() {
        await this.db.end({ timeout: END_LIMIT_MS / 1000 });
    }
}

/**
 * @param {any} db
 * @returns {Listener}
 */
function listenerOf(db) {
    if (typeof db?.unsafe === 'function' && typeof db.listen === 'function') {
        return new PostgresJsListener(db);
    }
    if (typeof db?.query === 'function' && typeof db.on === 'function' && 'processID' in db) {
        return new PgListener(db);
    }
    throw new TypeError(
        `db is ${inspect(db)}; to wait it should be a client of node-postgres, not its pool, or the sql of postgres.js`,
    );
}

/**
 * What is asked and heard, until it is over.
 *
 * @param {Listener} listener
 * @param {import('./awaited.js').Awaited} awaited
 * @param {{ more(): void, left(): number, refused(id: string, error: any): void }} caller more: takes in whom it waits
 *     for besides; left: milliseconds until it is over, Infinity for ever; refused: what the database said to a question
 */
async function serve(listener, awaited, { more, left, refused }) {
    for (;;) {
        more();
        const question = awaited.question(Date.now());
        if (question) {
            await ask(listener, awaited, question, left, refused);
            continue;
        }
        const ms = left();
        if (ms === 0) {
            return;
        }
        const quiet = awaited.due === undefined ? Infinity : Math.max(awaited.due - Date.now(), 1);
        await listener.bell.rung(Math.min(ms, quiet));
        listenTo(listener, awaited);
    }
}

/**
 * When many are refused, each half of them is asked for while there is time: so one that must be is refused alone.
 *
 * @param {Listener} listener
 * @param {import('./awaited.js').Awaited} awaited
 * @param {{ text: string, ids: string[] }} question
 * @param {() => number} left
 * @param {(id: string, error: any) => void} refused
 */
async function ask(listener, awaited, { text, ids }, left, refused) {
    const parts = [ids];
    for (let part = parts.pop(); part; part = parts.pop()) {
        try {
            awaited.answer(await listener.rows(text, [`{${part.join()}}`]));
        } catch (error) {
            if (listener.isLost(error)) {
                throw error;
            }
            if (part.length > 1 && left() > 0) {
                const half = Math.floor(part.length / 2);
                parts.push(part.slice(0, half), part.slice(half));
            } else {
                refuse(awaited, part, (id) => refused(id, error));
            }
        }
    }
}

/**
 * @param {import('./awaited.js').Awaited} awaited
 * @param {string[]} ids
 * @param {(id: string) => void} refused
 */
function refuse(awaited, ids, refused) {
    awaited.drop(ids);
    for (const id of ids) {
        refused(id);
    }
}

/**
 * @param {Listener} listener
 * @param {import('./awaited.js').Awaited} awaited
 */
function listenTo(listener, awaited) {
    const { ids, missed, lost } = listener.heard;
    if (lost) {
        throw lost;
    }
    listener.heard = { ids: [], missed: false, lost: undefined };
    for (const id of ids) {
        awaited.heard(id);
    }
    if (missed) {
        awaited.missed();
    }
}

exports.Bell = Bell;
exports.Listener = Listener;
exports.listenerOf = listenerOf;
exports.serve = serve;
