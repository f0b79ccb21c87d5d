// Messages for exchanges of one's own, in the caller's transaction: tenon.publish of SQL.
'use strict';

const { rowsOf } = require('./databases.js');
const { inspect } = require('./duration.js');
const { numbered } = require('./enqueue.js');
const { storable } = require('./json.js');
const { OPTIONS, TYPES } = require('./options.js');

/**
 * @typedef {import('../index.d.ts').Database} Database
 * @typedef {import('./options.js').Type} Type
 */

/** @type {Type} */
const OBJECT = {
    sql: (param) => `${param}::text::jsonb`,
    text: (value, name) => storable(value, name),
};

/** @type {Record<string, [argument: string, Type]>} */
const BOTH = {
    headers: ['headers', OBJECT],
    contentType: ['content_type', TYPES.TEXT],
    orderKey: ['order_key', TYPES.TEXT],
    expires: ['expires', TYPES.DURATION],
    properties: ['properties', OBJECT],
    trace: OPTIONS.trace,
    notify: OPTIONS.notify,
};
/** @type {Record<string, [argument: string, Type]>} */
const ONE = { ...BOTH, messageId: ['message_id', TYPES.TEXT] };
/** @type {Record<string, [argument: string, Type]>} */
const MANY = { ...BOTH, messageIds: ['message_ids', OPTIONS.uniqueKeys[1]] };

/** @typedef {'bytea' | 'text' | 'json'} Form */

/**
 * @param {unknown} body
 * @returns {Form}
 */
function formOf(body) {
    if (body instanceof Uint8Array) {
        return 'bytea';
    }
    return typeof body === 'string' ? 'text' : 'json';
}

const hex = (/** @type {Uint8Array} */ bytes) => `\\x${Buffer.from(bytes).toString('hex')}`;

/**
 * @param {any} body
 * @param {Form} form
 * @returns {string}
 */
function textOf(body, form) {
    if (form === 'json') {
        return storable(body, 'the body');
    }
    return form === 'bytea' ? hex(body) : body;
}

/**
 * Named arguments: those that were given.
 *
 * @param {unknown} options
 * @param {Record<string, [argument: string, Type]>} known
 * @param {(text: string | null) => string} param
 */
function argumentsOf(options, known, param) {
    if (typeof options !== 'object' || options === null) {
        throw new TypeError(`the options are ${inspect(options)}; they should be an object`);
    }
    return Object.entries(options)
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => {
            if (!(name in known)) {
                const names = Object.keys(known).join(', ');
                throw new TypeError(`there is no option ${inspect(name)}; there are: ${names}`);
            }
            const [argument, type] = known[name];
            return `, ${argument} => ${type.sql(param(type.text(value, name)))}`;
        })
        .join('');
}

/**
 * The statement's arguments: exchange, routing key, what `body` makes of its parameter, and the options.
 *
 * @param {unknown} exchange
 * @param {unknown} routingKey
 * @param {(param: (text: string | null) => string) => string} body
 * @param {unknown} options
 * @param {Record<string, [argument: string, Type]>} known
 */
function callOf(exchange, routingKey, body, options, known) {
    const { params, param } = numbered();
    const places = [
        `${param(TYPES.TEXT.text(exchange, 'exchange'))}::text`,
        `${param(TYPES.TEXT.text(routingKey, 'routingKey'))}::text`,
        body(param),
    ];
    return { sql: `${places.join(', ')}${argumentsOf(options, known, param)}`, params };
}

/**
 * @param {Database} db
 * @param {string} exchange
 * @param {string} routingKey
 * @param {unknown} body
 * @param {import('../index.d.ts').PublishOptions} [options]
 * @returns {Promise<string>}
 */
async function publish(db, exchange, routingKey, body, options = {}) {
    const form = formOf(body);
    const text = textOf(body, form);
    const call = callOf(
        exchange,
        routingKey,
        (param) => `${param(text)}::text::${form}`,
        options,
        ONE,
    );
    const [[id]] = await rowsOf(db, `SELECT tenon.publish(${call.sql})::text AS id`, call.params);
    return id;
}

/**
 * @param {readonly unknown[]} bodies
 * @returns {Form}
 */
function formOfAll(bodies) {
    const forms = new Set(bodies.map(formOf));
    if (forms.has('bytea') && forms.size > 1) {
        throw new TypeError('bodies are of different forms; all should be bytes, strings, or JSON');
    }
    return forms.has('json') ? 'json' : ([...forms][0] ?? 'text');
}

/**
 * @param {Database} db
 * @param {string} exchange
 * @param {string} routingKey
 * @param {readonly unknown[]} bodies
 * @param {import('../index.d.ts').PublishManyOptions} [options]
 * @returns {Promise<string[]>}
 */
async function publishMany(db, exchange, routingKey, bodies, options = {}) {
    if (!Array.isArray(bodies)) {
        throw new TypeError(`bodies is ${inspect(bodies)}; it should be an array`);
    }
    const form = formOfAll(bodies);
    const list = form === 'bytea' ? bodies.map(hex) : bodies;
    const elements = form === 'json' ? 'json_array_elements' : 'json_array_elements_text';
    const call = callOf(
        exchange,
        routingKey,
        (param) =>
            `ARRAY(SELECT e::${form} FROM ${elements}(${param(storable(list, 'bodies'))}::text::json)` +
            ' WITH ORDINALITY AS l (e, n) ORDER BY n)',
        options,
        MANY,
    );
    const statement =
        `SELECT t.id::text FROM unnest(tenon.publish_many(${call.sql}))` +
        ' WITH ORDINALITY AS t (id, n) ORDER BY t.n';
    return (await rowsOf(db, statement, call.params)).map(([id]) => id);
}

exports.publish = publish;
exports.publishMany = publishMany;
