// How numbers, times and texts are shown.

// Characters that turn the direction of a text (UAX 9), and controls, are shown as escapes.
export const shown = (text) => text.replace(/[\u0080-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

export const count = (n, atLeast) => Number(n).toLocaleString('en') + (atLeast ? '+' : '');

// 9,999 in full, then 12k, 1.2M: for places that are narrow.
export function brief(n) {
    if (n < 10000) return count(n);
    const [value, unit] = n < 999500 ? [n / 1000, 'k'] : [n / 1000000, 'M'];
    return value.toFixed(value < 9.95 ? 1 : 0) + unit;
}

export const percent = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(part > 0 && part / whole < 0.0995 ? 1 : 0)} %` : '-');

export const perSecond = (rate) => (rate === null || rate === undefined ? '-' : rate > 0 && rate < 0.05 ? '< 0.1/s' : `${rate.toFixed(rate > 0 && rate < 9.95 ? 1 : 0)}/s`);

export function span(seconds) {
    const s = Math.max(0, Math.round(seconds));
    if (s < 120) return `${s} s`;
    if (s < 7200) return `${Math.round(s / 60)} min`;
    if (s < 172800) return `${Math.round(s / 3600)} h`;
    return `${Math.round(s / 86400)} d`;
}

// Of what took less than a second, too: "0.4 ms", "12 ms", "3.2 s".
export function took(seconds) {
    if (seconds === null || seconds === undefined) return '-';
    if (seconds < 0.001) return `${(seconds * 1000).toFixed(1)} ms`;
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    return seconds < 10 ? `${seconds.toFixed(1)} s` : span(seconds);
}

export const clock = (date) => date.toLocaleTimeString('en-GB', { hour12: false });

export const dayClock = (date) => `${date.toLocaleDateString('en-CA')} ${clock(date)}`;

export function ago(text) {
    const s = (Date.now() - Date.parse(text)) / 1000;
    return s >= 0 ? `${span(s)} ago` : `in ${span(-s)}`;
}

// --- JSON ---

// The JSON that PostgreSQL printed, in lines: the text is only indented, because numbers may have more digits than ours.
const PRETTY_DEPTH_MAX = 20, PRETTY_CHARACTERS_MAX = 2_000_000;

export function pretty(json) {
    let out = '', depth = 0, inString = false;
    const line = () => `\n${'  '.repeat(Math.min(depth, PRETTY_DEPTH_MAX))}`;
    for (let i = 0; i < json.length; i++) {
        const c = json[i];
        if (out.length > PRETTY_CHARACTERS_MAX) {
            return `${out}\n... (${json.length} characters; tenon show --json prints all)`;
        }
        if (inString) {
            out += c;
            if (c === '\\') out += json[++i] ?? '';
            else if (c === '"') inString = false;
        } else if (c === '"') {
            out += c;
            inString = true;
        } else if (c === '{' || c === '[') {
            const empty = json[i + 1] === (c === '{' ? '}' : ']');
            depth += empty ? 0 : 1;
            out += empty ? c + json[++i] : c + line();
        } else if (c === '}' || c === ']') {
            depth--;
            out += line() + c;
        } else if (c === ',') {
            out += c + line();
            if (json[i + 1] === ' ') i++;
        } else {
            out += c;
        }
    }
    return out;
}
