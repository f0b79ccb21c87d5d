// A task's state and progress while it runs, for a page that shows them.
'use strict';

const { setTimeout: delay } = require('node:timers/promises');
const { checkedIds, ENDS } = require('./awaited.js');
const { rowsOf } = require('./databases.js');
const { milliseconds } = require('./duration.js');

/** The worker writes a progress about once a second. */
const EVERY = '1 s';
const STATE =
    'SELECT r.state, r.progress::text, r.result::text, r.error FROM tenon.result($1::text::bigint) r';

/**
 * @param {import('../index.d.ts').Database} db
 * @param {import('../index.d.ts').TaskId} id
 * @param {import('../index.d.ts').WatchOptions} [options]
 * @returns {AsyncGenerator<import('../index.d.ts').TaskState, void>}
 */
async function* watch(db, id, { every = EVERY, signal } = {}) {
    const [task] = checkedIds([id]);
    const ms = Math.max(milliseconds(every, 'every'), 1);
    for (let before = ''; ; ) {
        signal?.throwIfAborted();
        const state = stateOf(task, (await rowsOf(db, STATE, [task]))[0]);
        const now = JSON.stringify(state);
        if (now !== before) {
            yield state;
        }
        if (ENDS.includes(state.state)) {
            return;
        }
        before = now;
        await delay(ms, undefined, signal ? { signal } : {}).catch(() => {});
    }
}

/**
 * @param {string} id
 * @param {any[] | undefined} row
 * @returns {import('../index.d.ts').TaskState}
 */
function stateOf(id, row) {
    const [state = null, progress = null, result = null, error = null] = row ?? [];
    return {
        id,
        state,
        progress: JSON.parse(progress),
        result: JSON.parse(result),
        error: state === null ? null : error,
    };
}

exports.watch = watch;
