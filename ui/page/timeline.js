// What happened to a task, drawn in time, and as a list.

import { el, link, svg } from './dom.js';
import { clock, took } from './format.js';
import { copy, moment, state } from './parts.js';

const WIDTH = 1000, HEIGHT = 46, LOGS_MAX = 500, STEPS_MAX = 20;

// {from, to, word, text}: waits and attempts, in order; the last one may not have ended.
function stretches(t, now) {
    const parts = [], at = (text) => Date.parse(text);
    let from = at(t.created_at);
    for (const a of t.attempts) {
        if (at(a.started_at) > from) parts.push({ from, to: at(a.started_at), word: 'waited', text: 'waited' });
        parts.push({ from: at(a.started_at), to: at(a.ended_at), word: 'failed', text: `attempt ${a.attempt} ${a.outcome}` });
        from = at(a.ended_at);
    }
    const start = t.start_time && !t.attempts.some((a) => at(a.started_at) === at(t.start_time)) ? at(t.start_time) : null;
    const end = t.end_time ? at(t.end_time) : now;
    if (start !== null && start >= from) {
        parts.push({ from, to: start, word: 'waited', text: 'waited' });
        parts.push({ from: start, to: end, word: t.state === 'running' ? 'running' : t.state, text: t.state === 'running' ? 'runs' : `ran: ${t.state}` });
    } else if (!t.end_time) {
        parts.push({ from, to: now, word: 'waited', text: 'waits' });
    }
    return parts.filter((p) => p.to > p.from);
}

// What a step is called; a received signal is a step, too.
const recorded = (s) => (s.sent_at ? `signal ${s.name} received` : `step ${s.name} recorded`);

// {at, text}: when parents and children ended, signals were sent, steps were recorded.
function marks(r) {
    const ended = (word, list) => list.filter((o) => o.end_time).map((o) => ({ at: Date.parse(o.end_time), text: `${word} ${o.id} ended: ${o.state}` }));
    const shown = r.steps.slice(-STEPS_MAX);
    return [...ended('parent', r.parents), ...ended('child', r.children),
        ...shown.filter((s) => s.sent_at).map((s) => ({ at: Date.parse(s.sent_at), text: `signal ${s.name} sent` })),
        ...shown.filter((s) => s.at).map((s) => ({ at: Date.parse(s.at), text: recorded(s) }))];
}

function picture(t, r) {
    const now = Date.now(), parts = stretches(t, now), first = parts[0]?.from, last = parts[parts.length - 1]?.to;
    if (!(last > first)) return false;
    const x = (ms) => (ms - first) / (last - first) * WIDTH;
    const title = (p) => svg('title', {}, `${p.text} for ${took((p.to - p.from) / 1000)}, from ${clock(new Date(p.from))}`);
    const seen = marks(r).filter((m) => m.at >= first && m.at <= last).map((m) => ({ ...m, text: `${m.text} at ${clock(new Date(m.at))}` }));
    return svg('svg', { class: 'time', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'data-key': 'time',
        'aria-label': `From ${clock(new Date(first))} to ${clock(new Date(last))}: ${parts.map((p) => `${p.text} for ${took((p.to - p.from) / 1000)}`).slice(-20).concat(seen.map((m) => m.text).slice(-20)).join(', ')}` },
    parts.map((p) => svg('g', { class: `stretch ${p.word}` }, title(p), svg('rect', { x: Math.min(x(p.from), WIDTH - 4).toFixed(1), y: p.word === 'waited' ? 20 : 8,
        width: Math.max(4, x(p.to) - x(p.from)).toFixed(1), height: p.word === 'waited' ? 6 : 30 }))),
    seen.map((m) => svg('g', { class: 'mark' }, svg('title', {}, m.text), svg('rect', { x: Math.min(x(m.at), WIDTH - 3).toFixed(1), y: 0, width: 3, height: HEIGHT }))));
}

