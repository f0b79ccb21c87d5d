// Dead tasks as incidents: what failed, since when, what changed then, whether a retry helps.

import { get } from './api.js';
import { actButton, perform } from './acts.js';
import { button, el, link, patch, table } from './dom.js';
import { count, percent, span } from './format.js';
import { moment, spark } from './parts.js';

const STEPS = 48, FIRST_TRIED = 10, UNDOABLE_MAX = 5;

let retried = []; // {text, filter} of what was retried here, the newest first: while this page is open it can be undone

function note(g, filter) {
    const { state, ...waits } = filter, text = `${g.error_class}, kind ${g.kind}${filter.ids ? `: ${filter.ids.length} tasks` : ''}`;
    retried = [{ text, filter: waits }, ...retried.filter((r) => r.text !== text)].slice(0, UNDOABLE_MAX);
}

// The retries that can be undone, as far as no worker has claimed the tasks.
function undos(ctx) {
    return ctx.session.may_act && retried.length > 0 && el('ul', { class: 'undos', 'data-key': 'undos' }, retried.map((r) => el('li', { 'data-key': `u-${r.text}` }, `Retried: ${r.text} `,
        actButton(ctx, 'undo', () => r.filter, { text: 'Undo what has not started…', key: r.text, label: `Undo the retry of ${r.text}`,
            done: () => { retried = retried.filter((other) => other !== r); } }))));
}

const filterOf = (g) => ({ state: ['dead'], kind: g.kind, error: g.error_class });
const keyOf = (g) => `${g.kind}-${g.error_class}`;
const listOf = (g) => `/tasks?${new URLSearchParams({ state: 'dead', kind: g.kind, ...(g.error_class === null ? {} : { error: g.error_class }) })}`;

// Of an incident that still grows the newest are retried: they show whether the cause is gone.
async function tryTen(ctx, g) {
    try {
        const some = await get('tasks', { filter: JSON.stringify(filterOf(g)), limit: FIRST_TRIED });
        const ids = some.tasks.map((t) => t.id);
        const done = ids.length === 0 ? 'No task was found; try again.' : await perform('retry', { ids });
        if (done && ids.length > 0) note(g, { ids });
        if (done) ctx.say(`${done} If they are not dead again in a while, retry the others.`);
    } catch (error) {
        ctx.say(error.message);
    }
    await ctx.reload();
}

// What came just before the first death. It need not be the cause.
function before(g) {
    const apart = (at) => span((Date.parse(g.first_at) - Date.parse(at)) / 1000);
    return [g.worker && el('div', {}, `${apart(g.worker.at)} after a worker started on ${g.worker.host}, pid ${g.worker.pid}`),
        g.act && el('div', {}, `${apart(g.act.at)} after ${g.act.who}: ${g.act.act} (`, link('/audit', `act ${g.act.id}`, { 'data-key': `act-${keyOf(g)}` }), ')')];
}

function acts(g, n, ctx) {
    if (g.error_class === null) return link(listOf(g), 'Choose tasks', { 'data-key': `c-${keyOf(g)}`, class: 'go' });
    const act = (name, text) => actButton(ctx, name, () => filterOf(g), { text, key: keyOf(g), done: (filter) => { if (name === 'retry') note(g, filter); }, label: `${text === 'Retry…' ? 'Retry' : 'Delete'} all of ${g.error_class}, kind ${g.kind}` });
    return [n > FIRST_TRIED && button('Try 10 first', () => tryTen(ctx, g), { 'data-key': `ten-${keyOf(g)}`, 'aria-label': `Try 10 first of ${g.error_class}, kind ${g.kind}` }),
        act('retry', 'Retry…'), act('delete', 'Delete…')];
}

export function dead(place, ctx) {
    const columns = (step_s) => [
        { head: 'Error', class: 'long name', cell: (g) => [link(listOf(g), g.error_class ?? 'no class', { 'data-key': `e-${keyOf(g)}`, class: 'red' }),
            el('div', { class: 'said' }, g.error ?? ''), link(`/tasks/${g.newest_id}`, `Newest: task ${g.newest_id}`, { 'data-key': `n-${keyOf(g)}`, class: 'newest' })] },
        { head: 'Kind', cell: (g) => [link(`/kinds/${g.kind}`, g.kind, { 'data-key': `k-${keyOf(g)}` }), el('small', { class: 'under' }, ` in ${g.queues.join(', ')}`)] },
        { head: 'Dead', class: 'n first', cell: (g) => el('strong', { class: 'red' }, `✕ ${count(g.n)}`) },
        { head: `The last ${span(STEPS * step_s)}`, class: 'sparks', cell: (g) => spark(Array(STEPS).fill(0), Array.from({ length: STEPS }, (_, i) => g.steps[i] ?? 0),
            `${count(g.n)} died in the last ${span(STEPS * step_s)}`) },
        { head: 'Began', cell: (g) => [moment(g.first_at), el('small', {}, before(g))] },
        { head: 'Last', cell: (g) => moment(g.last_at) },
        { head: 'Died again', class: 'n', cell: (g) => el('span', { title: `Of the newest ${g.looked}, ${g.again} had died before and were retried.` }, g.again > 0 ? percent(g.again, g.looked) : '-') },
        ctx.session.may_act && { head: 'Actions', class: 'act first', cell: (g) => acts(g, g.n, ctx) },
    ].filter(Boolean);
    return async () => {
        const { groups, at_least: atLeast, step_s: step_s } = await get('dead');
        const n = groups.reduce((sum, g) => sum + g.n, 0);
        patch(place, groups.length > 0 && el('p', { class: 'verdict red', 'data-key': 'verdict' }, el('span', { class: 'sign', 'aria-hidden': 'true' }, '✕'),
            `${count(n, atLeast)} dead in ${count(groups.length)} ${groups.length === 1 ? 'incident' : 'incidents'}`),
        undos(ctx), table('Dead tasks by error class and kind', columns(step_s ?? 60), groups, { empty: '✓ No dead tasks.', key: keyOf, cards: true, rowClass: () => 'red' }),
        atLeast && el('p', { class: 'dim', 'data-key': 'more' }, 'Only the newest 10,000 dead tasks are counted here. Retry and Delete change all tasks of a class.'));
    };
}
