// Durable steps (docs/steps.md): what an attempt has done and recorded, no later one does again.
'use strict';

const { createHash } = require('node:crypto');
const { checkedIds, ENDS, resultsOf } = require('./awaited.js');
const { rowsOf } = require('./databases.js');
const { inspect, milliseconds } = require('./duration.js');
const { printedBytes, storable } = require('./json.js');
const { Suspended } = require('./outcomes.js');
const { opened } = require('./secrets.js');

const NAME_BYTES_MAX = 100;
const STEP_BYTES_MAX = 1_048_576;
const SNOOZE_MS_MAX = 30 * 86_400_000;
const WAIT_MS_MAX = 365 * 86_400_000;
/** How often other tasks are asked for. */
const WAIT_FOR_MS_MIN = 1000;
const WAIT_FOR_MS_MAX = 60_000;
const RECORD = 'SELECT tenon.step($1::text, $2::text, $3::text::jsonb)::text AS value';
const KEPT = 'SELECT tenon.steps($1::text)::text AS steps';

/** @typedef {{ resolve: (recorded: boolean) => void, reject: (error: Error) => void }} Asked */

class Steps {
    #id;
    #claim;
    #say;
    #seal;
    #kind = '';
    /** @type {Map<string, any>} what is known to be recorded */
    #kept;
    /** those that are being done */
    #now = new Set();
    /** @type {Map<string, Asked>} those that the worker has not answered */
    #asked = new Map();
    /** recorded on a connection, which may have rolled back */
    #uncertain = new Set();
    /** @type {Error | undefined} why no answer will come */
    #over;
    /** @type {Suspended | undefined} */
    suspended;

    /**
     * @param {{ id: string, claim: string, steps?: Record<string, unknown> }} line
     * @param {(line: string) => void} say
     * @param {(text: string, what: string) => string} seal a value as it leaves this process
     */
    constructor({ id, claim, steps = {} }, say, seal) {
        this.#id = id;
        this.#claim = claim;
        this.#say = say;
        this.#seal = seal;
        this.#kept = new Map(Object.entries(steps));
    }

    /**
     * Decrypts what came encrypted.
     *
     * @param {string} kind
     */
    open(kind) {
        this.#kind = kind;
        for (const [name, value] of this.#kept) {
            this.#kept.set(name, opened(value, kind, `step:${name}`));
        }
    }

