// What users' payloads are typed as; and that index.js has what index.d.ts declares. Only tsc reads it.
import { type } from 'arktype';
import { drizzle } from 'drizzle-orm/node-postgres';
import { drizzle as drizzleJs } from 'drizzle-orm/postgres-js';
import { sql as drizzleSql } from 'drizzle-orm';
import amqplib from 'amqplib';
import knex from 'knex';
import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import type postgres from 'postgres';
import type * as declared from 'tenon-tasks';
import {
    batch,
    type CallbackPayload,
    cancel,
    closeBatch,
    type DeadTask,
    defineTask,
    enqueue,
    enqueueMany,
    flow,
    fromDrizzle,
    fromKnex,
    fromKysely,
    handle,
    Keys,
    Retry,
    result as resultOf,
    retry,
    setKeys,
    setLimit,
    setSchedule,
    signal as send,
    sync,
    Waiter,
    WakeUps,
    wait,
    watch,
} from 'tenon-tasks';
import type * as declaredTesting from 'tenon-tasks/testing';
import { run } from 'tenon-tasks/testing';
import * as v from 'valibot';
import { z } from 'zod';
import type * as built from '../../../clients/node/src/enqueue.js';
import type * as builtDatabases from '../../../clients/node/src/databases.js';
import type * as builtSecrets from '../../../clients/node/src/secrets.js';
import type * as builtWaits from '../../../clients/node/src/wait.js';
import type * as builtOutcomes from '../../../clients/node/src/outcomes.js';

