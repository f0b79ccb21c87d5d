// What changes tasks: first how many and which, then a question, then piece by piece, until all are done or it is stopped.

import { post } from './api.js';
import { el, button } from './dom.js';
import { count } from './format.js';

export const acts = {
    retry: { label: 'Retry', done: 'retried', states: ['dead', 'cancelled', 'expired'] },
    undo: { label: 'Undo the retry', done: 'made dead again', states: ['ready', 'scheduled', 'blocked'] }, // of those that no worker has claimed
    run_now: { label: 'Run now', done: 'made ready', states: ['scheduled', 'retrying'] },
    cancel: { label: 'Cancel', done: 'cancelled', states: ['scheduled', 'ready', 'running', 'retrying', 'blocked'] },
    set: { label: 'Set priority', done: 'changed', states: ['scheduled', 'ready', 'retrying'] },
    delete: { label: 'Delete', done: 'deleted', states: ['dead', 'done', 'cancelled', 'expired'] },
};

const RATED = ['retry', 'run_now']; // what makes tasks ready, which a service that is just back may not bear all at once

const COUNTED_MAX = 100000;  // from there on "at least" will do
const SHOWN_AFTER_MS = 300; // a count that takes no longer is not shown

const tasks = (n, atLeast) => `${atLeast ? 'at least ' : ''}${count(n)} ${n === 1 ? 'task' : 'tasks'}`;

export const fits = (act, state) => !state || acts[act].states.includes(state);

function open(title, ...content) {
    const dialog = document.getElementById('dialog');
    dialog.replaceChildren(el('h2', { id: 'dialog-title' }, title), ...content.filter(Boolean));
    if (!dialog.open) dialog.showModal();
    return dialog;
}

function close(dialog) {
    if (dialog) {
        dialog.onclose = null;
        dialog.close();
    }
}

// The event that an earlier close sent may arrive when the dialog is open again.
function whenClosed(dialog, what) {
    dialog.onclose = () => { if (!dialog.open) what(); };
}

// Asks a question with fields. `send(values, question)` does what was asked for and returns a sentence that says so. If it is refused, the
// question stays open, with what was typed and the reason. Resolves to the sentence, or to null if the user closes the dialog first.
function ask(title, content, yes, fields, send) {
    return new Promise((resolve, reject) => {
        const refused = el('p', { class: 'red', role: 'alert' });
        const form = el('form', {}, content, fields, refused,
            el('p', { class: 'answers' }, button('No', () => dialog.close()), el('button', { class: 'yes' }, yes)));
        const dialog = open(title, form), shown = [...dialog.children], question = { closed: false };
        let sends = false;
        whenClosed(dialog, () => {
            question.closed = true;
            if (!sends) resolve(null);
        });
        form.onsubmit = async (event) => {
            event.preventDefault();
            if (sends) return;
            const focused = document.activeElement;
            sends = true;
            refused.textContent = '';
            try {
                const done = await send(Object.fromEntries(new FormData(form)), question);
                if (!question.closed) close(dialog);
                resolve(done);
            } catch (error) {
                if (question.closed || !dialog.open) reject(error);
                refused.textContent = error.message;
                if (!form.isConnected && !question.closed) {
                    dialog.replaceChildren(...shown);
                    focused.focus();
                }
            }
            sends = false;
        };
    });
}

// Asks, says what was done, and reads the view again.
export async function question(ctx, title, content, yes, fields, send) {
    try {
        const done = await ask(title, content, yes, fields, send);
        if (done === null) return;
        ctx.say(done);
    } catch (error) {
        ctx.say(error.message);
    }
    await ctx.reload();
}

export const whyField = () => el('p', {}, el('label', { for: 'why' }, 'Why (for the audit)'),
    el('input', { id: 'why', name: 'why', maxlength: 500 }));

const rateField = () => el('p', {}, el('label', { for: 'rate' }, 'Tasks per second (empty: no maximum)'),
    el('input', { id: 'rate', name: 'rate', type: 'number', min: 1, max: 10000, autocomplete: 'off' }));

const priorityField = () => el('p', {}, el('label', { for: 'priority' }, 'Priority, 0 to 9; higher runs first'),
    el('input', { id: 'priority', name: 'priority', type: 'number', min: 0, max: 9, value: 4, required: true }));

