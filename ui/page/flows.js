// Flows: the newest, and one as a graph and as a tree.

import { get, post } from './api.js';
import { question } from './acts.js';
import { causes, dag } from './dag.js';
import { button, el, link, patch, table } from './dom.js';
import { count } from './format.js';
import { moment, state } from './parts.js';

const DEPTH_MAX = 12; // of the tree as it is indented

export function flows(place, ctx) {
    const columns = [
        { head: 'Flow', class: 'n name', cell: (f) => link(`/flows/${f.id}`, f.id, { 'data-key': `f-${f.id}` }) },
        { head: 'Name', class: 'long', cell: (f) => f.name },
        { head: 'State', class: 'first', cell: (f) => state(f.state) },
        { head: 'Tasks', class: 'n', cell: (f) => count(f.tasks, f.at_least) },
        { head: 'Ended', class: 'n', cell: (f) => count(f.ended, f.at_least) },
        { head: 'Ended, not done', class: 'n', cell: (f) => el('span', { class: f.not_done > 0 ? 'red' : null }, f.not_done > 0 && '✕ ', count(f.not_done, f.at_least)) },
        { head: 'Created', cell: (f) => moment(f.made_at) },
        { head: 'By', class: 'wide', cell: (f) => f.made_by },
    ];
    return async () => {
        const list = (await get('flows', { cursor: ctx.query.get('cursor') })).flows;
        patch(place, table('Flows and batches, the newest first', columns, list, { empty: 'No flows. Tasks that depend on each other appear here.', key: (f) => f.id, cards: true,
            rowClass: (f) => (f.not_done > 0 && f.state !== 'cancelled' ? 'red' : null) }),
            list.length === 50 && el('p', {}, link(`/flows?cursor=${list[49].id}`, 'Next page', { 'data-key': 'next' })));
    };
}

// --- one ---

const ENDED = ['done', 'dead', 'cancelled', 'expired'];

function numbers(f) {
    const words = ['blocked', 'waiting', 'running', ...ENDED].filter((word) => f[word] > 0)
        .map((word) => `${count(f[word])} ${word}`);
    return `${count(f.tasks)}${words.length > 0 ? `: ${words.join(', ')}` : ''}`;
}

function pairs(f) {
    const callback = (kind, task) => kind && [kind, task && [': ', link(`/tasks/${task}`, task)]];
    const rows = [['Name', f.name], ['Tasks', numbers(f)], ['Created', [moment(f.made_at), ` by ${f.made_by}`]],
        ['Ended', f.ended_at && moment(f.ended_at)], ['Cancelled', f.cancelled_at && [moment(f.cancelled_at), ` by ${f.cancelled_by}`]],
        ['On done', callback(f.on_done, f.done_task)], ['On dead', callback(f.on_dead, f.dead_task)], ['On end', callback(f.on_end, f.end_task)],
    ].filter(([, value]) => value);
    return el('dl', { class: 'pairs' }, rows.map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

function line(t, others) {
    return [link(`/tasks/${t.id}`, t.id, { 'data-key': `t-${t.id}` }), ` ${t.name ?? ''} `, el('code', {}, t.kind ?? 'gone'), ' ', state(t.state),
        others.length > 0 && el('small', {}, ` also after ${others.slice(0, 5).join(', ')}${others.length > 5 ? ' ...' : ''}`)];
}

// Each under the first of its parents that is shown, which has a lower id and so comes before it. Deep down the lists continue
// side by side, and no stack grows with the length of a chain.
export function tree(tasks) {
    const root = el('ul', { class: 'tree' }), places = new Map();
    for (const t of tasks) {
        const parents = t.parents ?? [], parent = parents.find((id) => places.has(id));
        const above = places.get(parent), deep = above && above.depth >= DEPTH_MAX;
        const item = el('li', {}, line(t, parents.filter((id) => id !== parent)));
        if (!above) {
            root.append(item);
        } else if (deep) {
            above.item.after(item);
        } else {
            above.list ??= above.item.appendChild(el('ul'));
            above.list.append(item);
        }
        places.set(t.id, { item, depth: above ? above.depth + (deep ? 0 : 1) : 0 });
    }
    return root;
}

function actOf(ctx, flow, name, text, asked) {
    return button(text, () => question(ctx, asked, null, text, [], async () => {
        const done = await post('flow', { act: name, flow: flow.id });
        ctx.again();
        return name === 'cancel' ? `${count(done.cancelled)} tasks of the flow ${flow.id} cancelled.` : `The flow ${flow.id} is closed.`;
    }), { 'data-key': `${name}-flow` });
}

function buttons(ctx, f) {
    if (!ctx.session.may_act) return [];
    const going = f.state === 'open' || f.state === 'running';
    return [going && !f.cancelled_at && actOf(ctx, f, 'cancel', 'Cancel the flow', `Cancel all tasks of the flow ${f.id} that have not ended?`),
        f.state === 'open' && actOf(ctx, f, 'close', 'Close the flow', `Close the flow ${f.id}? No more tasks will be added to it.`)];
}

function rootCauses(tasks) {
    const roots = causes(tasks);
    return roots.length > 0 && el('p', { class: 'verdict red', 'data-key': 'roots' }, el('span', { class: 'sign', 'aria-hidden': 'true' }, '✕'),
        `Failed first: `, roots.slice(0, 5).map((t, i) => [i > 0 && ', ', link(`/tasks/${t.id}`, `${t.id} ${t.name ?? t.kind ?? ''}`, { 'data-key': `root-${t.id}` })]),
        roots.length > 5 && ` and ${roots.length - 5} more`);
}

export function flow(place, ctx) {
    let again = 0, answer = null;
    const opened = new Set();
    const open = (key) => { opened.add(key); draw(); };
    function draw() {
        const f = answer.flow;
        patch(place, el('p', { class: 'bar', 'data-key': 'bar' }, state(f.state), ' ', buttons({ ...ctx, again: () => { again = 0; } }, f)), pairs(f), rootCauses(answer.tasks),
            el('h2', { 'data-key': 'h' }, 'Its tasks'),
            answer.tasks.length === 0 ? el('p', { class: 'empty' }, 'No tasks.') : [
                el('div', { class: 'scroll dag-place', tabindex: 0, role: 'region', 'aria-label': 'Graph', 'data-key': 'dag' }, dag(answer.tasks, ctx, opened, open)),
                el('details', { 'data-key': 'list' }, el('summary', {}, 'As a list'), tree(answer.tasks))],
            el('p', { 'data-key': 'foot' }, answer.tasks.length < f.tasks && `The first ${count(answer.tasks.length)} of ${count(f.tasks)} tasks. `,
                link(`/tasks?flow=${f.id}`, 'Search its tasks')));
    }
    return async () => {
        const now = performance.now();
        if (answer === null || now >= again) {
            answer = await get(`flows/${ctx.parameter}`);
            again = now + 20 * (performance.now() - now); // one of 100,000 tasks takes the database a second
        }
        draw();
    };
}
