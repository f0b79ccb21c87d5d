// What runs around every handler of this process: for traces, reports of errors, contexts of log lines.
'use strict';

const { inspect } = require('./duration.js');

/**
 * @typedef {import('../index.d.ts').Middleware} Middleware
 * @typedef {import('./context.js').TaskContext} TaskContext
 */

/** @type {Middleware[]} */
const all = [];

/**
 * @param {Middleware} middleware
 * @returns {() => void}
 */
function use(middleware) {
    if (typeof middleware !== 'function') {
        throw new TypeError(
            `the middleware is ${inspect(middleware)}; it should be a function (context, next)`,
        );
    }
    all.push(middleware);
    return () => {
        const at = all.indexOf(middleware);
        if (at >= 0) {
            all.splice(at, 1);
        }
    };
}

/**
 * Calls `run` inside of all of them, the first one outermost.
 *
 * @param {TaskContext} context
 * @param {() => Promise<any>} run
 * @returns {Promise<any>}
 */
async function around(context, run) {
    let next = run;
    for (const middleware of [...all].reverse()) {
        const inner = next;
        next = async () => middleware(context, inner);
    }
    return next();
}

exports.use = use;
exports.around = around;
