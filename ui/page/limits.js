// Limits, and the keys that unfinished tasks have.

import { get, post } from './api.js';
import { ask, whyField } from './acts.js';
import { button, count, el, link, moment, span, swap, table } from './dom.js';

const COUNTED = 1000; // as far as the server counts

// "3 at once, 100 in 60 s, one after the other": what holds.
export function holds(l) {
    const parts = [l.strict ? 'one after the other' : l.max_running && `${count(l.max_running)} at once`,
        l.max_starts && `${count(l.max_starts)} starts in ${span(l.per_ms / 1000)}`, l.fair && `fair${l.weight > 1 ? `, weight ${l.weight}` : ''}`];
    return parts.filter(Boolean).join(', ') || (l.rule === null && l.paused_here ? 'only paused' : 'no limit');
}

const counted = (n) => count(n, n >= COUNTED);

async function turn(ctx, l) {
    try {
        if (l.paused_here) {
            await post('limit', { act: 'resume', name: l.key });
            ctx.say(`The limit ${l.key} is resumed.`);
        } else {
            const answer = await ask(`Pause the limit ${l.key}?`,
                el('p', {}, 'No more of its tasks are released; released tasks start, and running tasks continue.'), 'Pause', [whyField()]);
            if (!answer) return;
            await post('limit', { act: 'pause', name: l.key, why: answer.why || null });
            ctx.say(`The limit ${l.key} is paused.`);
        }
    } catch (error) {
        ctx.say(error.message);
    }
    await ctx.reload();
}

function stateOf(l, ctx) {
    const pausedBy = l.paused_by ? ` by ${l.paused_by}${l.paused_why ? `: ${l.paused_why}` : ''}` : '';
    return [l.paused && el('strong', {}, `paused${pausedBy} `), l.dead > 0 && `blocked by ${counted(l.dead)} dead `,
        l.until && ['until ', moment(l.until), ' '],
        ctx.session.may_act && (l.paused_here || !l.paused) && button(l.paused_here ? 'Resume' : 'Pause', () => turn(ctx, l),
            { 'data-key': `pause-${l.key}`, 'aria-label': `${l.paused_here ? 'Resume' : 'Pause'} the limit ${l.key}` })].filter(Boolean);
}

// A key leads to its tasks, a limit of several keys to these.
function name(l) {
    const href = l.is_key ? `/tasks?${new URLSearchParams({ limit_key: l.key })}` : `/limits?${new URLSearchParams({ key: `${l.key}:` })}`;
    return l.is_key || l.held + l.waiting > 0 ? link(href, l.key, { 'data-key': `l-${l.key}` }) : l.key;
}

function form(ctx) {
    return el('form', { class: 'filter', role: 'search', 'aria-label': 'Filter', onsubmit: (event) => {
        event.preventDefault();
        const key = new FormData(event.target).get('key').trim();
        ctx.go(`/limits${key ? `?${new URLSearchParams({ key })}` : ''}`);
    } }, el('p', {}, el('label', { for: 'f-key' }, 'Names that begin with'),
        el('input', { id: 'f-key', name: 'key', value: ctx.query.get('key') ?? '', placeholder: 'tenant:4', autocomplete: 'off', spellcheck: 'false' })),
    el('p', {}, el('button', {}, 'Find'), ' ', link('/limits', 'Clear')));
}

export function limits(place, ctx) {
    const list = el('div');
    const columns = [
        { head: 'Limit or key', class: 'long', cell: name },
        { head: 'Limits', cell: (l) => [holds(l), l.rule !== null && l.rule !== l.key && el('small', {}, ` from ${l.rule}`)] },
        { head: 'Released', class: 'n', cell: (l) => counted(l.held) },
        { head: 'Waiting', class: 'n', cell: (l) => counted(l.waiting) },
        { head: 'State', cell: (l) => stateOf(l, ctx) },
    ];
    place.append(form(ctx), list);
    return async () => {
        const answer = await get('limits', { key: ctx.query.get('key') });
        swap(list, table('Limits, and keys that unfinished tasks have', columns, answer.limits, 'No limits; tenon limit set makes one.'),
            answer.more && el('p', { class: 'dim' }, 'Only the first 100 keys by name are shown.'));
    };
}