function examples(preview) {
    return preview.examples.length > 0 && el('ul', {}, preview.examples.map((e) => el('li', {},
        `${e.id}: ${e.state} ${e.kind} in ${e.queue}${e.error ? `, ${e.error}` : ''}`)));
}

// How many tasks it would change, and the first of them: counted piece by piece, until the user stops the count; null
// if the user closes the dialog. If that takes long, the dialog is open afterwards, for the question.
async function countPieces(name, filter) {
    const begun = performance.now(), text = el('p', { role: 'status' });
    let n = 0, enough = false, gaveUp = false, found = [], piece = { next: null }, dialog = null;
    try {
        do {
            piece = await post('preview', { act: name, filter, cursor: piece.next });
            n += piece.n;
            found = found.concat(piece.examples).slice(0, 3);
            if (!dialog && piece.next !== null && performance.now() - begun > SHOWN_AFTER_MS) {
                dialog = open(`${acts[name].label}: counting`, text,
                    el('p', { class: 'answers' }, button('Stop counting', () => { enough = true; })));
                whenClosed(dialog, () => { gaveUp = true; });
            }
            text.textContent = `${tasks(n, true)} so far`;
        } while (piece.next !== null && n < COUNTED_MAX && !enough && !gaveUp);
    } catch (error) {
        close(dialog);
        throw error;
    }
    return gaveUp ? null : { n, at_least: piece.next !== null, examples: found };
}

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// With a rate a piece is what one second allows; without, it is as large as the server makes it.
async function nextPiece(request, piece, rate) {
    if (!rate) return post('act', { ...request, cursor: piece.next, audit: piece.audit });
    const begun = performance.now();
    const found = await post('act', { ...request, cursor: piece.next, audit: piece.audit, most: rate });
    if (found.next !== null) await pause(Math.max(0, 1000 - (performance.now() - begun)));
    return found;
}

async function runPieces(act, request, preview, rate, question) {
    let n = 0, skipped = 0, stopped = false, piece = { next: null, audit: null };
    const bar = el('progress', { max: Math.max(1, preview.n), 'aria-label': 'Progress' });
    const text = el('p', { role: 'status' });
    open(`${act.label}: ${tasks(preview.n, preview.at_least)}`, bar, text,
        el('p', { class: 'answers' }, button('Stop', () => { stopped = true; })));
    do {
        try {
            piece = await nextPiece(request, piece, rate);
        } catch (error) {
            throw n > 0 ? new Error(`${tasks(n)} ${act.done}, then it failed: ${error.message}`) : error;
        }
        n += piece.n;
        skipped += piece.skipped;
        bar.value = n + skipped;
        text.textContent = `${count(n)} ${act.done}`;
    } while (piece.next !== null && !stopped && !question.closed);
    return `${tasks(n)} ${act.done}${skipped ? `, ${count(skipped)} unchanged: locked, or their unique key is taken` : ''}` +
        `${piece.next !== null ? '; stopped before the end' : ''}.`;
}

// Ask, and do it. The sentence that tells what was done, or null when it was not.
export async function perform(name, filter) {
    const act = acts[name];
    const shown = await countPieces(name, filter);
    if (!shown) {
        return null;
    }
    if (shown.n === 0 && !shown.at_least) {
        close(document.getElementById('dialog'));
        return `No task here can be ${act.done}.`;
    }
    return ask(`${act.label}: ${tasks(shown.n, shown.at_least)}?`, examples(shown),
        `${act.label}: ${tasks(shown.n, shown.at_least)}`,
        [name === 'set' && priorityField(), RATED.includes(name) && (shown.n > 1 || shown.at_least) && rateField(), whyField()].filter(Boolean),
        (answer, question) => runPieces(act, { act: name, filter, changes: name === 'set' ? { priority: Number(answer.priority) } : null, why: answer.why || null },
            shown, Number(answer.rate) || null, question));
}

// A button for an act of these tasks.
export function actButton(ctx, name, filter, properties = {}) {
    return button(properties.text ?? acts[name].label, async () => {
        try {
            const which = filter(), done = await perform(name, which);
            if (done) ctx.say(done);
            if (done) properties.done?.(which);
        } catch (error) {
            ctx.say(error.message);
        }
        await ctx.reload();
    }, { 'data-key': `${name}-${properties.key ?? ''}`, 'aria-label': properties.label });
}
