// Schedules, workers, and the audit.

import { get, post } from './api.js';
import { button, count, el, link, moment, span, swap, table } from './dom.js';

// --- schedules ---

const every = (s) => s.cron ?? `every ${span(s.every_ms / 1000)}`;

function scheduleButtons(s, ctx) {
    const act = (name, text) => button(text, async () => {
        try {
            const done = await post('schedule', { act: name, name: s.name });
            ctx.say(done.task ? `${s.name} made the task ${done.task}.` : `${s.name}: ${text.toLowerCase()}d.`);
        } catch (error) {
            ctx.say(error.message);
        }
        await ctx.reload();
    }, { 'data-key': `${name}-${s.name}`, 'aria-label': `${text} ${s.name}` });
    return [s.state === 'paused' ? act('resume', 'Resume') : act('pause', 'Pause'), act('run-now', 'Run now')];
}

export function schedules(place, ctx) {
    const columns = [
        { head: 'Schedule', cell: (s) => s.name },
        { head: 'When', cell: (s) => el('code', {}, every(s)) },
        { head: 'Zone', class: 'wide', cell: (s) => s.cron && s.zone },
        { head: 'Kind', cell: (s) => s.kind },
        { head: 'Next', cell: (s) => moment(s.next_at) },
        { head: 'Last', cell: (s) => [moment(s.last_at), s.last_task && [' ', link(`/tasks/${s.last_task}`, `${s.last_task} ${s.last_state ?? ''}`)]].flat().filter(Boolean) },
        { head: 'State', cell: (s) => [s.state, s.last_error && `: ${s.last_error}`].filter(Boolean) },
        ctx.session.may_act && { head: 'Do', cell: (s) => scheduleButtons(s, ctx) },
    ].filter(Boolean);
    return async () => swap(place, table('Schedules', columns, (await get('schedules')).schedules, 'No schedules; tenon schedule add makes one.'));
}

// --- workers ---

function worker(w, running) {
    const mine = running.filter((t) => t.worker === w.id);
    return el('section', { class: 'worker' },
        el('h2', {}, `${w.host}, pid ${w.pid} `, el('span', { class: `state ${w.present ? '' : 'dead'}` }, w.present ? w.state : `${w.state}, gone`)),
        el('p', {}, `${count(w.running)} of ${count(w.slots)} slots are in use; started `, moment(w.since), `; queues ${w.queues.join(', ')}; kinds ${w.kinds.join(', ')}.`),
        w.backing_off && el('p', { class: 'troubles' }, `Handlers that do not start: ${w.backing_off}`),
        w.starting && el('p', { class: 'troubles' }, `Handlers whose first process is still starting: ${w.starting}`),
        mine.length > 0 && table(`What ${w.host}, pid ${w.pid}, runs`, [
            { head: 'Task', class: 'n', cell: (t) => link(`/tasks/${t.id}`, t.id, { 'data-key': `t-${t.id}` }) },
            { head: 'Kind', cell: (t) => t.kind },
            { head: 'Queue', cell: (t) => t.queue },
            { head: 'Attempt', class: 'n', cell: (t) => t.attempt },
            { head: 'Started', cell: (t) => moment(t.start_time) },
            { head: 'Timeout', class: 'n wide', cell: (t) => span(t.timeout_ms / 1000) },
        ], mine));
}

export function workers(place) {
    return async () => {
        const all = await get('workers');
        swap(place, all.workers.length === 0 ? el('p', {}, 'No workers.') : all.workers.map((w) => worker(w, all.running)));
    };
}

// --- the audit ---

export function audit(place, ctx) {
    const columns = [
        { head: 'Act', class: 'n', cell: (a) => a.id },
        { head: 'When', cell: (a) => moment(a.at) },
        { head: 'Who', cell: (a) => (a.what.web_user ? `${a.what.web_user} (${a.who})` : a.who) },
        { head: 'What', cell: (a) => a.act },
        { head: 'Changed', class: 'n', cell: (a) => count(a.n) },
        { head: 'Skipped', class: 'n wide', cell: (a) => a.skipped || '' },
        { head: 'Filter and changes', class: 'long', cell: (a) => el('code', {}, JSON.stringify({ ...a.what, web_user: undefined, why: undefined })) },
        { head: 'Why', class: 'long', cell: (a) => a.what.why },
    ];
    return async () => {
        const acts = (await get('audit', { cursor: ctx.query.get('cursor') })).acts;
        swap(place, table('Who did what, the newest first', columns, acts, 'The audit is empty.'),
            acts.length === 50 && el('p', {}, link(`/audit?cursor=${acts[49].id}`, 'Next page', { 'data-key': 'next' })));
    };
}
