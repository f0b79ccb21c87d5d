// Small parts that several views show.

import { el, svg } from './dom.js';
import { ago, dayClock } from './format.js';

// "3 min ago"; the title has the moment itself.
export function moment(text) {
    if (!text) return '';
    const at = new Date(text);
    return Number.isNaN(at.getTime()) ? text
        : el('time', { datetime: text, title: `${dayClock(at)} (${at.toISOString()})` }, ago(text));
}

// The moment itself, and how long ago that is.
export function exactly(text) {
    const at = new Date(text);
    return Number.isNaN(at.getTime()) ? text : el('time', { datetime: text, title: at.toISOString() }, `${dayClock(at)} `,
        el('small', {}, `(${ago(text)})`));
}

// A state has a sign as well as a colour.
const SIGNS = { dead: '✕', retrying: '↻', running: '▶', done: '✓', ready: '●', scheduled: '◷', blocked: '‖', cancelled: '⊘', expired: '⊗',
    paused: '‖', active: '✓', alive: '✓', draining: '◷', left: '⊘', open: '○', ended: '✓', waiting: '●', error: '✕', warning: '▲' };

export const state = (word, text = word) => el('span', { class: `state ${word}` },
    SIGNS[word] && el('span', { class: 'sign', 'aria-hidden': 'true' }, SIGNS[word]), text);

// A line of small bars. `failed` is drawn above `done`, in another colour and with its own sign: a line beneath.
export function spark(done, failed, label) {
    if (!done.some(Boolean) && !failed.some(Boolean)) return el('span', { class: 'dim' }, '-');
    const most = Math.max(1, ...done.map((n, i) => n + failed[i])), height = 18;
    const bars = done.flatMap((n, i) => {
        const whole = Math.round((n + failed[i]) / most * height * 10) / 10, bad = Math.round(failed[i] / most * height * 10) / 10;
        return [whole - bad > 0 && svg('rect', { class: 'done', x: i * 2, y: height - whole + bad, width: 1.6, height: whole - bad }),
            bad > 0 && svg('rect', { class: 'failed', x: i * 2, y: height - whole, width: 1.6, height: Math.max(1, bad) }),
            bad > 0 && svg('rect', { class: 'failed', x: i * 2, y: height + 1, width: 1.6, height: 1.5 })];
    });
    return svg('svg', { class: 'spark', viewBox: `0 0 ${done.length * 2} ${height + 3}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label }, bars);
}

// How much of a whole is used.
export function gauge(part, whole, label) {
    const full = whole > 0 ? Math.min(1, part / whole) : 0;
    return svg('svg', { class: `gauge${full >= 1 ? ' full' : ''}`, viewBox: '0 0 40 6', preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
        svg('rect', { class: 'back', width: 40, height: 6 }), svg('rect', { class: 'part', width: (40 * full).toFixed(1), height: 6 }));
}

// A button that copies a text.
export function copy(text, what, label = `Copy ${what}`) {
    return el('button', { type: 'button', class: 'copy', 'data-key': `copy-${what}`, 'data-own': true, 'aria-label': `Copy ${what}`, onclick: async (event) => {
        const node = event.currentTarget;
        try {
            await navigator.clipboard.writeText(text());
            node.textContent = 'Copied';
        } catch {
            node.textContent = 'Not allowed';
        }
        setTimeout(() => { node.textContent = label; }, 1500);
    } }, label);
}
