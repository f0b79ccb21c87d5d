// How many tasks were done and how many attempts failed in the last hours, drawn in SVG; with the waiting times, also in a table.

import { count, el, span, table } from './dom.js';

const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const WIDTH = 720, HEIGHT = 200, LEFT = 52, BOTTOM = 22, TOP = 8;

function svg(tag, properties, ...children) {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(properties)) node.setAttribute(name, String(value));
    node.append(...children);
    return node;
}

// The next of 1, 2, 5, 10, 20 ... above.
function round(n) {
    const power = 10 ** Math.floor(Math.log10(Math.max(n, 1e-9)));
    return [1, 2, 5, 10].find((m) => m * power >= n) * power;
}

function bars(values, most, steps, className) {
    const width = (WIDTH - LEFT) / steps;
    return values.map((v, i) => {
        const height = v / most * (HEIGHT - TOP - BOTTOM);
        return svg('rect', { class: className, x: (LEFT + i * width).toFixed(1), y: (HEIGHT - BOTTOM - height).toFixed(1),
            width: Math.max(1, width - 1).toFixed(1), height: height.toFixed(1) });
    });
}

function axes(r, most) {
    const parts = [];
    for (const part of [0, 0.5, 1]) {
        const y = HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
        parts.push(svg('line', { class: 'axis', x1: LEFT, x2: WIDTH, y1: y, y2: y }),
            svg('text', { class: 'label', x: LEFT - 6, y: y + 4, 'text-anchor': 'end' }, `${+(most * part).toPrecision(3)}/s`));
    }
    const hours = Math.round(r.steps * r.step_s / 3600);
    for (let h = 0; h < hours; h++) {
        const at = new Date(Date.parse(r.since) + h * 3600000);
        parts.push(svg('text', { class: 'label', x: LEFT + h / hours * (WIDTH - LEFT), y: HEIGHT - 6 },
            at.toLocaleTimeString([], CLOCK)));
    }
    return parts;
}

function byHour(r) {
    const perHour = Math.round(3600 / r.step_s), rows = [];
    for (let first = 0; first < r.steps; first += perHour) {
        const steps = Array.from({ length: perHour }, (_, i) => first + i);
        const sum = (what) => steps.reduce((n, i) => n + (r[what][i] ?? 0), 0);
        const started = sum('started'), waited_s = steps.reduce((n, i) => n + (r.wait_s[i] ?? 0) * (r.started[i] ?? 0), 0);
        rows.push({ from: new Date(Date.parse(r.since) + first * r.step_s * 1000).toLocaleTimeString([], CLOCK),
            started, done: sum('done'), failed: sum('failed'), dead: sum('dead'), wait: started ? span(waited_s / started) : '-' });
    }
    const number = (head, key) => ({ head, class: 'n', cell: (h) => count(h[key]) });
    return table('By the hour', [{ head: 'From', cell: (h) => h.from }, number('Started', 'started'), number('Done', 'done'),
        number('Attempts failed', 'failed'), number('Died', 'dead'), { head: 'Mean wait', class: 'n', cell: (h) => h.wait }], rows);
}

// `choice`: what chooses the queue that it is about.
export function graph(r, choice) {
    const series = (what) => Array.from({ length: r.steps }, (_, i) => (r[what][i] ?? 0) / r.step_s);
    const done = series('done'), failed = series('failed');
    const most = round(Math.max(1 / r.step_s, ...done, ...failed));
    return el('section', { 'aria-labelledby': 'graph-title' },
        el('h2', { id: 'graph-title' }, 'The last hours'),
        choice,
        el('p', { class: 'dim' }, el('span', { class: 'key done' }), ' done ', el('span', { class: 'key failed' }), ' attempts failed'),
        svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: 'graph', role: 'img', 'aria-label': 'Tasks done and attempts failed per second' },
            ...axes(r, most), ...bars(done, most, r.steps, 'done'), ...bars(failed, most, r.steps, 'failed')),
        el('details', {}, el('summary', {}, 'As a table'), byHour(r)));
}
