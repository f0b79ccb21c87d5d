// What is wrong, then the queues, those in trouble first, then the last hours.

import { get } from './api.js';
import { button, el, link, patch, table } from './dom.js';
import { count, perSecond, percent, span, took } from './format.js';
import { findings, turn } from './findings.js';
import { graph } from './graph.js';
import { growth, loadOf, rate, readLoad, series, total } from './load.js';
import { gauge, spark } from './parts.js';

const RATE_OVER_MS = 10000, GRAPH_EVERY_MS = 30000, DOCTOR_EVERY_MS = 10000;

// PostgreSQL's counters come in bursts: rates are those of the last ten seconds.
function rates(readings, now) {
    readings.push(now);
    while (readings.length > 2 && now.at_ms - readings[1].at_ms >= RATE_OVER_MS) readings.shift();
    const old = readings[0], ms = now.at_ms - old.at_ms;
    const each = (key) => (ms <= 0 || now[key] === null || old[key] === null ? null : Math.max(0, (now[key] - old[key]) * 1000 / ms));
    return { arrived: each('arrived'), ended: each('ended'), failed: each('failed'), died: each('died') };
}

// Large queues are counted by the leading cleaner, from time to time.
const asOf = (seconds) => (seconds > 0 ? ` as of ${span(seconds)} ago` : '');

function numbers(o, load, now) {
    const dead = o.queues.reduce((n, q) => n + q.dead, 0), anyBound = o.queues.some((q) => q.at_least);
    const pair = (name, value, note, className) => el('div', { class: className, 'data-key': `n-${name}` }, el('dt', {}, name),
        el('dd', {}, value, note && el('small', {}, note)));
    return el('dl', { class: 'numbers', 'data-key': 'numbers' },
        pair('Dead', dead > 0 ? link('/dead', count(dead, anyBound)) : '0', null, dead > 0 ? 'red' : null),
        pair('Ready', count(o.now.ready, o.now.ready_at_least), asOf(o.now.ready_age_s)),
        pair('Oldest waiting', o.now.oldest_ready_s === null ? '-' : span(o.now.oldest_ready_s), null, o.now.oldest_ready_s > 60 ? 'amber' : null),
        pair('Arrived', perSecond(now.arrived)),
        pair('Ended', perSecond(now.ended)),
        pair('Failed attempts', perSecond(now.failed)),
        pair('Died', perSecond(now.died), null, now.died > 0 ? 'red' : null),
        pair('Workers', count(o.now.workers), ` on ${count(o.now.slots)} ${o.now.slots === 1 ? 'slot' : 'slots'}`, o.now.workers === 0 ? 'red' : null),
        pair('Done last hour', count(load.load.filter((l) => l.what === 'queue').reduce((n, l) => n + total(l.done), 0))));
}

// --- the queues ---

// What a queue does: the worse, the higher.
function judged(q, load, unhandled) {
    const l = loadOf(load, 'queue', q.queue), grows = growth(q);
    const failed = total(l.failed), ended = total(l.ended);
    const floor = Math.max(0.05, q.ready / 100 / 60);
    const trend = q.paused ? 'paused' : q.ready === 0 ? 'empty' : grows === null ? (q.at_least ? 'unknown' : 'measuring')
        : grows > floor ? 'growing' : grows < -floor ? 'shrinking' : 'steady';
    const alone = unhandled.filter((u) => u.queue === q.queue).map((u) => u.kind);
    // Red rows come before amber ones.
    const trouble = (alone.length > 0 ? 2e11 : 0) + (q.dead > 0 ? 1e11 : 0) + (q.paused && q.ready > 0 ? 4e10 : 0) + (trend === 'growing' ? 2e10 : 0) +
        (q.oldest_ready_s > 60 ? 1e10 : 0) + Math.min(q.dead, 1e10 - 1);
    return { ...q, l, grows, trend, alone, trouble, out: rate(load, l.ended), failed, ended, in: load && grows !== null ? Math.max(0, rate(load, l.started) + grows) : null };
}

function trendOf(q) {
    switch (q.trend) {
    case 'paused': return el('strong', { class: 'amber' }, '‖ paused');
    case 'empty': return el('span', { class: 'dim' }, 'empty');
    case 'growing': return el('strong', { class: 'amber' }, `▲ growing, ${perSecond(q.grows)}`);
    case 'shrinking': return `▼ empty in ${span(q.ready / -q.grows)}`;
    case 'steady': return q.out > 0 ? '= steady' : el('strong', { class: 'amber' }, '▲ does not move');
    case 'unknown': return el('span', { class: 'dim' }, 'no cleaner counts it');
    default: return el('span', { class: 'dim' }, 'measuring ...');
    }
}

const tasksOf = (queue, word, n, atLeast) =>
    (n ? link(`/tasks?${new URLSearchParams(word === 'running' ? { state: word, queue, oldest: true } : { state: word, queue })}`, count(n, atLeast),
        { 'data-key': `${word}-${queue}` }) : '0');

function pauseButton(q, ctx) {
    return ctx.session.may_act && button(q.paused ? 'Resume' : 'Pause', () => turn(ctx, { queue: q.queue }, `The queue ${q.queue}`, q.paused),
        { 'data-key': `pause-${q.queue}`, 'aria-label': `${q.paused ? 'Resume' : 'Pause'} the queue ${q.queue}` });
}