    /** A copy, so that nobody changes what is kept. */
    get kept() {
        return Object.fromEntries(this.#kept);
    }

    /**
     * @param {string} name
     * @param {() => any} work
     * @param {import('../index.d.ts').Database} [db]
     */
    async step(name, work, db) {
        this.#mustGoOn();
        checkName(name);
        if (this.#now.has(name)) {
            throw new Error(`the step ${name} is being done: give the other another name`);
        }
        this.#now.add(name);
        try {
            return this.#kept.has(name)
                ? this.#kept.get(name)
                : await (db ? this.#stepOn(db, name, work) : this.#stepElsewhere(name, work));
        } finally {
            this.#now.delete(name);
        }
    }

    /**
     * @param {string} name
     * @param {import('../index.d.ts').Duration} duration
     */
    async sleep(name, duration) {
        const ms = milliseconds(duration, 'the duration of sleep');
        const until = await this.step(name, () => Date.now() + ms);
        const left = until - Date.now();
        if (left > 0) {
            this.#suspend({ outcome: 'snooze', delay_ms: Math.min(left, SNOOZE_MS_MAX) });
        }
    }

    /**
     * @param {string} name
     * @param {import('../index.d.ts').Duration} [timeout]
     */
    async waitSignal(name, timeout = '365 d') {
        this.#mustGoOn();
        checkName(name);
        if (this.#kept.has(name)) {
            return this.#kept.get(name);
        }
        const ms = milliseconds(timeout, 'the timeout of waitSignal');
        if (ms < 1 || ms > WAIT_MS_MAX) {
            throw new RangeError(`wait for a signal for 1 ms to 365 days, not ${ms} ms`);
        }
        this.#suspend({ outcome: 'wait_signal', signal: name, timeout_ms: ms });
    }

    /**
     * How other tasks have ended, recorded as a step. While one has not, the attempt ends, and the next one asks again after
     * a quarter of the time that has passed.
     *
     * @param {readonly import('../index.d.ts').TaskId[]} ids
     * @param {import('../index.d.ts').Database} db
     * @param {string} [given]
     */
    async waitFor(ids, db, given) {
        this.#mustGoOn();
        const wanted = checkedIds(ids);
        const hash = createHash('sha256').update(wanted.join(' ')).digest('hex').slice(0, 16);
        const name = given ?? `wait_for:${hash}`;
        checkName(name);
        if (!this.#kept.has(name)) {
            const found = await resultsOf(db, wanted);
            if (!found.every(({ state }) => ENDS.includes(state))) {
                const since = await this.step(`${name}:since`, () => Date.now());
                const ms = Math.max(Math.round((Date.now() - since) / 4), WAIT_FOR_MS_MIN);
                this.#suspend({ outcome: 'snooze', delay_ms: Math.min(ms, WAIT_FOR_MS_MAX) });
            }
            await this.step(name, () => found);
        }
        return this.#kept.get(name);
    }

    /**
     * The worker's answer.
     *
     * @param {string} name
     * @param {boolean} recorded
     */
    told(name, recorded) {
        this.#asked.get(name)?.resolve(recorded);
        this.#asked.delete(name);
    }

    /**
     * No answer will come.
     *
     * @param {Error} why
     */
    end(why) {
        this.#over = why;
        for (const { reject } of this.#asked.values()) {
            reject(why);
        }
        this.#asked.clear();
    }

    /**
     * @param {string} name
     * @param {() => any} work
     */
    async #stepElsewhere(name, work) {
        const text = stepText(name, await work());
        const said = this.#seal(text, `step:${name}`);
        if (printedBytes(said) > STEP_BYTES_MAX) {
            throw new RangeError(`the step ${name} is longer than 1 MiB`);
        }
        const recorded = await new Promise((resolve, reject) => {
            this.#asked.set(name, { resolve, reject });
            if (this.#over) {
                this.end(this.#over);
            }
            const step = `{"name":${JSON.stringify(name)},"value":${said}}`;
            this.#say(`{"id":${this.#id},"step":${step}}`);
        });
        if (!recorded) {
            throw new Error(
                `the step ${name} was not recorded: a task has 1,000 steps of 1 MiB in all`,
            );
        }
        this.#kept.set(name, JSON.parse(text));
        return this.#kept.get(name);
    }

    /**
     * @param {import('../index.d.ts').Database} db
     * @param {string} name
     * @param {() => any} work
     */
    async #stepOn(db, name, work) {
        if (this.#uncertain.has(name)) {
            const kept = JSON.parse((await rowsOf(db, KEPT, [this.#claim]))[0][0]);
            if (Object.hasOwn(kept, name)) {
                return opened(kept[name], this.#kind, `step:${name}`);
            }
        }
        const text = this.#seal(stepText(name, await work()), `step:${name}`);
        const params = [this.#claim, name, text];
        const [[recorded]] = await rowsOf(db, RECORD, params);
        this.#uncertain.add(name);
        return opened(JSON.parse(recorded), this.#kind, `step:${name}`);
    }

    /** sleep() and waitSignal() are the end of an attempt, also where somebody caught what they threw. */
    #mustGoOn() {
        if (this.suspended) {
            throw this.suspended;
        }
    }

    /** @param {import('./outcomes.js').SuspendedReply} reply */
    #suspend(reply) {
        this.suspended = new Suspended(reply);
        throw this.suspended;
    }
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function stepText(name, value) {
    return storable(value === undefined ? null : value, `the step ${name}`);
}

/** @param {unknown} name */
function checkName(name) {
    const bytes = typeof name === 'string' ? Buffer.byteLength(name) : 0;
    if (bytes < 1 || bytes > NAME_BYTES_MAX || /** @type {string} */ (name).includes('\0')) {
        throw new TypeError(
            `the name of a step or signal is ${inspect(name)}; it should be a text of 1 to 100 bytes`,
        );
    }
}

exports.Steps = Steps;
