// How many tasks were done, how many attempts failed, and how long tasks waited and ran in the last hours: drawn in SVG, and in a table.

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

const at = (r, step) => new Date(Date.parse(r.since) + step * r.step_s * 1000);

function clocks(r, height) {
    const marks = 6;
    return Array.from({ length: marks }, (_, i) => svg('text', { class: 'label', x: LEFT + i / marks * (WIDTH - LEFT), y: height - 6 }, time(r, at(r, i / marks * r.steps))));
}

function axes(r, most) {
    const parts = [];
    for (const part of [0, 0.5, 1]) {
        const y = HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
        parts.push(svg('line', { class: 'axis', x1: LEFT, x2: WIDTH, y1: y, y2: y }),
            svg('text', { class: 'label', x: LEFT - 6, y: y + 4, 'text-anchor': 'end' }, `${+(most * part).toPrecision(3)}/s`));
    }
    return [...parts, clocks(r, HEIGHT)];
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

// --- how long ---

const SHARES = { p50: 0.5, p95: 0.95 }, SHORT_S = 0.001, LONG_S = 7 * DAY_S, SPREAD_HEIGHT = 120;
const LABELS_S = { '10 ms': 0.01, '100 ms': 0.1, '1 s': 1, '10 s': 10, '1 min': 60, '10 min': 600, '1 h': 3600, '10 h': 36000, '2 d': 2 * DAY_S };

// The counts of these steps together.
function spreadOf(r, what, steps) {
    const sum = [];
    for (const i of steps) (r[what][i] ?? []).forEach((n, place) => { sum[place] = (sum[place] ?? 0) + n; });
    return sum;
}

// The bounds, in seconds, between which the time lies that this share did not exceed; null if nothing was counted.
function between(r, counts, share) {
    const n = counts.reduce((sum, one) => sum + one, 0);
    let seen = 0;
    const place = counts.findIndex((one) => (seen += one) >= n * share && n > 0);
    return place < 0 ? null : [r.up_to_s[place - 1] ?? 0, r.up_to_s[place] ?? Infinity];
}

const exact = (range) => (range === null ? '-' : range[0] === 0 ? `≤ ${took(range[1])}` : range[1] === Infinity ? `> ${took(range[0])}` : `${took(range[0])} to ${took(range[1])}`);

// On a logarithmic scale. A box reaches from the lower bound of a percentile to the upper one.
function spread(r, what, name) {
    const steps = Array.from({ length: r.steps }, (_, i) => spreadOf(r, what, [i]));
    const boxes = steps.flatMap((counts, i) => Object.entries(SHARES).map(([word, share]) => ({ i, word, range: between(r, counts, share) }))).filter((b) => b.range);
    if (boxes.length === 0) return false;
    const low = Math.max(SHORT_S, Math.min(...boxes.map((b) => b.range[0]))), high = Math.min(LONG_S, Math.max(...boxes.map((b) => b.range[1])));
    const y = (s) => SPREAD_HEIGHT - BOTTOM - Math.log(Math.min(high, Math.max(low, s)) / low) / Math.log(high / low) * (SPREAD_HEIGHT - TOP - BOTTOM);
    const width = (WIDTH - LEFT) / r.steps;
    const box = (b) => svg('rect', { class: b.word, x: (LEFT + b.i * width).toFixed(1), y: y(b.range[1]).toFixed(1), width: Math.max(1, width - 1).toFixed(1),
        height: Math.max(2, y(b.range[0]) - y(b.range[1])).toFixed(1) },
    svg('title', {}, `${time(r, at(r, b.i))}: ${name} ${b.word} ${exact(b.range)}`));
    return svg('svg', { viewBox: `0 0 ${WIDTH} ${SPREAD_HEIGHT}`, class: 'graph spread', role: 'img', 'aria-label': `${name}: p50 and p95 of each step; the table has them too` },
        Object.entries(LABELS_S).filter(([, s]) => s >= low && s <= high).map(([text, s]) => [svg('line', { class: 'axis', x1: LEFT, x2: WIDTH, y1: y(s), y2: y(s) }),
            svg('text', { class: 'label', x: LEFT - 6, y: y(s) + 4, 'text-anchor': 'end' }, text)]),
        svg('text', { class: 'label', x: LEFT, y: TOP - 5 }, name), boxes.map(box), clocks(r, SPREAD_HEIGHT));
}

function byTime(r) {
    const parts = 6, per = Math.round(r.steps / parts), rows = [];
    for (let first = 0; first < r.steps; first += per) {
        const steps = Array.from({ length: per }, (_, i) => first + i);
        const sum = (what) => steps.reduce((n, i) => n + (r[what][i] ?? 0), 0);
        const times = (what, share) => exact(between(r, spreadOf(r, what, steps), share));
        rows.push({ from: time(r, at(r, first)), started: sum('started'), done: sum('done'), failed: sum('failed'), dead: sum('dead'),
            wait50: times('waits', 0.5), wait95: times('waits', 0.95), run50: times('runs', 0.5), run95: times('runs', 0.95) });
    }
    const number = (head, key) => ({ head, class: 'n', cell: (h) => count(h[key]) }), text = (head, key) => ({ head, class: 'n', cell: (h) => h[key] });
    return table('By the time', [{ head: 'From', cell: (h) => h.from }, number('Started', 'started'), number('Done', 'done'),
        number('Attempts failed', 'failed'), number('Died', 'dead'), text('Wait p50', 'wait50'), text('Wait p95', 'wait95'),
        text('Run p50', 'run50'), text('Run p95', 'run95')], rows);
}

// `choice`: what chooses what it is about.
export function graph(r, choice) {
    WIDTH = innerWidth < 736 ? 420 : 1200;
    const seconds = (i) => (i === r.steps - 1 ? Math.max(60, r.now_s) : r.step_s); // the last step has only begun
    const series = (what) => Array.from({ length: r.steps }, (_, i) => (r[what][i] ?? 0) / seconds(i));
    const waits = spread(r, 'waits', 'Wait'), runs = spread(r, 'runs', 'Run time');
    const done = series('done'), failed = series('failed');
    const most = round(Math.max(1 / r.step_s, ...done, ...failed));
    return el('section', { 'aria-labelledby': 'graph-title', 'data-key': 'graph' },
        el('h2', { id: 'graph-title' }, 'The last hours'),
        choice,
        el('p', { class: 'dim key-line' }, el('span', { class: 'key done' }), ' done ', el('span', { class: 'key failed' }), ' attempts failed ',
            r.workers.length > 0 && '▾ a worker started ', r.releases.length > 0 && '┃ a release first ran'),
        svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: 'graph', role: 'img', 'aria-label': 'Tasks done and attempts failed per second' },
            axes(r, most), bars(done, most, r.steps, 'done'), bars(failed, most, r.steps, 'failed'), starts(r), releases(r)),
        (waits || runs) && el('p', { class: 'dim key-line', 'data-key': 'spread-key' }, el('span', { class: 'key p50' }), ' p50 ', el('span', { class: 'key p95' }),
            ' p95: half of the tasks, or 95 %, took at most this long. The exact value is somewhere in the box.'),
        waits, runs,
        el('details', { 'data-key': 'graph-table' }, el('summary', {}, 'As a table'), byTime(r)));
}
