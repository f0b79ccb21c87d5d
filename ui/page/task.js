// One task: why it is where it is, what it got and gave, and what became of each attempt.

import { get } from './api.js';
import { actButton, acts, fits } from './acts.js';
import { el, link, patch } from './dom.js';
import { pretty, span } from './format.js';
import { holds } from './limits.js';
import { copy, exactly, moment, state } from './parts.js';
import { logs, timeline } from './timeline.js';

const FOLDED_CHARACTERS = 4000;

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
        ['Kind', link(`/kinds/${t.kind}`, t.kind, { 'data-key': 'kind' })], ['Queue', tasksOf('queue', t.queue)], ['Priority', t.priority],
        ['Attempt', `${t.attempt}${t.max_attempts ? ` of ${t.max_attempts}` : ''}; failures ${t.failures}, crashes ${t.crashes}, claimed ${t.claims === 1 ? 'once' : `${t.claims} times`}`],
        ['Enqueued', exactly(t.created_at)], ['Ended', t.end_time && exactly(t.end_time)],
        ['Unique key', t.unique_key], ['Tags', t.tags && t.tags.map((tag, i) => [i ? ', ' : '', tasksOf('tag', tag)])],
        ['Error class', t.error_class && tasksOf('error', t.error_class)], ['Reason', t.dead_reason], ['Start before', t.start_before && moment(t.start_before)],
        ['Timeout', t.timeout_ms && span(t.timeout_ms / 1000)], ['Trace', t.trace],
        ['Worker', t.worker && `${t.worker.id}${t.worker.host ? ` on ${t.worker.host}, pid ${t.worker.pid}, ${t.worker.state}` : ''}`],
        ['Compensates', t.compensates && link(`/tasks/${t.compensates}`, t.compensates)], ...together(r),
    ].filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false);
    return el('dl', { class: 'pairs', 'data-key': 'pairs' }, rows.map(([name, value]) => [el('dt', { 'data-key': `dt-${name}` }, name), el('dd', { 'data-key': `dd-${name}` }, value)]));
}

// A text that can be long: its beginning is shown, all of it when it is opened.
function text(title, value, raw = value) {
    if (value === undefined || value === null) return false;
    const long = value.length > FOLDED_CHARACTERS, pre = (shown) => el('pre', { tabindex: 0, 'aria-label': title }, shown);
    return el('section', { class: 'text', 'data-key': `text-${title}` }, el('h2', {}, title, ' ', copy(() => raw, title.toLowerCase(), 'Copy')),
        long ? [pre(`${value.slice(0, FOLDED_CHARACTERS)}\n...`), el('details', { 'data-key': `all-${title}-${value.length}`, 'data-own': true,
            ontoggle: (event) => event.currentTarget.querySelector('pre') ?? event.currentTarget.append(pre(value)) },
        el('summary', {}, `All ${value.length.toLocaleString('en')} characters`))] : pre(value));
}

export function task(place, ctx) {
    const lines = new Map(); // what was printed in lines before: the text may be long
    function json(title, value) {
        if (value === undefined || value === null) return false;
        if (lines.get(title)?.value !== value) lines.set(title, { value, text: pretty(value) });
        return text(title, lines.get(title).text, value);
    }
    return async () => {
        const answer = await get(`tasks/${ctx.parameter}`);
        const t = answer.task;
        const buttons = ctx.session.may_act && Object.keys(acts).filter((name) => fits(name, t.state) && (name !== 'undo' || t.error_class))
            .map((name) => actButton(ctx, name, () => ({ ids: [t.id] }), { text: `${acts[name].label}…`, key: t.id }));
        const told = t.attempts.some((a) => a.error === t.last_error); // the attempt shows it already
        patch(place, el('p', { class: 'bar', 'data-key': 'bar' }, state(t.state), ' ', buttons, copy(() => String(t.id), 'id'), copy(() => location.href, 'link')),
            el('p', { class: `why ${t.state}`, 'data-key': 'why' }, answer.why.sentence),
            answer.why.advice && el('p', { class: 'advice', 'data-key': 'advice' }, `What to do: ${answer.why.advice}.`),
            el('h2', { 'data-key': 'h-happened' }, 'What happened'), timeline(t, answer.relations), logs(answer.logs ?? t.logs),
            !told && text('Last error', t.last_error),
            el('div', { class: 'beside', 'data-key': 'beside' }, pairs(t, answer.relations),
                el('div', { class: 'texts' }, json('Payload', answer.texts.payload ?? 'null'), json('Result', answer.texts.result),
                    json('Progress', answer.texts.progress), json('Steps', answer.texts.steps))));
    };
}
