// Lengths of time: '30 s', '5 min', '2 h', '1 d', or { minutes: 5 }. Never a bare number, whose unit nobody can see.
'use strict';

/** @type {Record<string, number>} */
const UNITS = { ms: 1, s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** @type {Record<string, number>} */
const PARTS = {
    milliseconds: 1,
    seconds: UNITS.s,
    minutes: UNITS.min,
    hours: UNITS.h,
    days: UNITS.d,
};

/**
 * @param {unknown} duration
 * @param {string} name what it is, for the error
 * @returns {number} whole milliseconds
 */
function milliseconds(duration, name) {
    const ms = typeof duration === 'string' ? parsed(duration) : summed(duration);
    if (ms === undefined || !Number.isFinite(ms) || ms < 0) {
        throw new TypeError(
            `${name} is ${inspect(duration)}; it should be like '30 s', '5 min', '2 h', '1 d', or { minutes: 5 }`,
        );
    }
    return Math.round(ms);
}

/** @param {unknown} duration */
function summed(duration) {
    const parts = typeof duration === 'object' && duration !== null ? Object.entries(duration) : [];
    if (
        parts.length === 0 ||
        parts.some(([part, n]) => !Object.hasOwn(PARTS, part) || typeof n !== 'number' || n < 0)
    ) {
        return undefined;
    }
    return parts.reduce((ms, [part, n]) => ms + n * PARTS[part], 0);
}

/** @param {string} text */
function parsed(text) {
    const found = /^(\d+(?:\.\d+)?) ?(ms|s|min|h|d)$/.exec(text);
    return found ? Number(found[1]) * UNITS[found[2]] : undefined;
}

/**
 * A value in an error: short, and never more than a line.
 *
 * @param {unknown} value
 */
function inspect(value) {
    const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
    return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

exports.milliseconds = milliseconds;
exports.inspect = inspect;