function attempt(a) {
    const how = a.exit_code !== null ? `, exit code ${a.exit_code}` : a.signal !== null ? `, signal ${a.signal}` : '';
    const seconds = (Date.parse(a.ended_at) - Date.parse(a.started_at)) / 1000;
    return el('li', { 'data-key': `a-${a.attempt}-${a.ended_at}` }, el('strong', { class: 'red' }, `✕ Attempt ${a.attempt} ${a.outcome}`), ' ', moment(a.ended_at),
        `, after ${took(seconds)} on ${a.host ?? a.worker}${how}`, a.error && el('div', { class: 'error' }, copy(() => a.error, `the error of attempt ${a.attempt}`, 'Copy'),
            el('pre', { tabindex: 0, 'aria-label': `The error of attempt ${a.attempt}` }, a.error)));
}

const relative = (word, o) => el('li', { 'data-key': `${word}-${o.id}` }, `${word} `, link(`/tasks/${o.id}`, o.id), ` ${o.name ?? o.kind ?? ''} `, state(o.state), ' ', moment(o.end_time));

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// The lines that have a time, in the order of their times; of the steps the newest.
function past(t, r, line) {
    const steps = r.steps.slice(-STEPS_MAX), earlier = r.steps.length - steps.length;
    const list = [{ at: t.created_at, node: line('Enqueued', t.created_at) },
        ...r.parents.filter((o) => o.end_time).map((o) => ({ at: o.end_time, node: relative('Parent', o) })),
        ...steps.filter((s) => s.sent_at).map((s) => ({ at: s.sent_at, node: line(`Signal ${s.name} sent`, s.sent_at) })),
        ...steps.map((s, i) => ({ at: s.at, node: line(`${capital(recorded(s))}${i === 0 && earlier > 0 ? ` (after ${earlier} earlier ones)` : ''}`, s.at) })),
        ...t.attempts.map((a) => ({ at: a.ended_at, node: attempt(a) })),
        ...t.start_time && ['running', 'done'].includes(t.state) ? [{ at: t.start_time, node: line('Started', t.start_time) }] : []];
    return list.sort((a, b) => Date.parse(a.at) - Date.parse(b.at)).map((entry) => entry.node);
}

export function timeline(t, r) {
    const line = (text, at) => el('li', { 'data-key': `l-${text}` }, `${text} `, moment(at));
    const parts = stretches(t, Date.now()), first = parts[0], last = parts[parts.length - 1];
    return [picture(t, r),
        first && el('p', { class: 'dim ends', 'data-key': 'ends' }, el('span', {}, clock(new Date(first.from))), el('span', {}, took((last.to - first.from) / 1000)), el('span', {}, clock(new Date(last.to)))),
        el('ol', { class: 'timeline', 'data-key': 'timeline' }, past(t, r, line),
            r.parents.filter((o) => !o.end_time).map((o) => relative('Parent', o)),
            r.signal && line(`Waits for the signal ${r.signal.name} until`, r.signal.until),
            ['scheduled', 'retrying'].includes(t.state) && line('To run', t.run_at),
            t.end_time && line(t.state === 'dead' ? 'Died' : `Ended: ${t.state},`, t.end_time),
            r.children.map((o) => relative('Child', o)))];
}

// The lines that handlers logged: [{at, attempt, level, message, fields}].
export function logs(lines) {
    if (!lines || lines.length === 0) return false;
    const shown = lines.slice(-LOGS_MAX);
    return el('section', { 'data-key': 'logs' }, el('h2', {}, 'Log ', copy(() => lines.map((l) => `${l.at} ${l.level} ${l.message}`).join('\n'), 'the log', 'Copy')),
        el('div', { class: 'log', tabindex: 0, role: 'region', 'aria-label': 'Log', 'data-key': 'log' }, shown.map((l, i) => el('div', { class: `line ${l.level}`, 'data-key': `log-${l.at}-${i}` },
            el('time', { datetime: l.at, title: l.at }, clock(new Date(l.at))), ` ${l.attempt} `, el('strong', {}, l.level), ` ${l.message}`,
            l.fields && Object.keys(l.fields).length > 0 && el('code', {}, ` ${JSON.stringify(l.fields)}`)))));
}
