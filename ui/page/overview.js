// The queues, the rates, and what is wrong.

import { get, post } from './api.js';
import { ask, whyField } from './acts.js';
import { button, count, el, link, span, swap, table } from './dom.js';
import { graph } from './graph.js';

const RATE_OVER_MS = 10000, GRAPH_EVERY_MS = 60000;

// PostgreSQL's counters come in bursts: rates are those of the last ten seconds.
function rates(readings, now) {
    readings.push(now);
    while (readings.length > 2 && now.at_ms - readings[1].at_ms >= RATE_OVER_MS) readings.shift();
    const old = readings[0], ms = now.at_ms - old.at_ms;
    const rate = (key) => (ms <= 0 || now[key] === null || old[key] === null ? null : Math.max(0, (now[key] - old[key]) * 1000 / ms));
    return { arrived: rate('arrived'), ended: rate('ended'), failed: rate('failed'), died: rate('died') };
}

const perSecond = (rate) => (rate === null ? '-' : `${rate.toFixed(rate < 10 ? 1 : 0)}/s`);

// Large queues are counted by the leading cleaner, from time to time.
const asOf = (seconds) => (seconds > 0 ? ` as of ${span(seconds)} ago` : '');

function numbers(o, now) {
    const pair = (name, value, note) => el('div', {}, el('dt', {}, name), el('dd', {}, value, note && el('small', {}, note)));
    return el('dl', { class: 'numbers' },
        pair('Ready', count(o.now.ready, o.now.ready_at_least), asOf(o.now.ready_age_s)),
        pair('Oldest waiting', o.now.oldest_ready_s === null ? '-' : span(o.now.oldest_ready_s)),
        pair('Arrived', perSecond(now.arrived)),
        pair('Ended', perSecond(now.ended)),
        pair('Failed attempts', perSecond(now.failed)),
        pair('Died', perSecond(now.died)),
        pair('Workers', count(o.now.workers), ` ${count(o.now.slots)} slots`),
        pair('Done last hour', count(o.counts.done_last_hour)));
}

// A kind has no row in the table, where queues are resumed.
function resumeKind(ctx, kind) {
    return button('Resume', () => turn(ctx, { kind }, `The kind ${kind}`, true),
        { 'data-key': `resume-kind-${kind}`, 'aria-label': `Resume the kind ${kind}` });
}

function troubles(o, ctx) {
    const lines = o.paused.map((p) => [`${p.what === 'everything' ? 'Everything' : `The ${p.what} ${p.name}`} is paused` +
        ` by ${p.paused_by}${p.paused_why ? `: ${p.paused_why}` : ''}. `,
    p.what === 'kind' && ctx.session.may_act && resumeKind(ctx, p.name),
    p.what === 'limit' && link('/limits', 'limits'), p.what === 'schedule' && link('/schedules', 'schedules')]);
    for (const u of o.unhandled) {
        lines.push(`No living worker handles the kind ${u.kind} in the queue ${u.queue}: ${count(u.ready, u.at_least)} ready${asOf(u.age_s)}.`);
    }
    if (!o.leader.led) lines.push('No cleaner leads: workers find tasks later, by polling.');
    return lines.length > 0 && el('ul', { class: 'troubles', 'aria-label': 'What needs attention' }, lines.map((l) => el('li', {}, l)));
}

async function turn(ctx, target, name, paused) {
    try {
        if (paused) {
            await post('resume', target);
            ctx.say(`${name} is resumed.`);
        } else {
            const answer = await ask(`Pause ${name}?`, el('p', {}, 'Workers claim none of its tasks; running tasks continue.'), 'Pause', [whyField()]);
            if (!answer) return;
            await post('pause', { ...target, why: answer.why || null });
            ctx.say(`${name} is paused.`);
        }
    } catch (error) {
        ctx.say(error.message);
    }
    await ctx.reload();
}

const tasksOf = (queue, state, n, atLeast) =>
    (n ? link(`/tasks?${new URLSearchParams(state === 'running' ? { state, queue, oldest: true } : { state, queue })}`, count(n, atLeast)) : '0');

function queues(o, ctx) {
    const cell = (state) => (q) => tasksOf(q.queue, state, q[state], q.at_least);
    const columns = [
        { head: 'Queue', cell: (q) => link(`/tasks?${new URLSearchParams({ queue: q.queue })}`, q.queue, { 'data-key': `q-${q.queue}` }) },
        { head: 'Ready', class: 'n', cell: (q) => [cell('ready')(q), q.age_s > 0 && el('small', {}, asOf(q.age_s))].filter(Boolean) },
        { head: 'Oldest', class: 'n', cell: (q) => (q.oldest_ready_s === null ? '-' : span(q.oldest_ready_s)) },
        { head: 'Running', class: 'n', cell: cell('running') },
        { head: 'Scheduled', class: 'n wide', cell: cell('scheduled') },
        { head: 'Retrying', class: 'n', cell: cell('retrying') },
        o.queues.some((q) => q.blocked !== undefined) && { head: 'Blocked', class: 'n wide', cell: cell('blocked') },
        { head: 'Dead', class: 'n', cell: cell('dead') },
        { head: 'State', cell: (q) => [q.paused ? el('strong', {}, 'paused ') : '', ctx.session.may_act &&
            button(q.paused ? 'Resume' : 'Pause', () => turn(ctx, { queue: q.queue }, `The queue ${q.queue}`, q.paused),
                { 'data-key': `pause-${q.queue}`, 'aria-label': `${q.paused ? 'Resume' : 'Pause'} the queue ${q.queue}` })].filter(Boolean) },
    ].filter(Boolean);
    return table('Queues', columns, o.queues, 'No queue has tasks or settings.');
}

// Of which queue the graph is: an address of its own.
function choice(o, ctx) {
    const chosen = ctx.query.get('queue') ?? '', names = o.queues.map((q) => q.queue);
    const option = (name) => el('option', { value: name, selected: name === chosen }, name);
    return el('p', {}, el('label', { for: 'graph-queue' }, 'Queue '), el('select', { id: 'graph-queue', 'data-key': 'graph-queue',
        onchange: (event) => ctx.go(event.target.value ? `/?${new URLSearchParams({ queue: event.target.value })}` : '/') },
    el('option', { value: '' }, 'all'), names.map(option), chosen && !names.includes(chosen) && option(chosen)));
}

export function overview(place, ctx) {
    const readings = [], top = el('div'), middle = el('div'), picture = el('div');
    let drawn = -Infinity;
    place.append(top, middle, picture);
    return async () => {
        const o = await get('overview');
        swap(top, numbers(o, rates(readings, o.now)), troubles(o, ctx));
        const all = o.paused.some((p) => p.what === 'everything');
        swap(middle, queues(o, ctx), ctx.session.may_act && el('p', {}, button(all ? 'Resume everything' : 'Pause everything',
            () => turn(ctx, { everything: true }, 'Everything', all), { 'data-key': 'all' })));
        if (performance.now() - drawn >= GRAPH_EVERY_MS) {
            drawn = performance.now();
            swap(picture, graph(await get('rates', { queue: ctx.query.get('queue') }), choice(o, ctx)));
        }
    };
}