type Equal<A, B> =
    (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const is = <T extends true>(_: T) => {};
type PayloadOf<T> = T extends declared.Task<any, infer Output> ? Output : never;
type GivenTo<T> = T extends declared.Task<infer Input, any> ? Input : never;

declare const client: pg.Client;
declare const pool: pg.PoolClient;
declare const postgresJs: postgres.Sql;

// --- payloads follow the schema ---
const zod = defineTask('a', z.object({ at: z.coerce.date(), n: z.number().default(1) }));
is<Equal<PayloadOf<typeof zod>, { at: Date; n: number }>>(true);
is<Equal<GivenTo<typeof zod>['n'], number | undefined>>(true);
const valibot = defineTask('b', v.object({ to: v.string() }), { queue: 'mail', delay: '5 min' });
is<Equal<PayloadOf<typeof valibot>, { to: string }>>(true);
const arktype = defineTask('c', type({ to: 'string', 'cc?': 'string' }));
is<Equal<PayloadOf<typeof arktype>, { to: string; cc?: string }>>(true);
const plain = defineTask<{ to: string }>('d');
is<Equal<PayloadOf<typeof plain>, { to: string }>>(true);
const empty = defineTask<{ all?: boolean }>('e');
const anything = defineTask('f');

// --- every way to the database ---
await enqueue(client, zod, { at: new Date() });
await enqueue(
    pool,
    valibot,
    { to: 'x' },
    { delay: { seconds: 5 }, priority: 9, wakeUps: new WakeUps() },
);
await enqueue(postgresJs, plain, { to: 'x' }, { runAt: new Date() });
await postgresJs.begin(async (tx) => enqueue(tx, plain, { to: 'x' }));
await enqueue(client, empty);
await enqueue(client, anything, [1, 'two', null]);
await knex({}).transaction(async (trx) => enqueue(fromKnex(trx), plain, { to: 'x' }));
const kysely = new Kysely<{ users: { mail: string } }>({
    dialect: new PostgresDialect({ pool: new pg.Pool() }),
});
await kysely
    .transaction()
    .execute(async (trx) => enqueue(fromKysely(trx, sql), plain, { to: 'x' }));
await drizzle(new pg.Pool()).transaction(async (tx) =>
    enqueue(fromDrizzle(tx, drizzleSql), plain, { to: 'x' }),
);
await drizzleJs(postgresJs).transaction(async (tx) =>
    enqueue(fromDrizzle(tx, drizzleSql), plain, { to: 'x' }),
);
const ids: string[] = await enqueueMany(client, plain, [{ to: 'x' }], { uniqueKeys: ['k', null] });
new WakeUps().publish(await (await amqplib.connect('')).createChannel());
new WakeUps().publish(await (await amqplib.connect('')).createConfirmChannel());

// --- waiting ---
const [ended] = await wait(client, ids, { timeout: '10 s' });
const state: string | null | undefined = ended?.state;
await wait(pool, [1, 2n, '3']);
await wait(postgresJs, ids);
const waiter = new Waiter(async () => new pg.Client());
await new Waiter(() => new pg.Client()).wait(17, { signal: AbortSignal.timeout(500) });
const { result } = await new Waiter(() => postgresJs).wait(17, { timeout: '500 ms' });
await waiter.close();

// --- what is done with tasks, flows, schedules and limits ---
const cancelled: boolean = await cancel(client, '17');
await retry(postgresJs, 17, { why: 'mended' });
await send(fromKnex(knex({})), 'payment:17', { amount: 30 });
const { state: now } = await resultOf(client, 17n);
is<Equal<typeof now, declared.TaskResult['state']>>(true);
const made: string = await flow(client, {
    tasks: [{ name: 'a', task: plain, payload: { to: 'x' } }],
    onDead: valibot,
});
await closeBatch(client, await batch(client, { onDone: plain, payload: { of: made } }));
await setSchedule(client, 'nightly', { cron: '0 3 * * *', task: zod, zone: 'Europe/Berlin' });
await setLimit(client, 'tenant', { maxStarts: 5, per: '1 min', whenDead: 'skip' });
const [change] = await sync(client, { tasks: [zod, plain], remove: { kinds: ['old'] } });
is<Equal<NonNullable<typeof change>['act'], 'added' | 'changed' | 'removed'>>(true);
for await (const { progress } of watch(pool, '17', { every: '2 s' })) {
    console.log(progress);
}
const onDead = defineTask<DeadTask<{ to: string }>>('tell_ops');
handle(onDead, ({ reason, payload, steps }) => {
    is<Equal<typeof reason, 'failures' | 'crashes' | 'handler' | 'timeout'>>(true);
    is<Equal<typeof payload, { to: string }>>(true);
    return Object.keys(steps ?? {});
});
defineTask<CallbackPayload<{ of: string }>>('report', null, { onDead, maxCrashes: 5 });
handle(plain, async (_, context) => {
    const [child] = await context.waitFor(ids, client);
    const [parent] = await context.parentResults(client);
    return [child?.state, parent?.name];
});

// --- handlers ---
const handler = handle(zod, async ({ at, n }, { id, signal, progress, finish }) => {
    is<Equal<typeof at, Date>>(true);
    is<Equal<typeof n, number>>(true);
    is<Equal<typeof id, string>>(true);
    await fetch('http://127.0.0.1/', { signal });
    progress({ n });
    await finish(client, { at });
    throw new Retry('later', { after: '30 s', cause: ids });
});
await run(handler, { at: new Date() }, { attempt: 2, steps: { a: 1 }, stopped: 'drain' });
handle(plain, async (_, context) => {
    const [one, two] = [await context.step('a', async () => 1), await context.step('b', () => 'x')];
    is<Equal<[typeof one, typeof two], [number, string]>>(true);
    await context.step('c', () => client.query(''), client);
    await context.sleep('night', '8 h');
    return await context.waitSignal('paid', '1 d');
});

// --- what JSON makes of it ---
type Tree = { at: Date; children?: Tree[] };
type Given = {
    at: Date;
    to: `${string}@${string}`;
    many: [Date, number | undefined];
    maybe?: Date;
    both: URL | undefined;
    buffer: Buffer;
    any: any;
    sure(): void;
    readonly nested: { big: bigint; map: Map<string, string> };
};
type Came = {
    at: string;
    to: `${string}@${string}`;
    many: [string, number | null];
    maybe?: string;
    both?: string;
    buffer: { type: 'Buffer'; data: number[] };
    any: any;
    readonly nested: { big: never; map: never };
};
is<Equal<declared.Jsonify<Given>, Came>>(true);
is<Equal<declared.Jsonify<declared.Json>, declared.Json>>(true);
is<Equal<declared.Jsonify<any>, any>>(true);
is<Equal<declared.Jsonify<Date | number | undefined>, string | number | null>>(true);
const leaf: string | undefined = ({} as declared.Jsonify<Tree>).children?.[0]?.children?.[0]?.at;
const dated = defineTask<{ at: Date; n: number }>('i');
is<Equal<PayloadOf<typeof dated>, { at: string; n: number }>>(true);
is<Equal<GivenTo<typeof dated>, { at: Date; n: number }>>(true);
is<Equal<PayloadOf<typeof anything>, declared.Json>>(true);
const onDated = handle(dated, async ({ at }, context) => {
    const [when, nothing] = [
        await context.step('d', () => new Date(at)),
        await context.step('e', () => {}),
    ];
    is<Equal<[typeof when, typeof nothing], [string, null]>>(true);
    return { at: new Date(when) };
});
const { result: ran } = await run(onDated, { at: new Date(), n: 1 });
is<Equal<typeof ran, { at: string } | undefined>>(true);
setKeys(new Keys({ a: Buffer.alloc(32) }));
defineTask('g', z.object({ card: z.string() }), { secret: 'all', queue: 'mail' });

// --- what is refused ---
// @ts-expect-error: no such key
await enqueue(client, plain, { from: 'x' });
// @ts-expect-error: a payload is needed
await enqueue(client, plain);
// @ts-expect-error: of another type
await enqueue(client, zod, { at: new Date(), n: 'one' });
// @ts-expect-error: no such option
await enqueue(client, plain, { to: 'x' }, { qeue: 'mail' });
// @ts-expect-error: no such unit
await enqueue(client, plain, { to: 'x' }, { delay: '5 weeks' });
// @ts-expect-error: one key for many
await enqueueMany(client, plain, [{ to: 'x' }], { uniqueKey: 'k' });
// @ts-expect-error: no such callback
await batch(client, { onDonne: plain });
// @ts-expect-error: no such option
await setSchedule(client, 'a', { cron: '* * * * *', task: plain, timezone: 'UTC' });
// @ts-expect-error: no connection
await enqueue('postgresql://', plain, { to: 'x' });
// @ts-expect-error: no connection that may listen
await wait(fromKnex(knex({})), ids);
// @ts-expect-error: no such option
await waiter.wait(1, { timeot: 5 });
// @ts-expect-error: neither payload nor all
defineTask('h', undefined, { secret: 'some' });
// @ts-expect-error: no such reason
await run(handler, { at: new Date() }, { stopped: 'tired' });

// --- what is built is what is declared ---
declare const databases: typeof builtDatabases;
declare const outcomes: typeof builtOutcomes;
declare const enqueues: typeof built;
declare const keys: builtSecrets.Keys;
const one: Pick<typeof declared, 'fromDrizzle' | 'fromKnex' | 'fromKysely' | 'fromPrisma'> =
    databases;
const two: Pick<
    typeof declared,
    'Dead' | 'Interrupted' | 'InvalidPayload' | 'Snooze' | 'Retry' | 'SecretError' | 'Stopped'
> = outcomes;
declare const waits: typeof builtWaits;
const five: Pick<typeof declared, 'wait'> = waits;
const six: declared.Waiter = new waits.Waiter(() => client);
const three: Pick<typeof declared, 'enqueueMany'> = enqueues;
const four: declared.Keys = keys;
export type { declaredTesting };
export { cancelled, five, four, leaf, one, result, six, state, three, two };
