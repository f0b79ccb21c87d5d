// Tasks that fit a filter, which is in the address; acts on those that are ticked, or on all that fit.

import { get } from './api.js';
import { actButton, acts, fits } from './acts.js';
import { el, link, patch, table } from './dom.js';
import { count } from './format.js';
import { moment, state } from './parts.js';
import { filterOf, write } from './query.js';
import { search } from './search.js';

const PAGE_TASKS = 50;
const DRAWN_EVERY_MS = 500;

function actBar(ctx, filter, ticked, none) {
    const states = filter.state ?? [], all = Object.keys(filter).length > 0;
    const which = () => (ticked.size > 0 ? { ids: [...ticked] } : filter);
    if (!ctx.session.may_act || none) return false;
    const names = Object.keys(acts).filter((name) => (states.length === 0 || states.every((s) => fits(name, s))) && (name !== 'undo' || filter.error || ticked.size > 0));
    const whom = ticked.size > 0 ? `${count(ticked.size)} ticked` : 'all matches';
    return el('p', { class: 'acts' }, el('span', {}, ticked.size > 0 || all ? `Apply to ${whom}: ` : 'Tick tasks, or set a filter, to change many. '),
        (ticked.size > 0 || all) && names.map((name) => actButton(ctx, name, which,
            { text: `${acts[name].label}…`, label: `${acts[name].label} ${whom}` })));
}

function columns(ticked, redraw, ctx) {
    const tick = (t) => el('input', { type: 'checkbox', 'aria-label': `Task ${t.id}`, checked: ticked.has(t.id), 'data-key': `t-${t.id}`,
        onchange: (event) => { ticked[event.target.checked ? 'add' : 'delete'](t.id); redraw(); } });
    return [
        ctx.session.may_act && { head: el('span', { class: 'unseen' }, 'Tick'), class: 'tick', cell: tick },
        { head: 'Task', class: 'n name', cell: (t) => link(`/tasks/${t.id}`, t.id, { 'data-key': `l-${t.id}` }) },
        { head: 'State', class: 'first', cell: (t) => state(t.state) },
        { head: 'Kind', cell: (t) => link(`/kinds/${t.kind}`, t.kind, { 'data-key': `k-${t.id}` }) },
        { head: 'Queue', class: 'wide', cell: (t) => t.queue },
        { head: 'When', cell: (t) => moment(t.end_time ?? t.start_time ?? t.run_at) },
        { head: 'Attempt', class: 'n wide', cell: (t) => t.attempt },
        { head: 'Error', class: 'long', cell: (t) => t.error },
        { head: 'Payload', class: 'long wide', cell: (t) => el('code', {}, t.payload) },
    ].filter(Boolean);
}

export function tasks(place, ctx) {
    const filter = filterOf(ctx.query), ticked = new Set(), oldest = ctx.query.get('oldest') === 'true' || null;
    const bar = el('div'), list = el('div', { class: 'list' }), dialog = document.getElementById('dialog');
    let page = null;
    let turn = 0, busy = false, again = 0; // the search that counts; it continues; when there may be another
    const acting = { ...ctx, reload: () => { again = 0; busy = false; return ctx.reload(); } };
    place.append(search(write(ctx.query), ctx), bar, list);
    function pager() {
        const next = new URLSearchParams(ctx.query), full = page.tasks.length === PAGE_TASKS;
        next.set('cursor', page.next);
        return page.next !== null && el('p', {}, full ? link(`/tasks?${next}`, 'Next page', { 'data-key': 'next' })
            : [el('progress', { max: 1, value: page.share, 'aria-label': 'Searched' }), ` Searching: ${Math.floor(100 * page.share)} % of all tasks read so far.`]);
    }
    function draw() {
        patch(bar, actBar(acting, filter, ticked, page.tasks.length === 0 && page.next === null));
        patch(list, table(oldest ? 'Tasks, the oldest first' : 'Tasks, the newest first', columns(ticked, draw, ctx), page.tasks,
            { empty: page.next === null ? 'No task matches.' : '', key: (t) => t.id, cards: true, rowClass: (t) => (t.state === 'dead' ? 'red' : null) }), pager());
    }
    const isPart = (found) => found.next !== null && found.tasks.length < PAGE_TASKS;
    // One answer has what the database found in 25 ms: the search continues until the page is full or everything was read. While nobody
    // looks at the page the search stops. The first search shows what it has found and how far it is.
    async function seek(mine) {
        const begun = performance.now(), isFirst = page === null || isPart(page);
        let drawn = 0, found = page !== null && isFirst ? page : { tasks: [], next: ctx.query.get('cursor'), share: 0 };
        for (let asked = 1; ; asked++) {
            const more = await get('tasks', { filter: JSON.stringify(filter), cursor: found.next, oldest,
                limit: PAGE_TASKS - found.tasks.length });
            const now = performance.now();
            found = { tasks: found.tasks.concat(more.tasks), next: more.next, share: more.share };
            again = asked > 1 ? now + 20 * (now - begun) : 0;
            const seen = mine === turn && place.isConnected && document.visibilityState === 'visible';
            if (!isPart(found) || !seen) {
                return isPart(found) && !isFirst ? page : found;
            }
            if (isFirst && !dialog.open && (more.tasks.length > 0 || now - drawn > DRAWN_EVERY_MS)) {
                drawn = now;
                page = found;
                draw();
            }
        }
    }
    return async () => {
        if (busy || performance.now() < again) return;
        const mine = ++turn;
        busy = true;
        try {
            const found = await seek(mine);
            if (mine !== turn) return;
            page = found;
            if (isPart(page)) again = 0;
        } finally {
            if (mine === turn) busy = false;
        }
        for (const id of ticked) {
            if (!page.tasks.some((t) => t.id === id)) ticked.delete(id);
        }
        draw();
    };
}
