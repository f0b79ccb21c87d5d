// How many tasks were done and how many attempts failed in the last hours, drawn in SVG; with the waiting and run times, also in a table.

import { el, svg, table } from './dom.js';
import { count, took } from './format.js';

const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }, DAY_S = 86400;
let WIDTH = 1200; // less on a phone, where texts would be tiny
const HEIGHT = 190, LEFT = 46, BOTTOM = 22, TOP = 16;

// With the day of the week, if it shows more than a day.
const time = (r, at) => at.toLocaleTimeString([], r.steps * r.step_s > DAY_S ? { ...CLOCK, weekday: 'short' } : CLOCK);

// The next of 1, 2, 5, 10, 20 ... above.
function round(n) {
    const power = 10 ** Math.floor(Math.log10(Math.max(n, 1e-9)));
    return [1, 2, 5, 10].find((m) => m * power >= n) * power;
}

function bars(values, most, steps, className) {
    const width = (WIDTH - LEFT) / steps;
    return values.map((v, i) => {
        const height = v / most * (HEIGHT - TOP - BOTTOM);
        return v > 0 && svg('rect', { class: className, x: (LEFT + i * width).toFixed(1), y: (HEIGHT - BOTTOM - height).toFixed(1),
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
    const marks = 6, length_s = r.steps * r.step_s;
    for (let i = 0; i < marks; i++) {
        const at = new Date(Date.parse(r.since) + i / marks * length_s * 1000);
        parts.push(svg('text', { class: 'label', x: LEFT + i / marks * (WIDTH - LEFT), y: HEIGHT - 6 }, time(r, at)));
    }
    return parts;
}

// Where workers started: what failed from there on may be new code's.
function starts(r) {
    const length_ms = r.steps * r.step_s * 1000, since = Date.parse(r.since);
    return r.workers.map((w) => {
        const x = (LEFT + (Date.parse(w.at) - since) / length_ms * (WIDTH - LEFT)).toFixed(1);
        return svg('g', { class: 'start' }, svg('title', {}, `${time(r, new Date(w.at))}: a worker started on ${w.host}, pid ${w.pid}`),
            svg('line', { x1: x, x2: x, y1: TOP - 4, y2: HEIGHT - BOTTOM }), svg('path', { d: `M${x - 4} ${TOP - 12}h8l-4 8z` }));
    });
}

// Where a release first ran, with its name.
function releases(r) {
    const length_ms = r.steps * r.step_s * 1000, since = Date.parse(r.since);
    return r.releases.map((d) => {
        const x = LEFT + (Date.parse(d.at) - since) / length_ms * (WIDTH - LEFT), right = x > WIDTH * 0.8;
        return svg('g', { class: 'release' }, svg('title', {}, `${time(r, new Date(d.at))}: ${d.release ?? ''} (tenon ${d.version}) first ran`),
            svg('line', { x1: x.toFixed(1), x2: x.toFixed(1), y1: TOP - 8, y2: HEIGHT - BOTTOM }),
            svg('text', { class: 'label', x: (right ? x - 5 : x + 5).toFixed(1), y: TOP, 'text-anchor': right ? 'end' : 'start' }, (d.release ?? `tenon ${d.version}`).slice(0, 16)));
    });
}

function byTime(r) {
    const parts = 6, per = Math.round(r.steps / parts), rows = [];
    for (let first = 0; first < r.steps; first += per) {
        const steps = Array.from({ length: per }, (_, i) => first + i);
        const sum = (what) => steps.reduce((n, i) => n + (r[what][i] ?? 0), 0);
        const mean = (what, by) => (sum(by) ? took(steps.reduce((n, i) => n + (r[what][i] ?? 0) * (r[by][i] ?? 0), 0) / sum(by)) : '-');
        rows.push({ from: time(r, new Date(Date.parse(r.since) + first * r.step_s * 1000)),
            started: sum('started'), done: sum('done'), failed: sum('failed'), dead: sum('dead'), wait: mean('wait_s', 'started'), run: mean('run_s', 'done') });
    }
    const number = (head, key) => ({ head, class: 'n', cell: (h) => count(h[key]) });
    return table('By the time', [{ head: 'From', cell: (h) => h.from }, number('Started', 'started'), number('Done', 'done'),
        number('Attempts failed', 'failed'), number('Died', 'dead'), { head: 'Mean wait', class: 'n', cell: (h) => h.wait },
        { head: 'Mean run', class: 'n', cell: (h) => h.run }], rows);
}

// `choice`: what chooses what it is about.
export function graph(r, choice) {
    WIDTH = innerWidth < 736 ? 420 : 1200;
    const series = (what) => Array.from({ length: r.steps }, (_, i) => (r[what][i] ?? 0) / r.step_s);
    const done = series('done'), failed = series('failed');
    const most = round(Math.max(1 / r.step_s, ...done, ...failed));
    return el('section', { 'aria-labelledby': 'graph-title', 'data-key': 'graph' },
        el('h2', { id: 'graph-title' }, 'The last hours'),
        choice,
        el('p', { class: 'dim key-line' }, el('span', { class: 'key done' }), ' done ', el('span', { class: 'key failed' }), ' attempts failed ',
            r.workers.length > 0 && '▾ a worker started ', r.releases.length > 0 && '┃ a release first ran'),
        svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: 'graph', role: 'img', 'aria-label': 'Tasks done and attempts failed per second' },
            axes(r, most), bars(done, most, r.steps, 'done'), bars(failed, most, r.steps, 'failed'), starts(r), releases(r)),
        el('details', { 'data-key': 'graph-table' }, el('summary', {}, 'As a table'), byTime(r)));
}
