// Limits, and the keys that unfinished tasks have.

import { get, post } from './api.js';
import { question, whyField } from './acts.js';
import { button, el, link, patch, table } from './dom.js';
import { count, span } from './format.js';
import { moment } from './parts.js';

const COUNTED = 1000; // as far as the server counts

// "3 at once, 100 in 60 s, one after the other": what holds.
export function holds(l) {
    const parts = [l.strict ? 'one after the other' : l.max_running && `${count(l.max_running)} at once`,
        l.max_starts && `${count(l.max_starts)} starts in ${span(l.per_ms / 1000)}`, l.fair && `fair${l.weight > 1 ? `, weight ${l.weight}` : ''}`];
    return parts.filter(Boolean).join(', ') || (l.rule === null && l.paused_here ? 'only paused' : 'no limit');
}

const counted = (n) => count(n, n >= COUNTED);

function pause(ctx, l) {
    return question(ctx, `Pause the limit ${l.key}?`, el('p', {}, 'No more of its tasks are released; released tasks start, and running tasks continue.'), 'Pause', [whyField()], async (answer) => {
        await post('limit', { act: 'pause', name: l.key, why: answer.why || null });
        return `The limit ${l.key} is paused.`;
    });
}

async function resume(ctx, l) {
    try {
        await post('limit', { act: 'resume', name: l.key });
        ctx.say(`The limit ${l.key} is resumed.`);
    } catch (error) {
        ctx.say(error.message);
    }
    await ctx.reload();
}

function field(name, label, value, properties) {
    return el('p', {}, el('label', { for: `l-${name}` }, label), el('input', { id: `l-${name}`, name, value: value ?? '', autocomplete: 'off', ...properties }));
}

const box = (name, label, checked) => el('p', {}, el('label', { class: 'box' }, el('input', { type: 'checkbox', name, value: 'true', checked: Boolean(checked) }), ` ${label}`));

// `l`: the limit as it is, or null for a new one. What it does not set comes from the limit of the part before the colon.
function edit(ctx, l) {
    const own = l?.own ?? {}, number = (text) => (text ? Number(text) : null);
    return question(ctx, l ? `Change the limit ${l.key}` : 'Set a limit', !l && el('p', { class: 'dim' }, 'The name is a key, such as tenant:42; the part of keys before the colon, such as tenant; kind/NAME; or queue/NAME.'),
        'Set', [!l && field('name', 'Name', '', { required: true, maxlength: 200 }), field('max_running', 'Tasks at once', own.max_running, { type: 'number', min: 1, max: 1000000 }),
            field('max_starts', 'Starts', own.max_starts, { type: 'number', min: 1, max: 10000 }), field('per', 'in this time, such as 1 min', own.per),
            field('weight', 'Weight, if it is fair', own.weight, { type: 'number', min: 1, max: 1000 }), box('strict', 'One after the other, in the order of ids', own.strict),
            box('fair', 'Keys take turns', own.fair)].filter(Boolean), async (answer) => {
            const changes = { max_running: number(answer.max_running), max_starts: number(answer.max_starts), per: (answer.max_starts && answer.per.trim()) || null,
                weight: number(answer.weight), strict: answer.strict ? true : own.strict === false ? false : null, fair: answer.fair ? true : own.fair === false ? false : null,
                when_dead: own.when_dead ?? null, until: own.until ?? null };
            const done = await post('limit', { act: 'set', name: l ? l.key : answer.name.trim(), changes });
            return `The limit ${done.name} is set.`;
        });
}

function stateOf(l) {
    const pausedBy = l.paused_by ? ` by ${l.paused_by}${l.paused_why ? `: ${l.paused_why}` : ''}` : '';
    if (!l.paused && !l.dead && !l.until) return el('span', { class: 'dim' }, '-');
    return [l.paused && el('strong', { class: 'amber' }, `‖ paused${pausedBy} `), l.dead > 0 && el('span', { class: 'red' }, `✕ blocked by ${counted(l.dead)} dead `),
        l.until && ['until ', moment(l.until), ' ']];
}

function buttons(l, ctx) {
    return [(l.paused_here || !l.paused) && button(l.paused_here ? 'Resume' : 'Pause', () => (l.paused_here ? resume : pause)(ctx, l),
        { 'data-key': `pause-${l.key}`, 'aria-label': `${l.paused_here ? 'Resume' : 'Pause'} the limit ${l.key}` }),
    button(l.own ? 'Edit' : 'Set', () => edit(ctx, l), { 'data-key': `edit-${l.key}`, 'aria-label': `${l.own ? 'Edit' : 'Set'} the limit ${l.key}` })];
}

// A key leads to its tasks, a limit of several keys to these.
function name(l) {
    const href = l.is_key ? `/tasks?${new URLSearchParams({ limit_key: l.key })}` : `/limits?${new URLSearchParams({ key: `${l.key}:` })}`;
    return l.is_key || l.held + l.waiting > 0 ? link(href, l.key, { 'data-key': `l-${l.key}` }) : l.key;
}

function form(ctx) {
    return el('form', { class: 'search', role: 'search', 'aria-label': 'Filter', onsubmit: (event) => {
        event.preventDefault();
        const key = new FormData(event.target).get('key').trim();
        ctx.go(`/limits${key ? `?${new URLSearchParams({ key })}` : ''}`);
    } }, el('div', { class: 'field' }, el('label', { for: 'f-key' }, 'Names that begin with '),
        el('input', { id: 'f-key', name: 'key', value: ctx.query.get('key') ?? '', placeholder: 'tenant:4', autocomplete: 'off', spellcheck: 'false' })),
    el('button', {}, 'Find'), link('/limits', 'Clear', { class: 'go' }), ctx.session.may_act && button('Set a limit', () => edit(ctx, null)));
}

export function limits(place, ctx) {
    const list = el('div');
    const columns = [
        { head: 'Limit or key', class: 'long name', cell: name },
        { head: 'State', class: 'first', cell: stateOf },
        { head: 'Limits', cell: (l) => [holds(l), l.rule !== null && l.rule !== l.key && el('small', {}, ` from ${l.rule}`)] },
        { head: 'Released', class: 'n', cell: (l) => counted(l.held) },
        { head: 'Waiting', class: 'n', cell: (l) => counted(l.waiting) },
        ctx.session.may_act && { head: 'Actions', class: 'act first', cell: (l) => buttons(l, ctx) },
    ].filter(Boolean);
    place.append(form(ctx), list);
    return async () => {
        const answer = await get('limits', { key: ctx.query.get('key') });
        patch(list, table('Limits, and keys that unfinished tasks have', columns, answer.limits, { empty: 'No limits. Set one, and it holds for the tasks that have its key.',
            key: (l) => l.key, cards: true, rowClass: (l) => (l.dead > 0 ? 'red' : l.paused ? 'amber' : null) }),
        answer.more && el('p', { class: 'dim' }, 'Only the first 100 keys by name are shown.'));
    };
}
