// Lengths of time: milliseconds, or '30 s', '5 min', '2 h', '1 d'.

/** @type {Record<string, number>} */
const UNITS = { ms: 1, s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * @param {unknown} duration
 * @param {string} name what it is, for the error
 * @returns {number} whole milliseconds
 */
export function milliseconds(duration, name) {
    const ms = typeof duration === 'string' ? parsed(duration) : duration;
    if (typeof ms !== 'number' || !Number.isFinite(ms) || ms < 0) {
        throw new TypeError(
            `${name} is ${inspect(duration)}; it should be milliseconds, or like '30 s', '5 min', '2 h', '1 d'`,
        );
    }
    return Math.round(ms);
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
export function inspect(value) {
    const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
    return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
