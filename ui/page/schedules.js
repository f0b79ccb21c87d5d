// Schedules: when they tick, how their last tasks ended; change one, run it now.

import { get, post } from './api.js';
import { question } from './acts.js';
import { button, el, link, patch, table } from './dom.js';
import { span } from './format.js';
import { moment, state } from './parts.js';

const every = (s) => s.cron ?? `every ${span(s.every_ms / 1000)}`;

async function attempt(ctx, call) {
    try {
        ctx.say(await call());
    } catch (error) {
        ctx.say(error.message);
    }
    await ctx.reload();
}

function field(name, label, value, properties = {}) {
    return el('p', {}, el('label', { for: `s-${name}` }, label), el('input', { id: `s-${name}`, name, value: value ?? '', autocomplete: 'off', ...properties }));
}

function choice(name, label, values, value) {
    return el('p', {}, el('label', { for: `s-${name}` }, label), el('select', { id: `s-${name}`, name },
        values.map((v) => el('option', { value: v, selected: v === value }, v))));
}

function edit(ctx, s) {
    const when = s.cron ? field('cron', 'Cron expression', s.cron, { required: true })
        : field('seconds', 'Seconds from tick to tick', s.every_ms / 1000, { type: 'number', min: 1, step: 'any', required: true });
    return question(ctx, `Change the schedule ${s.name}`, s.source && el('p', { class: 'dim' }, `It comes from the file ${s.source}: the next tenon schedule sync overwrites the change.`), 'Change',
        [when, s.cron && field('zone', 'Time zone', s.zone, { required: true }), choice('catch_up', 'Ticks that were missed', ['none', 'last', 'all'], s.catch_up),
            choice('overlap', 'While the last task has not ended', ['allow', 'skip'], s.overlap)], async ({ seconds, ...changes }) => {
            if (seconds) changes.every_ms = Math.round(Number(seconds) * 1000);
            const done = await post('schedule', { act: 'set', name: s.name, changes });
            return `${s.name} is changed; its next tick: ${new Date(done.next_at).toLocaleString()}.`;
        });
}

function buttons(s, ctx) {
    const act = (name, text) => button(text, () => attempt(ctx, async () => {
        const done = await post('schedule', { act: name, name: s.name });
        return done.task ? `${s.name} made the task ${done.task}.` : `${s.name}: ${text.toLowerCase()}d.`;
    }), { 'data-key': `${name}-${s.name}`, 'aria-label': `${text} ${s.name}` });
    return [act('run-now', 'Run now'), s.state === 'paused' ? act('resume', 'Resume') : act('pause', 'Pause'),
        button('Edit', () => edit(ctx, s), { 'data-key': `edit-${s.name}`, 'aria-label': `Edit ${s.name}` })];
}

// The newest at the right, as in a sparkline.
function outcomes(s, all) {
    const known = all.find((o) => o.name === s.name)?.outcomes ?? [];
    return known.length === 0 ? el('span', { class: 'dim' }, '-') : el('span', { class: 'outcomes' }, [...known].reverse().map((o) =>
        link(`/tasks/${o.id}`, state(o.state, ''), { 'data-key': `o-${o.id}`, 'aria-label': `Task ${o.id}: ${o.state}`, title: `${o.id}: ${o.state}, ${new Date(o.at).toLocaleString()}` })));
}

export function schedules(place, ctx) {
    const columns = (all) => [
        { head: 'Schedule', class: 'name', cell: (s) => s.name },
        { head: 'State', class: 'first', cell: (s) => [state(s.last_error ? 'error' : s.state, s.last_error ? 'failing' : s.state), s.last_error && ` ${s.last_error}`] },
        { head: 'When', cell: (s) => [el('code', {}, every(s)), s.cron && el('small', {}, ` ${s.zone}`)] },
        { head: 'Next', cell: (s) => moment(s.next_at) },
        { head: 'Last', cell: (s) => [moment(s.last_at), s.last_task && [' ', link(`/tasks/${s.last_task}`, `${s.last_task}`, { 'data-key': `l-${s.name}` }), ' ', s.last_state && state(s.last_state)]] },
        { head: 'Last ten', cell: (s) => outcomes(s, all) },
        { head: 'Kind', cell: (s) => link(`/kinds/${s.kind}`, s.kind, { 'data-key': `k-${s.name}` }) },
        { head: 'Skipped', class: 'n wide', cell: (s) => s.skipped || '' },
        ctx.session.may_act && { head: 'Actions', class: 'act first', cell: (s) => buttons(s, ctx) },
    ].filter(Boolean);
    return async () => {
        const answer = await get('schedules');
        patch(place, table('Schedules', columns(answer.outcomes), answer.schedules, { empty: 'No schedules; tenon schedule add makes one.',
            key: (s) => s.name, cards: true, rowClass: (s) => (s.last_error ? 'red' : s.state === 'paused' ? 'amber' : null) }));
    };
}
