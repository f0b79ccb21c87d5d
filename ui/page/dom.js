// Elements, texts and times. Values from the database become text nodes or attributes, never markup.

// Characters that turn the direction of a text (UAX 9), and controls, are shown as escapes.
const shown = (text) => text.replace(/[\u0080-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

export function el(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties ?? {})) {
        if (name.startsWith('on')) {
            node.addEventListener(name.slice(2), value);
        } else if (value === true) {
            node.setAttribute(name, '');
        } else if (value !== false && value !== null && value !== undefined) {
            node.setAttribute(name, String(value));
        }
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
        .map((child) => (child instanceof Node ? child : shown(String(child)))));
    return node;
}

export const link = (href, text, properties) => el('a', { href, ...properties }, text);

// Put new content where the old was; the keyboard stays at the control of the same name, and a table where it is scrolled to.
export function swap(place, ...content) {
    const named = () => [...place.querySelectorAll('[data-key]')];
    const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    const lefts = new Map(named().map((node) => [node.dataset.key, node.scrollLeft]));
    place.replaceChildren(...content.flat(Infinity).filter(Boolean));
    for (const node of named().filter((n) => lefts.get(n.dataset.key))) node.scrollLeft = lefts.get(node.dataset.key);
    if (key) {
        named().find((node) => node.dataset.key === key)?.focus({ preventScroll: true });
    }
}

// columns: [{head, cell(row), class}]; a cell may be a text, a node, or a list of them.
export function table(caption, columns, rows, empty = 'Nothing.') {
    if (rows.length === 0) {
        return el('p', { class: 'dim' }, empty);
    }
    const head = el('tr', {}, columns.map((c) => el('th', { scope: 'col', class: c.class }, c.head)));
    const body = rows.map((row) => el('tr', {}, columns.map((c) => el('td', { class: c.class }, c.cell(row) ?? ''))));
    return el('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0, 'data-key': `table-${caption}` },
        el('table', {}, el('caption', {}, caption), el('thead', {}, head), el('tbody', {}, body)));
}

export function button(text, onclick, properties) {
    return el('button', { type: 'button', onclick, ...properties }, text);
}

export const count = (n, atLeast) => Number(n).toLocaleString('en') + (atLeast ? '+' : '');

export function span(seconds) {
    const s = Math.max(0, Math.round(seconds));
    if (s < 120) return `${s} s`;
    if (s < 7200) return `${Math.round(s / 60)} min`;
    if (s < 172800) return `${Math.round(s / 3600)} h`;
    return `${Math.round(s / 86400)} d`;
}

// "3 min ago", with the moment itself for whoever wants it.
export function moment(text) {
    if (!text) return '';
    const at = new Date(text);
    const ago = (Date.now() - at.getTime()) / 1000;
    if (Number.isNaN(ago)) return text;
    return el('time', { datetime: text, title: at.toISOString() }, ago >= 0 ? `${span(ago)} ago` : `in ${span(-ago)}`);
}

export const state = (word) => el('span', { class: `state ${word}` }, word);

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
