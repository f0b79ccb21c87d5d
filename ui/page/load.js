// The last hour by queue and kind, and how queues grow: shared by the overview and the kinds.

import { get } from './api.js';

const LOAD_EVERY_MS = 10000, TREND_OVER_MS = 120000, TREND_AFTER_MS = 8000;

let load = null, readAt = -Infinity;
const trends = new Map(); // by queue: readings [at_ms, ready], the oldest first

export async function readLoad() {
    if (performance.now() - readAt >= LOAD_EVERY_MS) {
        load = await get('load');
        readAt = performance.now();
    }
    return load;
}

const NOTHING = { started: {}, ended: {}, done: {}, failed: {}, dead: {}, n: 0, wait_s: null, run_s: null };

export const loadOf = (answer, what, name) => answer?.load.find((l) => l.what === what && l.name === name) ?? NOTHING;

export const series = (answer, steps) => Array.from({ length: answer?.steps ?? 60 }, (_, i) => steps[i] ?? 0);

// A second's mean over this minute and the one before it.
export function rate(answer, steps) {
    if (!answer) return null;
    const last = answer.steps - 1;
    return ((steps[last] ?? 0) + (steps[last - 1] ?? 0)) / (60 + answer.now_s);
}

// How many were done, and failed, in the last hour.
export const total = (steps) => Object.values(steps).reduce((sum, n) => sum + n, 0);

// Note what a queue has now; by how many a second it grows, or null while that is not known. A lower bound tells nothing.
export function growth(q) {
    const at = q.counted_at ? Date.parse(q.counted_at) : Date.now();
    if (q.at_least) {
        trends.delete(q.queue);
        return null;
    }
    const known = trends.get(q.queue) ?? [];
    if (known.length === 0 || at > known[known.length - 1][0]) known.push([at, q.ready]);
    while (known.length > 2 && at - known[1][0] >= TREND_OVER_MS) known.shift();
    trends.set(q.queue, known);
    const [first, last] = [known[0], known[known.length - 1]], ms = last[0] - first[0];
    return ms < TREND_AFTER_MS ? null : (last[1] - first[1]) * 1000 / ms;
}