function queues(o, load, ctx) {
    const cell = (word) => (q) => tasksOf(q.queue, word, q[word], q.at_least);
    const percentiles = (q, what) => (q.l[what] ? `${took(q.l[what][0])} · ${took(q.l[what][1])}` : '-');
    const columns = [
        { head: 'Queue', class: 'name', cell: (q) => [link(`/?${new URLSearchParams({ queue: q.queue })}`, q.queue, { 'data-key': `q-${q.queue}` }),
            q.alone.length > 0 && el('small', { class: 'red under' }, ` ✕ no worker for ${q.alone[0]}${q.alone.length > 1 ? ` and ${q.alone.length - 1} more` : ''}`)] },
        { head: 'Dead', class: 'n first', cell: (q) => el('span', { class: q.dead > 0 ? 'red' : null }, q.dead > 0 && '✕ ', cell('dead')(q)) },
        { head: 'Ready', class: 'n', cell: (q) => [cell('ready')(q), q.age_s > 0 && el('small', {}, asOf(q.age_s))] },
        { head: 'In', class: 'n', cell: (q) => perSecond(q.in) },
        { head: 'Out', class: 'n', cell: (q) => perSecond(q.out) },
        { head: 'Trend', class: 'trend', cell: trendOf },
        { head: 'Oldest', class: 'n', cell: (q) => el('span', { class: q.oldest_ready_s > 60 ? 'amber' : null }, q.oldest_ready_s === null ? '-' : span(q.oldest_ready_s)) },
        { head: 'Running', class: 'n', cell: (q) => [cell('running')(q), el('small', {}, ` on ${count(load?.slots[q.queue] ?? 0)}`), ' ',
            gauge(q.running, load?.slots[q.queue] ?? 0, `${q.running} tasks on ${load?.slots[q.queue] ?? 0} slots`)] },
        { head: 'Failing', class: 'n', cell: (q) => el('span', { class: q.failed > 0.05 * q.ended ? 'amber' : null }, percent(q.failed, q.ended)) },
        { head: 'Retrying', class: 'n', cell: cell('retrying') },
        { head: 'Scheduled', class: 'n', cell: cell('scheduled') },
        { head: 'Blocked', class: 'n', cell: cell('blocked') },
        { head: 'Wait p50 · p95', class: 'n wide', cell: (q) => percentiles(q, 'wait_s') },
        { head: 'Run p50 · p95', class: 'n wide', cell: (q) => percentiles(q, 'run_s') },
        { head: 'Last hour', class: 'sparks', cell: (q) => spark(series(load, q.l.done), series(load, q.l.failed), `${q.queue}: ${count(total(q.l.done))} done and ${count(q.failed)} attempts failed in the last hour`) },
        ctx.session.may_act && { head: 'Actions', class: 'act first', cell: (q) => pauseButton(q, ctx) },
    ].filter(Boolean);
    const list = o.queues.map((q) => judged(q, load, o.unhandled)).sort((a, b) => b.trouble - a.trouble || (a.queue < b.queue ? -1 : 1));
    return table('Queues, those in trouble first', columns, list, { empty: 'No queue has tasks or settings. Enqueue a task, and its queue appears here.',
        key: (q) => q.queue, cards: true, rowClass: (q) => (q.dead > 0 || q.alone.length > 0 ? 'red' : q.paused || q.trend === 'growing' ? 'amber' : null) });
}

// --- the graph ---

function choice(o, ctx) {
    const chosen = ctx.query.get('queue') ?? '', hours = ctx.query.get('hours') ?? '6', names = o.queues.map((q) => q.queue);
    const option = (value, text, now) => el('option', { value, selected: value === now }, text);
    const to = (change) => {
        const query = new URLSearchParams(Object.entries({ queue: chosen, hours, ...change }).filter(([k, v]) => v && !(k === 'hours' && v === '6')));
        ctx.go(query.size ? `/?${query}` : '/');
    };
    return el('p', { class: 'choice' }, el('label', { for: 'graph-queue' }, 'Queue '), el('select', { id: 'graph-queue', 'data-key': 'graph-queue',
        onchange: (event) => to({ queue: event.target.value }) }, option('', 'all', chosen), names.map((n) => option(n, n, chosen)),
    chosen && !names.includes(chosen) && option(chosen, chosen, chosen)),
    el('label', { for: 'graph-hours' }, ' of '), el('select', { id: 'graph-hours', 'data-key': 'graph-hours', onchange: (event) => to({ hours: event.target.value }) },
        option('1', 'the last hour', hours), option('6', '6 hours', hours), option('24', '24 hours', hours), option('72', '72 hours', hours)));
}

export function overview(place, ctx) {
    const readings = [];
    let doctor = null, doctorFailed = null, looked = -Infinity, drawn = -Infinity, picture = null, asks = false;
    // It takes longer than the rest, which does not wait for it.
    function look() {
        if (asks || performance.now() - looked < DOCTOR_EVERY_MS) return;
        asks = true;
        get('doctor').then((answer) => { doctor = answer; doctorFailed = null; }, (error) => { doctor = null; doctorFailed = error.message; })
            .finally(() => { asks = false; looked = performance.now(); });
    }
    const again = { ...ctx, reload: () => { looked = -Infinity; return ctx.reload(); } };
    return async () => {
        look();
        const [o, load] = await Promise.all([get('overview'), readLoad()]);
        if (performance.now() - drawn >= GRAPH_EVERY_MS) {
            picture = await get('rates', { queue: ctx.query.get('queue'), hours: ctx.query.get('hours') });
            drawn = performance.now();
        }
        const all = o.paused.some((p) => p.what === 'everything');
        patch(place, el('section', { class: 'top', 'data-key': 'top' }, findings(doctor, doctorFailed, again)),
            numbers(o, load, rates(readings, o.now)), queues(o, load, again),
            ctx.session.may_act && el('p', { 'data-key': 'everything' }, button(all ? 'Resume everything' : 'Pause everything',
                () => turn(again, { everything: true }, 'Everything', all), { 'data-key': 'all' })),
            graph(picture, choice(o, ctx)));
    };
}
