// Kinds: what they have, how fast they are, how often they fail; and one of them.

import { get } from './api.js';
import { button, el, link, patch, table } from './dom.js';
import { count, perSecond, percent, span, took } from './format.js';
import { turn } from './findings.js';
import { graph } from './graph.js';
import { loadOf, rate, readLoad, series, total } from './load.js';
import { spark, state } from './parts.js';

const GRAPH_EVERY_MS = 30000;

const tasksOf = (k, word) => (k[word] ? link(`/tasks?${new URLSearchParams({ state: word, kind: k.kind })}`, count(k[word], k.at_least), { 'data-key': `${word}-${k.kind}` }) : '0');

function pauseButton(k, ctx) {
    return ctx.session.may_act && button(k.paused ? 'Resume' : 'Pause', () => turn(ctx, { kind: k.kind }, `The kind ${k.kind}`, k.paused),
        { 'data-key': `pause-${k.kind}`, 'aria-label': `${k.paused ? 'Resume' : 'Pause'} the kind ${k.kind}` });
}

const percentiles = (l, what) => (l[what] ? `${took(l[what][0])} · ${took(l[what][1])}` : '-');

function trouble(k) {
    return (k.workers === 0 && k.ready > 0 ? 2e9 : 0) + (k.paused ? 1e9 : 0) + Math.min(k.dead, 1e9 - 1);
}

export function kinds(place, ctx) {
    const columns = (load) => [
        { head: 'Kind', class: 'name', cell: (k) => link(`/kinds/${k.kind}`, k.kind, { 'data-key': `k-${k.kind}` }) },
        { head: 'Dead', class: 'n first', cell: (k) => el('span', { class: k.dead > 0 ? 'red' : null }, k.dead > 0 && '✕ ', tasksOf(k, 'dead')) },
        { head: 'Ready', class: 'n', cell: (k) => tasksOf(k, 'ready') },
        { head: 'Running', class: 'n', cell: (k) => tasksOf(k, 'running') },
        { head: 'Retrying', class: 'n', cell: (k) => tasksOf(k, 'retrying') },
        { head: 'Out', class: 'n', cell: (k) => perSecond(rate(load, k.l.ended)) },
        { head: 'Failing', class: 'n', cell: (k) => el('span', { class: total(k.l.failed) > 0.05 * total(k.l.ended) ? 'amber' : null }, percent(total(k.l.failed), total(k.l.ended))) },
        { head: 'Wait p50 · p95', class: 'n', cell: (k) => percentiles(k.l, 'wait_s') },
        { head: 'Run p50 · p95', class: 'n', cell: (k) => percentiles(k.l, 'run_s') },
        { head: 'Workers', class: 'n', cell: (k) => el('span', { class: k.workers > 0 ? null : k.ready > 0 ? 'red' : 'amber' }, k.workers === 0 && (k.ready > 0 ? '✕ ' : '▲ '), k.workers) },
        { head: 'Last hour', class: 'sparks', cell: (k) => spark(series(load, k.l.done), series(load, k.l.failed), `${k.kind}: ${count(total(k.l.done))} done and ${count(total(k.l.failed))} attempts failed in the last hour`) },
        ctx.session.may_act && { head: 'Actions', class: 'act first', cell: (k) => [k.paused && state('paused'), pauseButton(k, ctx)] },
    ].filter(Boolean);
    return async () => {
        const [answer, load] = await Promise.all([get('kinds'), readLoad()]);
        const list = answer.kinds.map((k) => ({ ...k, l: loadOf(load, 'kind', k.kind) })).sort((a, b) => trouble(b) - trouble(a) || (a.kind < b.kind ? -1 : 1));
        patch(place, table('Kinds, those in trouble first', columns(load), list, { empty: 'No kind has tasks, settings or workers. Enqueue a task, and its kind appears here.', key: (k) => k.kind, cards: true,
            rowClass: (k) => (k.dead > 0 || (k.workers === 0 && k.ready > 0) ? 'red' : k.paused ? 'amber' : null) }));
    };
}

const SETTINGS = { queue: 'Queue', priority: 'Priority', max_attempts: 'Attempts', timeout_ms: 'Timeout', retry: 'Retry', on_timeout: 'At a timeout', on_dead: 'When dead, enqueue',
    max_crashes: 'Crashes', limit_keys: 'Limit keys' };

function settings(k) {
    const of = k.defaults ?? {}, shown = (name) => (name === 'timeout_ms' ? span(of[name] / 1000) : Array.isArray(of[name]) ? of[name].join(', ') : of[name]);
    const rows = Object.keys(SETTINGS).filter((name) => of[name] !== null && of[name] !== undefined);
    return rows.length > 0 ? el('dl', { class: 'pairs' }, rows.map((name) => [el('dt', {}, SETTINGS[name]), el('dd', {}, shown(name))]))
        : el('p', { class: 'dim' }, 'This kind has no defaults of its own. Set them with tenon kind.');
}

export function kind(place, ctx) {
    let picture = null, drawn = -Infinity;
    return async () => {
        const name = ctx.parameter;
        const [answer, load] = await Promise.all([get('kinds'), readLoad()]);
        if (performance.now() - drawn >= GRAPH_EVERY_MS) {
            picture = await get('rates', { kind: name });
            drawn = performance.now();
        }
        const k = answer.kinds.find((one) => one.kind === name), l = loadOf(load, 'kind', name);
        if (!k) {
            patch(place, el('p', { class: 'empty' }, `No kind ${name} has tasks, settings or workers.`));
            return;
        }
        const pair = (head, value, className) => el('div', { class: className, 'data-key': `n-${head}` }, el('dt', {}, head), el('dd', {}, value));
        patch(place, el('p', { 'data-key': 'acts' }, k.paused && state('paused'), ' ', pauseButton(k, ctx)),
            el('dl', { class: 'numbers', 'data-key': 'numbers' }, pair('Dead', tasksOf(k, 'dead'), k.dead > 0 ? 'red' : null), pair('Ready', tasksOf(k, 'ready')),
                pair('Running', tasksOf(k, 'running')), pair('Retrying', tasksOf(k, 'retrying')), pair('Scheduled', tasksOf(k, 'scheduled')),
                pair('Failing', percent(total(l.failed), total(l.ended))), pair('Wait p50 · p95', percentiles(l, 'wait_s')), pair('Run p50 · p95', percentiles(l, 'run_s')),
                pair('Workers', k.workers, k.workers > 0 ? null : k.ready > 0 ? 'red' : 'amber')),
            l.n > 0 && el('p', { class: 'dim', 'data-key': 'of' }, `The times are those of the newest ${count(l.n)} that ended.`),
            el('h2', { 'data-key': 'h' }, 'Defaults'), settings(k), graph(picture, null));
    };
}
