// Elements, and how a view is patched. Values from the database become text nodes or attributes, never markup.

import { shown } from './format.js';

const HANDLERS = Symbol('handlers');

// One listener for each type of event, so that a patch can exchange what it calls.
function listen(node, type, handler) {
    node[HANDLERS] ??= {};
    if (!(type in node[HANDLERS])) node.addEventListener(type, (event) => node[HANDLERS][type]?.(event));
    node[HANDLERS][type] = handler;
}

function fill(node, properties, children) {
    for (const [name, value] of Object.entries(properties ?? {})) {
        if (name.startsWith('on')) {
            listen(node, name.slice(2), value);
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

export const el = (tag, properties = {}, ...children) => fill(document.createElement(tag), properties, children);

export const svg = (tag, properties = {}, ...children) =>
    fill(document.createElementNS('http://www.w3.org/2000/svg', tag), properties, children);

export const link = (href, text, properties) => el('a', { href, ...properties }, text);

export function button(text, onclick, properties) {
    return el('button', { type: 'button', onclick, ...properties }, text);
}

// --- patching ---

const STILL_MS = 3000; // rows under a pointer that has moved stay where they are

let pressed = false, pointed = { body: null, until: 0 };
const waiting = new Map(); // by its place, what will be shown when the button of the pointer is up

addEventListener('pointerdown', () => { pressed = true; }, true);
for (const type of ['pointerup', 'pointercancel', 'dragend']) addEventListener(type, () => setTimeout(release), true);
addEventListener('pointermove', (event) => {
    const body = event.target.closest?.('tbody');
    pointed = { body, until: body ? performance.now() + STILL_MS : 0 };
}, true);

function release() {
    pressed = false;
    for (const [place, content] of waiting) patchNow(place, content);
    waiting.clear();
}

const USERS = { DETAILS: ['open'], DIALOG: ['open'], INPUT: ['value'] }; // what the user changes, and a patch does not

function patchAttributes(old, now) {
    const kept = USERS[old.nodeName] ?? [];
    for (const { name } of [...old.attributes]) {
        if (!now.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
    }
    for (const { name, value } of now.attributes) {
        if (old.getAttribute(name) !== value && !kept.includes(name)) old.setAttribute(name, value);
    }
    if (old.type === 'checkbox') old.checked = now.hasAttribute('checked');
    if (old.nodeName === 'PROGRESS') old.value = now.value;
    for (const type of Object.keys({ ...old[HANDLERS], ...now[HANDLERS] })) listen(old, type, now[HANDLERS]?.[type] ?? null);
}

// A text in which a selection begins or ends is left as it is.
function patchText(old, now) {
    const selection = document.getSelection();
    const selected = !selection.isCollapsed && (selection.anchorNode === old || selection.focusNode === old);
    if (old.data !== now.data && !selected) old.data = now.data;
}

const keyOf = (node) => node.dataset?.key ?? node.id ?? '';

function patchNode(old, now) {
    if (old.nodeType === Node.TEXT_NODE) {
        patchText(old, now);
    } else {
        patchAttributes(old, now);
        if (!old.hasAttribute('data-own')) patchChildren(old, [...now.childNodes]);
    }
    return old;
}

// For each new child the old one that becomes it: the one with the same key, or the next without a key that is alike.
function pairChildren(place, content) {
    const keyed = new Map(), others = [];
    for (const child of place.childNodes) {
        const key = keyOf(child);
        if (key) keyed.set(key, child);
        else others.push(child);
    }
    return content.map((now) => {
        const key = keyOf(now);
        if (key) {
            const old = keyed.get(key);
            keyed.delete(key);
            return old?.nodeName === now.nodeName ? old : null;
        }
        return others[0]?.nodeName === now.nodeName ? others.shift() : null;
    });
}

// The rows under the pointer: none comes, goes or moves.
function patchRows(body, content) {
    const rows = new Map(content.map((row) => [keyOf(row), row]));
    for (const old of body.children) {
        const now = rows.get(keyOf(old));
        if (now) patchNode(old, now);
        else old.classList.add('gone');
    }
}

// A node that moves loses the selection: the one in which the selection begins stays, and the others move around it.
function fixedOf(nodes) {
    const selection = document.getSelection();
    return selection.isCollapsed ? null : nodes.find((node) => node?.contains(selection.anchorNode)) ?? null;
}

function patchChildren(place, content) {
    if (place === pointed.body && performance.now() < pointed.until && content.every(keyOf)) {
        patchRows(place, content);
        return;
    }
    const pairs = pairChildren(place, content), stay = new Set(pairs);
    for (const child of [...place.childNodes]) {
        if (!stay.has(child)) child.remove();
    }
    const fixed = fixedOf(pairs);
    let at = place.firstChild;
    content.forEach((now, i) => {
        const node = pairs[i] ? patchNode(pairs[i], now) : now;
        while (node === fixed && at !== fixed) {
            const passed = at;
            at = at.nextSibling;
            place.append(passed);
        }
        if (node === at) at = at.nextSibling;
        else place.insertBefore(node, at);
    });
}

function patchNow(place, content) {
    const focused = place.contains(document.activeElement) ? document.activeElement : null;
    place.style.minHeight = `${place.offsetHeight}px`; // a page that is shorter amid the change would lose its scroll position
    patchChildren(place, content);
    place.style.minHeight = '';
    if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

// Make the place look like the new content. What is the same stays the same node, with its focus, selection, scroll, open parts; what
// has a data-key is found again wherever it has moved. The content of an element with data-own is left alone.
export function patch(place, ...content) {
    const nodes = content.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
        .map((child) => (child instanceof Node ? child : document.createTextNode(shown(String(child)))));
    if (pressed) waiting.set(place, nodes);
    else patchNow(place, nodes);
}

// --- tables ---

// columns: [{head, cell(row), class}]; a cell may be a text, a node, or a list of them. `key(row)`: what stays of a row when others
// come and go.
export function table(caption, columns, rows, { empty = 'Nothing.', key = null, rowClass = () => null, cards = false } = {}) {
    if (rows.length === 0) {
        return el('p', { class: 'empty', 'data-key': `table-${caption}` }, empty);
    }
    const head = el('tr', {}, columns.map((c) => el('th', { scope: 'col', class: c.class }, c.head)));
    const body = rows.map((row) => el('tr', { 'data-key': key && `row-${key(row)}`, class: rowClass(row) },
        columns.map((c) => el('td', { class: c.class, 'data-head': typeof c.head === 'string' ? c.head : null }, c.cell(row) ?? ''))));
    return el('div', { class: `scroll${cards ? ' cards' : ''}`, role: 'region', 'aria-label': caption, tabindex: 0, 'data-key': `table-${caption}` },
        el('table', {}, el('caption', {}, caption), el('thead', {}, head), el('tbody', {}, body)));
}
