// A flow as a graph: a task is drawn to the right of all that it depends on. Tasks that are alike are drawn as one, until it is opened.

import { svg } from './dom.js';
import { shown } from './format.js';

const BOX = 168, TALL = 30, GAP_X = 56, GAP_Y = 8, GROUPED_FROM = 6, EDGES_MAX = 3000, NAME_MAX = 22;
const BAD = ['dead', 'cancelled', 'expired'];

// What failed first: it did not end well, and all that it depends on did.
export function causes(tasks) {
    const byId = new Map(tasks.map((t) => [t.id, t]));
    return tasks.filter((t) => t.state === 'dead' && !(t.parents ?? []).some((id) => BAD.includes(byId.get(id)?.state)));
}

// Parents come first, because their ids are lower.
function depths(tasks) {
    const depth = new Map();
    for (const t of tasks) depth.set(t.id, Math.max(-1, ...(t.parents ?? []).map((id) => depth.get(id) ?? -1)) + 1);
    return depth;
}

// Tasks of one kind with the same parents and the same children are one node: {key, tasks, depth}.
function group(tasks, opened) {
    const depth = depths(tasks), children = new Map(tasks.map((t) => [t.id, []]));
    for (const t of tasks) for (const id of t.parents ?? []) children.get(id)?.push(t.id);
    const alike = new Map();
    for (const t of tasks) {
        const key = `${depth.get(t.id)} ${t.kind} ${(t.parents ?? []).join(',')} > ${children.get(t.id).join(',')}`;
        alike.set(key, [...(alike.get(key) ?? []), t]);
    }
    const nodes = [];
    for (const [key, list] of alike) {
        if (list.length >= GROUPED_FROM && !opened.has(key)) nodes.push({ key, tasks: list, depth: depth.get(list[0].id) });
        else for (const t of list) nodes.push({ key: list.length >= GROUPED_FROM ? key : null, tasks: [t], depth: depth.get(t.id) });
    }
    return nodes;
}

// Each layer in the order of the mean place of its nodes' parents.
function place(nodes) {
    const nodeOf = new Map(nodes.flatMap((n) => n.tasks.map((t) => [t.id, n]))), layers = [];
    for (const n of nodes) (layers[n.depth] ??= []).push(n);
    for (const n of nodes) n.parents = [...new Set((n.tasks[0].parents ?? []).map((id) => nodeOf.get(id)).filter(Boolean))];
    const height = Math.max(...layers.map((l) => l.length)) * (TALL + GAP_Y);
    layers.forEach((layer, x) => {
        const mean = (n) => (n.parents.length ? n.parents.reduce((sum, p) => sum + p.y, 0) / n.parents.length : 0);
        if (x > 0) layer.sort((a, b) => mean(a) - mean(b));
        const top = (height - layer.length * (TALL + GAP_Y)) / 2;
        layer.forEach((n, i) => { n.x = x * (BOX + GAP_X); n.y = top + i * (TALL + GAP_Y); });
    });
    return { width: layers.length * (BOX + GAP_X) - GAP_X, height };
}

const cut = (text) => (text.length > NAME_MAX ? `${text.slice(0, NAME_MAX - 1)}…` : text);

function counts(tasks) {
    const n = {};
    for (const t of tasks) n[t.state] = (n[t.state] ?? 0) + 1;
    return Object.entries(n).sort().map(([word, many]) => `${many} ${word}`).join(', ');
}

// The worst state of a group is the one that is shown.
const ORDER = ['dead', 'expired', 'cancelled', 'retrying', 'running', 'ready', 'scheduled', 'blocked', 'waiting', 'done'];
const worst = (tasks) => ORDER.find((word) => tasks.some((t) => t.state === word)) ?? tasks[0].state;

function drawn(n, roots, ctx, open) {
    const one = n.tasks.length === 1, t = n.tasks[0], word = worst(n.tasks), isRoot = n.tasks.some((x) => roots.has(x.id));
    const name = one ? `${t.id} ${t.name ?? t.kind ?? 'gone'}` : `${n.tasks.length} × ${t.kind}`;
    const small = `${isRoot ? '✕ root cause, ' : ''}${one ? word : counts(n.tasks)}`, says = `${name} ${small}`;
    const go = (event) => { event.preventDefault(); if (one) ctx.go(`/tasks/${t.id}`); else open(n.key); };
    return svg('a', { href: one ? `/tasks/${t.id}` : '#', class: `node ${word}${isRoot ? ' root' : ''}${one ? '' : ' many'}`, transform: `translate(${n.x} ${n.y})`,
        'data-key': `node-${one ? t.id : n.key}`, onclick: go },
    svg('title', {}, shown(says)), svg('rect', { width: BOX, height: TALL, rx: 5 }),
    svg('text', { x: 8, y: 13 }, cut(shown(name))), svg('text', { class: 'small', x: 8, y: 25 }, ` ${cut(small)}`));
}

function edges(nodes) {
    const lines = [];
    for (const n of nodes) {
        for (const p of n.parents) {
            const x = p.x + BOX, y = p.y + TALL / 2, to = n.y + TALL / 2;
            lines.push(svg('path', { class: BAD.includes(worst(p.tasks)) ? 'edge bad' : 'edge', d: `M${x} ${y}C${x + GAP_X / 2} ${y} ${n.x - GAP_X / 2} ${to} ${n.x} ${to}` }));
        }
    }
    return lines.slice(0, EDGES_MAX);
}

// `opened`: the groups that are shown one by one; `open(key)` opens one.
export function dag(tasks, ctx, opened, open) {
    const nodes = group(tasks, opened), size = place(nodes), roots = new Set(causes(tasks).map((t) => t.id));
    return svg('svg', { class: 'dag', width: size.width + 4, height: size.height + 4, viewBox: `-2 -2 ${size.width + 4} ${size.height + 4}`, role: 'group', 'aria-label': 'The tasks of the flow as a graph' },
        edges(nodes), nodes.map((n) => drawn(n, roots, ctx, open)));
}
