// One task: why it is where it is, what it got and gave, and what became of each attempt.

import { get } from './api.js';
import { actButton, acts, fits } from './acts.js';
import { el, link, moment, pretty, state, swap } from './dom.js';
import { holds } from './limits.js';

const PLACES = { waits: 'waits in its line', elsewhere: 'waits in the line of another limit', parked: 'waits in the line of another limit', later: 'not due',
    held: 'released', ending: 'released', dead: 'blocks it' };

const tasksOf = (name, value, text) => link(`/tasks?${new URLSearchParams({ [name]: value })}`, text ?? value);

// Tasks beside each other; `n`: how many there are.
function relatives(list, n) {
    return list.length > 0 && [list.map((t, i) => [i ? ', ' : '', link(`/tasks/${t.id}`, t.id), ` ${t.name ?? t.kind ?? ''} `, state(t.state)]),
        n > list.length && ` and ${n - list.length} more`];
}

function together(r) {
    return [
        ['Flow', r.flow && [link(`/flows/${r.flow.id}`, r.flow.id), ` ${r.flow.name ?? ''}`, r.name && `: ${r.name}`]],
        ['Parents', relatives(r.parents, r.parents_n)], ['Children', relatives(r.children, r.children_n)],
        ['Waits for the signal', r.signal && [`${r.signal.name}, until `, moment(r.signal.until)]],
        ['Limits', r.limits.length > 0 && r.limits.map((l) => el('div', {}, tasksOf('limit_key', l.key), `: ${holds(l)}`, l.paused && el('strong', {}, ', paused'),
            PLACES[l.state] && `; ${PLACES[l.state]}`))],
    ];
}

function pairs(t, r) {
    const rows = [
        ['Kind', t.kind], ['Queue', tasksOf('queue', t.queue)], ['Priority', t.priority],
        ['Attempt', `${t.attempt}${t.max_attempts ? ` of ${t.max_attempts}` : ''}; failures ${t.failures}, crashes ${t.crashes}, claimed ${t.claims === 1 ? 'once' : `${t.claims} times`}`],
        ['Unique key', t.unique_key], ['Error class', t.error_class], ['Reason', t.dead_reason], ['Start before', t.start_before && moment(t.start_before)],
        ['Timeout', t.timeout_ms && `${t.timeout_ms / 1000} s`], ['Trace', t.trace],
        ['Worker', t.worker && `${t.worker.id}${t.worker.host ? ` on ${t.worker.host}, pid ${t.worker.pid}, ${t.worker.state}` : ''}`],
        ['Compensates', t.compensates && link(`/tasks/${t.compensates}`, t.compensates)], ...together(r),
    ].filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false);
    return el('dl', { class: 'pairs' }, rows.map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

function attempt(a) {
    const how = a.exit_code !== null ? `, exit code ${a.exit_code}` : a.signal !== null ? `, signal ${a.signal}` : '';
    const took = (Date.parse(a.ended_at) - Date.parse(a.started_at)) / 1000;
    return el('li', {}, el('strong', {}, `Attempt ${a.attempt} ${a.outcome}`), ' ', moment(a.ended_at),
        `, after ${took.toFixed(1)} s on ${a.host ?? a.worker}${how}`, a.error && el('pre', { tabindex: 0 }, a.error));
}

function timeline(t) {
    const line = (text, at) => el('li', {}, `${text} `, moment(at));
    return el('ol', { class: 'timeline' }, line('Enqueued', t.created_at), t.attempts.map(attempt),
        t.state === 'running' && line('Started', t.start_time),
        ['scheduled', 'retrying'].includes(t.state) && line('To run', t.run_at),
        t.state === 'done' && line('Started', t.start_time),
        t.end_time && line(t.state === 'dead' ? 'Died' : `Ended: ${t.state},`, t.end_time));
}

function text(title, value) {
    return value !== undefined && value !== null && [el('h2', {}, title), el('pre', { tabindex: 0, 'aria-label': title }, value)];
}

export function task(place, ctx) {
    let before = '';
    return async () => {
        const answer = await get(`tasks/${ctx.parameter}`);
        const t = answer.task, said = JSON.stringify(answer);
        if (said === before) return;
        before = said;
        const buttons = ctx.session.may_act && Object.keys(acts).filter((name) => fits(name, t.state))
            .map((name) => actButton(ctx, name, () => ({ ids: [t.id] }), { text: `${acts[name].label}…`, key: t.id }));
        swap(place, el('p', {}, state(t.state), ' ', buttons),
            el('p', { class: 'why' }, answer.why.sentence), answer.why.advice && el('p', { class: 'dim' }, `What to do: ${answer.why.advice}.`),
            pairs(t, answer.relations), el('h2', {}, 'What happened'), timeline(t),
            text('Progress', answer.texts.progress && pretty(answer.texts.progress)),
            text('Steps', answer.texts.steps && pretty(answer.texts.steps)),
            text('Payload', pretty(answer.texts.payload ?? 'null')),
            text('Result', answer.texts.result && pretty(answer.texts.result)),
            text('Last error', t.last_error));
    };
}
