// The handlers of clients/conformance.
import { Dead, defineTask, handle, Interrupted, Retry, Snooze } from 'tenon-tasks';
import { z } from 'zod';

const on = (name, run, schema) => handle(defineTask(`conformance.${name}`, schema), run);
const after = (ms) => (ms === undefined ? {} : { after: { milliseconds: ms } });

export default [
    on('echo', (payload) => payload),
    on('nothing', () => {}),
    on('about', (_, { id, kind, queue, attempt, failures, maxAttempts, ...context }) => ({
        id,
        kind,
        queue,
        attempt,
        failures,
        max_attempts: maxAttempts,
        claim: context.claim,
        trace: context.trace,
        progress: context.checkpoint,
    })),
    on('fail', ({ message, times = 1 }) => {
        throw new Error(message.repeat(times));
    }),
    on('retry', ({ ms, message }) => {
        throw new Retry(message, after(ms));
    }),
    on('snooze', ({ ms }) => {
        throw new Snooze('', after(ms));
    }),
    on('dead', ({ message }) => {
        throw new Dead(message);
    }),
    on('interrupt', () => {
        throw new Interrupted();
    }),
    on('typed', ({ n }) => n + 1, z.object({ n: z.number().int() })),
    on('no_json', () => 1n),
    on('large', ({ bytes }) => 'x'.repeat(bytes)),
    on('print', ({ text }) => {
        console.log(text);
        return 'printed';
    }),
    on('log', ({ message }, { log }) => {
        log.warning(message, { logger: 'shop' });
        return 'logged';
    }),
    on('progress', (_, context) => context.progress({ done: (context.checkpoint?.done ?? 0) + 1 })),
    on('extend', ({ ms }, context) => context.extend({ milliseconds: ms })),
    on('steps', async (_, context) => {
        const one = await context.step('one', () => 1);
        const two = await context.step('two', () => ({ n: one + 1 }));
        return one + two.n;
    }),
    on('wait', async ({ signal, ms }, context) => ({
        came: await context.waitSignal(signal, { milliseconds: ms }),
    })),
    on('slow', async (_, { signal }) => {
        if (!signal.aborted) {
            await new Promise((resolve) => signal.addEventListener('abort', resolve));
        }
        throw new Interrupted();
    }),
    on('sleep', async ({ ms }) => {
        await new Promise((resolve) => setTimeout(resolve, ms));
        return 'slept';
    }),
];
