// Encrypted payloads, results, progress and steps (docs/secrets.md): AES-256-GCM in an envelope with the key's id.
'use strict';

const { createCipheriv, createDecipheriv, randomBytes } = require('node:crypto');
const { encoded } = require('./json.js');
const { SecretError } = require('./outcomes.js');

const ENVELOPE = 'tenon:secret';
const VERSION = 1;
const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** @typedef {{ v: number, key: string, nonce: string, text: string }} Inner */

/** Keys by their ids. The first one encrypts, each decrypts what was encrypted with it. */
class Keys {
    /** @type {Map<string, Buffer>} */
    #keys = new Map();

    /** @param {Record<string, Uint8Array> | Iterable<readonly [string, Uint8Array]>} keys */
    constructor(keys) {
        const pairs = Symbol.iterator in keys ? keys : Object.entries(keys);
        for (const [id, key] of pairs) {
            if (!/^[\w.-]{1,100}$/.test(id) || this.#keys.has(id)) {
                // without its text, which may be the key
                throw new TypeError(
                    'the id of a key should be 1 to 100 of A-Z a-z 0-9 _ . -, once',
                );
            }
            if (!(key instanceof Uint8Array) || key.length !== KEY_BYTES) {
                throw new TypeError(`the key ${id} should be a Buffer of ${KEY_BYTES} bytes`);
            }
            this.#keys.set(id, Buffer.from(key));
        }
        if (this.#keys.size === 0) {
            throw new TypeError('no keys were given');
        }
    }

    /** @param {string} text */
    static parse(text) {
        const words = text.split(/\s+/).filter(Boolean);
        return new Keys(
            words.map((word) => {
                const [id, key = ''] = word.split(':');
                const bytes = bytesOf(key);
                if (!bytes || word.split(':').length !== 2) {
                    throw new TypeError('a key is not ID:BASE64'); // without its text
                }
                return [id, bytes];
            }),
        );
    }

    get ids() {
        return [...this.#keys.keys()];
    }

    /**
     * @param {unknown} value
     * @param {{ kind: string, what?: string }} of
     */
    encrypt(value, { kind, what = 'payload' }) {
        const text = encoded(value, named(kind, what));
        return this.sealText(text, kind, what, randomBytes(NONCE_BYTES));
    }

    /**
     * @param {any} value
     * @param {{ kind: string, what?: string }} of
     */
    decrypt(value, { kind, what = 'payload' }) {
        return isEnvelope(value) ? JSON.parse(this.openText(value[ENVELOPE], kind, what)) : value;
    }

    /**
     * @internal
     * @param {string} text
     * @param {string} kind
     * @param {string} what
     * @param {Buffer} nonce for one text only
     */
    sealText(text, kind, what, nonce) {
        const [[id, key]] = this.#keys;
        const cipher = createCipheriv(CIPHER, key, nonce).setAAD(boundTo(kind, what));
        const parts = [cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()];
        const inner = {
            v: VERSION,
            key: id,
            nonce: nonce.toString('base64'),
            text: Buffer.concat(parts).toString('base64'),
        };
        return { [ENVELOPE]: inner };
    }

    /**
     * @internal
     * @param {any} inner
     * @param {string} kind
     * @param {string} what
     */
    openText(inner, kind, what) {
        const { id, nonce, text } = partsOf(inner, kind, what);
        const key = this.#keys.get(id);
        if (!key) {
            throw new SecretError(
                `${named(kind, what)} is encrypted with the key '${id}', which this process does not have; ` +
                    `it has ${this.ids.map((one) => `'${one}'`).join(', ')}`,
            );
        }
        try {
            const cipher = createDecipheriv(CIPHER, key, nonce).setAAD(boundTo(kind, what));
            cipher.setAuthTag(text.subarray(-TAG_BYTES));
            const plain = [cipher.update(text.subarray(0, -TAG_BYTES)), cipher.final()];
            return Buffer.concat(plain).toString();
        } catch {
            throw new SecretError(
                `${named(kind, what)} cannot be decrypted with the key '${id}': it was encrypted with another key of ` +
                    'that id, for another kind or purpose, or it was changed',
            );
        }
    }
}

/** @type {Keys | null} */
let own = null;

/** @param {Keys | null} keys of this process: of producers, to encrypt; of handlers, to decrypt */
function setKeys(keys) {
    if (keys !== null && !(keys instanceof Keys)) {
        throw new TypeError('setKeys(keys): it should be Keys, or null');
    }
    own = keys;
}

/**
 * JSON text, encrypted with the keys of this process.
 *
 * @param {string} text
 * @param {string} kind
 * @param {string} what
 * @returns {string}
 */
function sealed(text, kind, what) {
    if (!own) {
        throw new SecretError(
            `${named(kind, what)} is to be encrypted, but there are no keys: setKeys()`,
        );
    }
    return JSON.stringify(own.sealText(text, kind, what, randomBytes(NONCE_BYTES)));
}

/**
 * Decrypted with the keys of this process, if it is an envelope.
 *
 * @param {any} value
 * @param {string} kind
 * @param {string} what
 * @returns {any}
 */
function opened(value, kind, what) {
    if (!isEnvelope(value)) {
        return value;
    }
    if (!own) {
        throw new SecretError(
            `${named(kind, what)} is encrypted, but there are no keys: setKeys()`,
        );
    }
    return own.decrypt(value, { kind, what });
}

/** @param {unknown} value */
function isEnvelope(value) {
    return (
        typeof value === 'object' &&
        value !== null &&
        ENVELOPE in value &&
        Object.keys(value).length === 1
    );
}

/**
 * The additional data: an envelope opens for this kind only, and only as this. No kind has a line feed.
 *
 * @param {string} kind
 * @param {string} what
 */
function boundTo(kind, what) {
    return Buffer.from(`${ENVELOPE}:${VERSION}\n${kind}\n${what}`);
}

/**
 * @param {any} inner
 * @param {string} kind
 * @param {string} what
 */
function partsOf(inner, kind, what) {
    const { v, key, nonce, text } = inner ?? {};
    if (inner && typeof inner === 'object' && v !== VERSION) {
        throw new SecretError(
            `${named(kind, what)} is encrypted in a version that this client does not know`,
        );
    }
    const [nonceBytes, textBytes] = [bytesOf(nonce), bytesOf(text)];
    const fits = nonceBytes?.length === NONCE_BYTES && (textBytes?.length ?? 0) >= TAG_BYTES;
    if (typeof key !== 'string' || !nonceBytes || !textBytes || !fits) {
        throw new SecretError(`${named(kind, what)} is not an envelope of v, key, nonce and text`);
    }
    return { id: key, nonce: nonceBytes, text: textBytes };
}

/**
 * Of base64, and nothing that Buffer would pass over.
 *
 * @param {unknown} text
 */
function bytesOf(text) {
    const bytes = typeof text === 'string' ? Buffer.from(text, 'base64') : undefined;
    return bytes?.toString('base64') === text ? bytes : undefined;
}

/**
 * @param {string} kind
 * @param {string} what
 */
function named(kind, what) {
    return `the ${what} of ${kind}`;
}

exports.Keys = Keys;
exports.setKeys = setKeys;
exports.sealed = sealed;
exports.opened = opened;
exports.isEnvelope = isEnvelope;
