// Tasks that fit a filter, and what can be done to them: to those that are ticked, or to all that fit.

import { get } from './api.js';
import { actButton, acts, fits } from './acts.js';
import { el, link, moment, state, swap, table } from './dom.js';

const PAGE_TASKS = 50;
const DRAWN_EVERY_MS = 500;

const NAMES = ['state', 'queue', 'kind', 'error', 'payload', 'older_than', 'unique_key', 'flow', 'limit_key'];

// "to = ann@example.org" is short for a predicate of SQL/JSON path.
export function payloadPath(text) {
    const short = /^([A-Za-z_][\w.]*)\s*={1,2}\s*(.+)$/.exec(text.trim());
    if (!short) return text.trim();
    const value = short[2].trim();
    const isJson = /^(-?\d+(\.\d+)?|true|false|null|".*")$/.test(value);
    const path = short[1].split('.').map((key) => `.${JSON.stringify(key)}`).join('');
    return `$${path} == ${isJson ? value : JSON.stringify(value)}`;
}

function filterOf(query) {
    const filter = {};
    for (const name of NAMES) {
        const value = query.get(name);
        if (value) filter[name] = name === 'payload' ? payloadPath(value) : name === 'state' ? value.split(',') : value;
    }
    return filter;
}

function form(query, ctx) {
    const field = (name, label, hint) => el('p', {}, el('label', { for: `f-${name}` }, label),
        el('input', { id: `f-${name}`, name, value: query.get(name) ?? '', placeholder: hint, autocomplete: 'off', spellcheck: 'false' }));
    const words = ctx.session.states, chosen = query.get('state') ?? '';
    const states = el('p', {}, el('label', { for: 'f-state' }, 'State'), el('select', { id: 'f-state', name: 'state' },
        el('option', { value: '' }, 'any'), words.map((w) => el('option', { value: w, selected: w === chosen }, w)),
        chosen && !words.includes(chosen) && el('option', { value: chosen, selected: true }, chosen)));
    return el('form', { class: 'filter', role: 'search', 'aria-label': 'Filter', onsubmit: (event) => {
        event.preventDefault();
        const given = [...new FormData(event.target)].filter(([, value]) => value.trim());
        ctx.go(`/tasks${given.length ? `?${new URLSearchParams(given)}` : ''}`);
    } }, states, field('queue', 'Queue', 'default'), field('kind', 'Kind', 'mail'), field('error', 'Error class', 'TimeoutError'),
    field('payload', 'Payload', 'to = ann@example.org'), field('older_than', 'Older than', '2 hours'), field('unique_key', 'Unique key', ''),
    field('flow', 'Flow', '17'), field('limit_key', 'Limit key', 'tenant:42'),
    el('p', {}, el('label', { for: 'f-oldest' }, 'Order'), el('select', { id: 'f-oldest', name: 'oldest' },
        el('option', { value: '' }, 'the newest first'), el('option', { value: 'true', selected: query.get('oldest') === 'true' }, 'the oldest first'))),
    el('p', {}, el('button', {}, 'Find'), ' ', link('/tasks', 'Clear')));
}

function actBar(ctx, filter, ticked) {
    const states = filter.state ?? [], all = Object.keys(filter).length > 0;
    const which = () => (ticked.size > 0 ? { ids: [...ticked] } : filter);
    if (!ctx.session.may_act) return false;
    const names = Object.keys(acts).filter((name) => states.length === 0 || states.every((s) => fits(name, s)));
    const whom = ticked.size > 0 ? `${ticked.size} ticked` : 'all matches';
    return el('p', { class: 'acts' }, el('span', {}, ticked.size > 0 || all ? `Apply to ${whom}: ` : 'Tick tasks, or set a filter, to change many. '),
        (ticked.size > 0 || all) && names.map((name) => actButton(ctx, name, which,
            { text: `${acts[name].label}…`, label: `${acts[name].label} ${whom}` })));
}

function columns(ticked, redraw, ctx) {
    const tick = (t) => el('input', { type: 'checkbox', 'aria-label': `Task ${t.id}`, checked: ticked.has(t.id), 'data-key': `t-${t.id}`,
        onchange: (event) => { ticked[event.target.checked ? 'add' : 'delete'](t.id); redraw(); } });
    return [
        ctx.session.may_act && { head: '', cell: tick },
        { head: 'Task', class: 'n', cell: (t) => link(`/tasks/${t.id}`, t.id, { 'data-key': `l-${t.id}` }) },
        { head: 'State', cell: (t) => state(t.state) },
        { head: 'Kind', cell: (t) => t.kind },
        { head: 'Queue', class: 'wide', cell: (t) => t.queue },
        { head: 'When', cell: (t) => moment(t.end_time ?? t.start_time ?? t.run_at) },
        { head: 'Attempt', class: 'n wide', cell: (t) => t.attempt },
        { head: 'Error', class: 'long', cell: (t) => t.error },
        { head: 'Payload', class: 'long wide', cell: (t) => el('code', {}, t.payload) },
    ].filter(Boolean);
}

export function tasks(place, ctx) {
    const filter = filterOf(ctx.query), ticked = new Set(), oldest = ctx.query.get('oldest') === 'true' || null;
    const bar = el('div'), list = el('div'), dialog = document.getElementById('dialog');
    let page = null;
    let turn = 0, busy = false, again = 0; // the search that counts; it continues; when there may be another
    const acting = { ...ctx, reload: () => { again = 0; busy = false; return ctx.reload(); } };
    place.append(form(ctx.query, ctx), bar, list);
    function pager() {
        const next = new URLSearchParams(ctx.query), full = page.tasks.length === PAGE_TASKS;
        next.set('cursor', page.next);
        return page.next !== null && el('p', {}, full ? link(`/tasks?${next}`, 'Next page', { 'data-key': 'next' })
            : `Searching: ${Math.floor(100 * page.share)} % of all tasks read so far.`);
    }
    function draw() {
        swap(bar, actBar(acting, filter, ticked));
        swap(list, table(oldest ? 'Tasks, the oldest first' : 'Tasks, the newest first', columns(ticked, draw, ctx), page.tasks, page.next === null ? 'No task matches.' : ''), pager());
    }
    const isPart = (found) => found.next !== null && found.tasks.length < PAGE_TASKS;
    // One answer has what the database found in 25 ms: the search continues until the page is full or everything was read. While nobody
    // looks at the page the search stops. The first search shows what it has found and how far it is; not at each answer, because what is drawn
    // again takes no click.
    async function search(mine) {
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
            const found = await search(mine);
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
