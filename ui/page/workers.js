// Workers: how much of each is in use, what it runs and for how long, what does not start; drain one.

import { question, whyField } from './acts.js';
import { get, post } from './api.js';
import { button, el, link, patch, table } from './dom.js';
import { count, percent, span } from './format.js';
import { gauge, moment, state } from './parts.js';

const LIST_MAX = 6; // names that are shown before the others are folded

const running_s = (t) => (Date.now() - Date.parse(t.start_time)) / 1000;

function names(list, key) {
    return list.length <= LIST_MAX ? list.join(', ') : el('details', { 'data-key': key }, el('summary', {}, `${list.slice(0, LIST_MAX).join(', ')} and ${list.length - LIST_MAX} more`),
        list.slice(LIST_MAX).join(', '));
}

function mine(w, running) {
    return running.filter((t) => t.worker === w.id);
}

function stateOf(w) {
    return w.present ? state(w.state) : state('error', `${w.state}, gone`);
}

// Handlers that take several tasks at once run more of them than there are slots.
function use(w) {
    const most = Math.max(w.slots, w.running);
    return [gauge(w.running, most, `${w.running} tasks on ${w.slots} slots`), ` ${count(w.running)} on ${count(w.slots)} ${w.slots === 1 ? 'slot' : 'slots'}`];
}

function drain(ctx, w) {
    const where = `${w.host}, pid ${w.pid}`;
    return question(ctx, `Drain the worker on ${where}?`, el('p', {}, `It claims no more tasks, finishes the ${w.running} that run, and ends. If a service manager restarts it, another one starts.`),
        'Drain', [whyField()], async (answer) => {
            await post('drain', { worker: w.id, why: answer.why || null });
            return `The worker on ${where} drains.`;
        });
}

function drainButton(w, ctx) {
    return w.present && w.state === 'alive' && button('Drain', () => drain(ctx, w), { 'data-key': `drain-${w.id}`, 'aria-label': `Drain the worker on ${w.host}, pid ${w.pid}` });
}

function fleet(list, running, ctx) {
    const columns = [
        { head: 'Worker', class: 'name', cell: (w) => [el('strong', {}, w.host), ` ${w.pid}`] },
        { head: 'State', class: 'first', cell: stateOf },
        { head: 'Running', cell: use },
        { head: 'Oldest run', class: 'n', cell: (w) => {
            const oldest = mine(w, running)[0];
            return oldest ? link(`/tasks/${oldest.id}`, span(running_s(oldest)), { 'data-key': `oldest-${w.id}` }) : '-';
        } },
        { head: 'Started', cell: (w) => moment(`${w.since}`) },
        { head: 'Release', cell: (w) => [w.release ?? '', el('small', {}, ` tenon ${w.version}`)] },
        { head: 'Queues', class: 'long', cell: (w) => names(w.queues, `queues-${w.id}`) },
        { head: 'Kinds', class: 'long', cell: (w) => names(w.kinds, `kinds-${w.id}`) },
        { head: 'Trouble', class: 'long', cell: (w) => [w.backing_off && el('p', { class: 'red' }, `✕ does not start: ${w.backing_off}`),
            w.starting && el('p', { class: 'amber' }, `▲ still starting: ${w.starting}`)] },
        ctx.session.may_act && { head: 'Actions', class: 'act first', cell: (w) => drainButton(w, ctx) },
    ].filter(Boolean);
    return table('Workers', columns, list, { empty: 'No worker is alive. Start one: tenon worker --handler KIND=COMMAND', key: (w) => w.id, cards: true,
        rowClass: (w) => (!w.present || w.backing_off ? 'red' : w.starting || w.state === 'draining' ? 'amber' : null) });
}

function runs(running, list) {
    const hostOf = new Map(list.map((w) => [w.id, `${w.host} ${w.pid}`]));
    const columns = [
        { head: 'Task', class: 'n name', cell: (t) => link(`/tasks/${t.id}`, t.id, { 'data-key': `t-${t.id}` }) },
        { head: 'Kind', cell: (t) => link(`/kinds/${t.kind}`, t.kind, { 'data-key': `k-${t.id}` }) },
        { head: 'Queue', cell: (t) => t.queue },
        { head: 'Runs for', class: 'n', cell: (t) => span(running_s(t)) },
        { head: 'Of its timeout', cell: (t) => [gauge(running_s(t), t.timeout_ms / 1000, `${percent(running_s(t), t.timeout_ms / 1000)} of the timeout`), ` ${span(t.timeout_ms / 1000)}`] },
        { head: 'Attempt', class: 'n', cell: (t) => t.attempt },
        { head: 'Worker', cell: (t) => hostOf.get(t.worker) ?? 'gone' },
    ];
    return table('Running tasks, the oldest first', columns, running, { empty: 'No task is running.', key: (t) => t.id, cards: true });
}

export function workers(place, ctx) {
    return async () => {
        const { workers: list, running } = await get('workers');
        const slots = list.reduce((n, w) => n + w.slots, 0), busy = list.reduce((n, w) => n + w.running, 0);
        const sorted = [...list].sort((a, b) => a.present - b.present || Boolean(b.backing_off) - Boolean(a.backing_off) || (a.host < b.host ? -1 : 1));
        patch(place, el('p', { class: 'sum', 'data-key': 'sum' }, `${count(list.length)} ${list.length === 1 ? 'worker' : 'workers'}; ${count(busy)} ${busy === 1 ? 'task runs' : 'tasks run'} on ${count(slots)} slots.`),
            fleet(sorted, running, ctx), el('h2', { 'data-key': 'h-running' }, 'Running tasks'), runs(running, list),
            running.length >= 200 && el('p', { class: 'dim', 'data-key': 'cut' }, 'Only the oldest 200 are shown.'));
    };
}
