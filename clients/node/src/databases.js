// The user's own connection of any driver, in the form { query(text, params) -> rows }.
'use strict';

const { inspect } = require('./duration.js');

/**
 * @typedef {import('../index.d.ts').Database} Database
 * @typedef {import('../index.d.ts').Queryable} Queryable
 * @typedef {(string | null)[]} Params
 */

/**
 * The rows of a statement, each as an array of its values in order, since drivers may rename columns.
 *
 * @param {Database} db
 * @param {string} text with $1, $2 ...
 * @param {Params} params
 * @returns {Promise<any[][]>}
 */
async function rowsOf(db, text, params) {
    const result = await queried(db, text, params);
    const rows = Array.isArray(result) ? result : result?.rows;
    if (!Array.isArray(rows)) {
        throw new TypeError('db.query(text, params) gave no rows: neither an array nor { rows }');
    }
    return rows.map((row) => Object.values(row));
}

/**
 * @param {any} db
 * @param {string} text
 * @param {Params} params
 */
function queried(db, text, params) {
    if (typeof db?.unsafe === 'function') {
        return db.unsafe(text, params); // postgres.js
    }
    if (typeof db?.query === 'function') {
        return db.query(text, params);
    }
    throw new TypeError(
        `db is ${inspect(db)}; it should be a client of node-postgres, the sql of postgres.js, ` +
            'or what fromPrisma, fromDrizzle, fromKysely or fromKnex returns',
    );
}

/**
 * @param {{ $queryRawUnsafe(text: string, ...params: any[]): PromiseLike<any> }} tx
 * @returns {Queryable}
 */
function fromPrisma(tx) {
    return { query: (text, params) => tx.$queryRawUnsafe(text, ...params) };
}

/**
 * @param {{ execute(query: any): PromiseLike<any> }} tx
 * @param {(parts: TemplateStringsArray, ...params: any[]) => unknown} sql
 * @returns {Queryable}
 */
function fromDrizzle(tx, sql) {
    return { query: (text, params) => tx.execute(sql(...template(text, params))) };
}

/**
 * @template Trx
 * @param {Trx} trx
 * @param {(parts: TemplateStringsArray, ...params: any[]) => { execute(trx: Trx): Promise<{ rows: unknown[] }> }} sql
 * @returns {Queryable}
 */
function fromKysely(trx, sql) {
    return { query: (text, params) => sql(...template(text, params)).execute(trx) };
}

/**
 * @param {{ raw(text: string, params: any[]): PromiseLike<any> }} trx
 * @returns {Queryable}
 */
function fromKnex(trx) {
    return {
        query: (text, params) => {
            const [parts, ...values] = template(text, params);
            return trx.raw(parts.join('?'), values);
        },
    };
}

/**
 * A statement with $1, $2 ... as the arguments of a template tag.
 *
 * @param {string} text
 * @param {Params} params
 * @returns {[TemplateStringsArray, ...Params]}
 */
function template(text, params) {
    const parts = text.split(/\$\d+/);
    const values = [...text.matchAll(/\$(\d+)/g)].map(([, n]) => params[Number(n) - 1]);
    return [Object.assign(parts, { raw: parts }), ...values];
}

exports.rowsOf = rowsOf;
exports.fromPrisma = fromPrisma;
exports.fromDrizzle = fromDrizzle;
exports.fromKysely = fromKysely;
exports.fromKnex = fromKnex;
