// What `tenon doctor` finds: the answer first, with what to press.

import { post } from './api.js';
import { question, whyField } from './acts.js';
import { button, el, link } from './dom.js';

// Pause or resume a queue, a kind, everything; a pause says first what it does.
export async function turn(ctx, target, name, paused) {
    if (!paused) {
        await question(ctx, `Pause ${name.charAt(0).toLowerCase()}${name.slice(1)}?`, el('p', {}, 'No worker claims its tasks until it is resumed. Running tasks continue.'), 'Pause', [whyField()], async (answer) => {
            await post('pause', { ...target, why: answer.why || null });
            return `${name} is paused.`;
        });
        return;
    }
    try {
        await post('resume', target);
        ctx.say(`${name} is resumed.`);
    } catch (error) {
        ctx.say(error.message);
    }
    await ctx.reload();
}

// By what it says is wrong: where to look.
const VIEWS = { cleaner: ['/workers', 'Workers'], workers: ['/workers', 'Workers'], handler: ['/workers', 'Workers'], broker: ['/workers', 'Workers'],
    schedule: ['/schedules', 'Schedules'], outbox: ['/outbox', 'Outbox'] };

const tasksOf = (filter) => `/tasks?${new URLSearchParams(filter)}`;

function target(f) {
    const about = f.about ?? {};
    if (f.subject === 'dead tasks') return ['/dead', 'See why'];
    if (f.subject === 'latency') return [tasksOf({ state: 'running', queue: about.queue, oldest: true }), 'See what runs'];
    if (f.subject === 'unhandled') return [tasksOf({ state: 'ready', queue: about.queue, kind: about.kind }), 'See them'];
    if (f.subject === 'paused' && about.what === undefined && about.queue) return [tasksOf({ state: 'ready', queue: about.queue, kind: about.kind }), 'See them'];
    return VIEWS[f.subject] ?? null;
}

function resume(f, ctx) {
    const about = f.about ?? {};
    if (f.subject !== 'paused' || !ctx.session.may_act || !['everything', 'queue', 'kind'].includes(about.what)) return false;
    const what = about.what === 'everything' ? { everything: true } : { [about.what]: about.name };
    const name = about.what === 'everything' ? 'Everything' : `The ${about.what} ${about.name}`;
    return button('Resume', () => turn(ctx, what, name, true), { 'data-key': `resume-${about.what}-${about.name}`,
        'aria-label': about.what === 'everything' ? 'Resume everything' : `Resume the ${about.what} ${about.name}` });
}

// Dead tasks are work that was lost, whatever the doctor calls it.
export const isRed = (f) => f.level === 'error' || f.subject === 'dead tasks';

function line(f, ctx) {
    const to = target(f), red = isRed(f);
    return el('li', { class: red ? 'red' : 'amber', 'data-key': `f-${f.subject}-${JSON.stringify(f.about ?? f.finding)}` },
        el('span', { class: 'sign', 'aria-hidden': 'true' }, red ? '✕' : '▲'),
        el('span', { class: 'what' }, el('strong', {}, `${red ? 'Error' : 'Warning'}, ${f.subject}: `), f.finding.charAt(0).toUpperCase() + f.finding.slice(1), el('small', {}, ` To do: ${f.advice}.`)),
        el('span', { class: 'does' }, to && link(to[0], to[1], { 'data-key': `see-${f.subject}-${f.about?.kind ?? ''}`, class: 'go' }), resume(f, ctx)));
}

// `doctor`: the answer, or null while there is none; `failed`: why there is none.
export function findings(doctor, failed, ctx) {
    if (!doctor) {
        return el('p', { class: 'verdict', 'data-key': 'verdict' }, failed ? `tenon doctor failed: ${failed}` : 'tenon doctor is looking ...');
    }
    const list = [...doctor.findings].sort((a, b) => isRed(b) - isRed(a)), reds = list.filter(isRed).length;
    const unseen = doctor.unseen.length > 0 && el('p', { class: 'dim', 'data-key': 'unseen' },
        `The role of this page cannot see ${doctor.unseen.map((u) => u.what).join('; ')}.`);
    if (list.length === 0) {
        return [el('p', { class: 'verdict green', 'data-key': 'verdict' }, el('span', { class: 'sign', 'aria-hidden': 'true' }, '✓'), 'No problems found.'), unseen];
    }
    const shown = list.slice(0, 6), rest = list.slice(6);
    return [el('p', { class: `verdict ${reds ? 'red' : 'amber'}`, 'data-key': 'verdict' }, el('span', { class: 'sign', 'aria-hidden': 'true' }, reds ? '✕' : '▲'),
        [reds && `${reds} ${reds === 1 ? 'error' : 'errors'}`, list.length - reds > 0 && `${list.length - reds} ${list.length - reds === 1 ? 'warning' : 'warnings'}`].filter(Boolean).join(', ')),
    el('ul', { class: 'findings', 'aria-label': 'What needs attention', 'data-key': 'findings' }, shown.map((f) => line(f, ctx))),
    rest.length > 0 && el('details', { 'data-key': 'more-findings' }, el('summary', {}, `${rest.length} more`),
        el('ul', { class: 'findings', 'aria-label': 'More that needs attention' }, rest.map((f) => line(f, ctx)))), unseen];
}
