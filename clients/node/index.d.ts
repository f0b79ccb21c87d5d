// The public types of the package tenon, and its reference: index.js has what is declared here and in acts.d.ts.
import type { ParentResult } from './acts.js';

export * from './acts.js';

/** What JSON can be. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/**
 * The type of a value after JSON.stringify() and JSON.parse(): a Date becomes a string, a value with toJSON() becomes what
 * that returns. A key whose value is undefined or a function is omitted; elsewhere undefined becomes null. `never`: the value
 * cannot be JSON, and throws.
 */
export type Jsonify<T> = 0 extends 1 & T
    ? any
    : unknown extends T
      ? unknown
      : T extends Json
        ? T
        : undefined extends T
          ? null
          : T extends { toJSON(...args: any[]): infer Made }
            ? Jsonify<Made>
            : T extends bigint | symbol | AnyFunction | ReadonlyMap<any, any> | ReadonlySet<any>
              ? never
              : T extends readonly unknown[]
                ? { [I in keyof T]: Jsonify<T[I]> }
                : T extends object
                  ? JsonifyObject<T>
                  : never;
type AnyFunction = (...args: any[]) => unknown;
type JsonifyObject<T> = Flat<
    { [K in keyof T as JsonKey<T, K, false>]: Jsonify<T[K]> } & {
        [K in keyof T as JsonKey<T, K, true>]?: Jsonify<Exclude<T[K], undefined>>;
    }
>;
type JsonKey<T, K extends keyof T, Optional> = K extends symbol
    ? never
    : 0 extends 1 & T[K]
      ? Optional extends false
          ? K
          : never
      : Exclude<T[K], undefined> extends AnyFunction
        ? never
        : (undefined extends T[K] ? true : false) extends Optional
          ? K
          : never;
type Flat<T> = { [K in keyof T]: T[K] };

/** A length of time: a text such as '30 s', '5 min', '2 h', '1 d', or an object such as { minutes: 5 }. */
export type Duration =
    | `${number} ${'ms' | 's' | 'min' | 'h' | 'd'}`
    | { milliseconds?: number; seconds?: number; minutes?: number; hours?: number; days?: number };

/** The part of Standard Schema (https://standardschema.dev) that is used: zod, valibot, arktype ... have it. */
export interface StandardSchema<Input = unknown, Output = Input> {
    readonly '~standard': {
        readonly version: 1;
        readonly vendor: string;
        readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
        readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    };
}
export type SchemaResult<Output> =
    | { readonly value: Output; readonly issues?: undefined }
    | { readonly issues: ReadonlyArray<SchemaIssue> };
export interface SchemaIssue {
    readonly message: string;
    readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}
type AnySchema = StandardSchema<unknown, unknown>;
type InputOf<S extends AnySchema> = NonNullable<S['~standard']['types']>['input'];
type OutputOf<S extends AnySchema> = NonNullable<S['~standard']['types']>['output'];

// --- tasks ---------------------------------------------------------------------------------------

/** A kind of task: its name, what its payloads are, and what its tasks are enqueued with. */
export interface Task<Input = unknown, Output = Input> {
    readonly kind: string;
    readonly schema: StandardSchema<Input, Output> | undefined;
    readonly defaults: EnqueueOptions;
    readonly ofKind: KindOptions;
    readonly secret: Secret | undefined;
}

/** What of a task is encrypted, with the keys of setKeys: its payload; or also results, progress and steps. */
export type Secret = 'payload' | 'all';

/**
 * Defines a task. Producers and handlers share it.
 *
 * With a schema, a payload that does not fit is refused when it is enqueued, in the form that it has after JSON; the
 * payload is stored as it was given, and the handler gets what the schema makes of it. Without one, give the type:
 * `defineTask<{ to: string }>('welcome_mail')`; the handler then gets it as JSON makes it: a Date arrives as a string.
 *
 * @param kind 1 to 100 of `A-Z a-z 0-9 _ . : -`
 * @param defaults options of all its tasks, which `enqueue` may overrule; and `secret`
 */
export function defineTask<S extends AnySchema>(
    kind: string,
    schema: S,
    defaults?: TaskOptions,
): Task<InputOf<S>, OutputOf<S>>;
export function defineTask<Payload = Json>(
    kind: string,
    schema?: undefined | null,
    defaults?: TaskOptions,
): Task<Payload, Jsonify<Payload>>;

/** What runs the tasks of a kind; `tenon-node` looks for them among the exports of a module. */
export interface Handler<Input = unknown, Output = Input, Result = unknown> {
    readonly task: Task<Input, Output>;
    readonly run: (payload: Output, context: Context) => Result;
}

/**
 * Defines how the tasks of a kind are run. The function may be async; its return value is the result, in JSON.
 * An exception is a failed attempt, which is retried; throw Retry, Snooze or Dead for other outcomes.
 */
export function handle<Input, Output, Result>(
    task: Task<Input, Output>,
    run: (payload: Output, context: Context) => Result,
): Handler<Input, Output, Result>;

/** What runs around each handler of this process. It returns what `next` returns, and throws what that throws. */
export type Middleware = (context: Context, next: () => Promise<unknown>) => unknown;
/**
 * Adds a middleware; the first one is the outermost. Call it in a module that `tenon-node` imports.
 *
 * @returns removes it again
 */
export function use(middleware: Middleware): () => void;

// --- enqueue -------------------------------------------------------------------------------------

/**
 * Your own connection, in your own transaction: a Client, or a client of a Pool, of node-postgres; the `sql` of
 * postgres.js, or of its `sql.begin(...)`; or what fromPrisma, fromDrizzle, fromKysely and fromKnex make of theirs.
 */
export type Database = Queryable | PostgresJs;
export interface Queryable {
    query(text: string, params: (string | null)[]): PromiseLike<{ rows: unknown[] } | unknown[]>;
}
export interface PostgresJs {
    unsafe(text: string, params: any[]): PromiseLike<readonly unknown[]>;
}

/** The arguments of tenon.enqueue (docs/sql.md has them in full). What is undefined is left out. */
export interface EnqueueOptions {
    /** Where it waits; default: the queue of its kind, else `default`. */
    queue?: string | undefined;
    /** 0 to 9, higher first. */
    priority?: number | undefined;
    /** Start at this time or later. */
    runAt?: Date | undefined;
    /** Start after this time has passed. */
    delay?: Duration | undefined;
    /** If a task of the kind waits with this key, its id is returned and no task is added; after a running one, another follows. */
    uniqueKey?: string | undefined;
    /** What happens to the task that has the key, if it has not started. */
    onConflict?: 'keep' | 'replace' | 'merge' | undefined;
    /** Reserve the key for this long, even after the task has ended. */
    uniqueFor?: Duration | undefined;
    /** Start when this time has passed without another enqueue under the key ... */
    debounce?: Duration | undefined;
    /** ... but at the latest this long after the first. */
    debounceMax?: Duration | undefined;
    /** If it has not started by then, it is expired. */
    startBefore?: Date | undefined;
    /** The number of failures that makes it dead. */
    maxAttempts?: number | undefined;
    /** How long one run may take. */
    timeout?: Duration | undefined;
    /** The delay before a retry, for instance `exponential(10 s, 1 h)`. */
    retry?: string | undefined;
    /** The keys whose limits apply to it. */
    limitKeys?: readonly string[] | undefined;
    /** The flow to which the task is added. */
    flow?: string | undefined;
    /** The ids of tasks that must be done before it. */
    dependsOn?: readonly string[] | undefined;
    /** What happens when one of those is dead, cancelled or expired. */
    onParentDead?: 'wait' | 'run' | 'cancel' | undefined;
    /** At most 10 texts, by which people find it: `tenon list --tag import-7`. */
    tags?: readonly string[] | undefined;
    /** A W3C traceparent, which the handler gets. */
    trace?: string | undefined;
    /** false in a transaction that will be prepared (PREPARE TRANSACTION). */
    notify?: boolean | undefined;
    /** true when you publish the wake-up in a way of your own. */
    announced?: boolean | undefined;
    /** Where the wake-up is kept, until you publish it after the commit; without it the cleaner wakes the workers. */
    wakeUps?: WakeUps | undefined;
}

/** Options that a kind has and no single task: `sync` sets them in the database. */
export interface KindOptions {
    /** After this many crashes of its process a task is dead, 2 to 100. */
    maxCrashes?: number | undefined;
    /** No task of the kind may have a shorter timeout. */
    timeoutMin?: Duration | undefined;
    /** What happens to a task whose time is over; default: `retry`. */
    onTimeout?: 'retry' | 'dead' | undefined;
    /** The task that is enqueued when one of the kind dies; its payload is a DeadTask. */
    onDead?: Task<any, any> | string | undefined;
    /** How long ended tasks of the kind stay in the history, at least an hour; default: as long as all others. */
    historyKeep?: Duration | undefined;
    /** How long dead tasks of the kind are kept, at least an hour; default: as long as all others. */
    deadKeep?: Duration | undefined;
}

/** Those of a task: what all are enqueued with, which `enqueue` may overrule, and what of them is secret. */
export interface TaskOptions extends EnqueueOptions, KindOptions {
    secret?: Secret | undefined;
}

/** Those of many tasks. */
export interface EnqueueManyOptions extends Omit<EnqueueOptions, 'uniqueKey'> {
    /** One for each payload, null for none. */
    uniqueKeys?: readonly (string | null)[] | undefined;
    /** One for each payload, null for that of the call; so with the next two. */
    queues?: readonly (string | null)[] | undefined;
    priorities?: readonly (number | null)[] | undefined;
    runAts?: readonly (Date | null)[] | undefined;
}

/** Some tasks have an empty payload: then it may be left out. */
type Given<Input, Rest extends unknown[]> = {} extends Input
    ? [payload?: Input, ...rest: Rest]
    : [payload: Input, ...rest: Rest];

/**
 * Enqueues one task in the transaction of `db`: it runs if that commits, and never if it rolls back.
 *
 * @returns its id, a string, since a bigint may be larger than a JavaScript number
 * @throws InvalidPayload if the payload does not fit the task's schema; TypeError or RangeError if it is not JSON, or
 *     for an option that does not exist or has the wrong type; or the driver's error, for instance SQLSTATE 22023
 *     for a value that tenon does not allow, and 42501 if the role may not enqueue
 */
export function enqueue<Input>(
    db: Database,
    task: Task<Input, any>,
    ...payloadAndOptions: Given<Input, [options?: EnqueueOptions]>
): Promise<string>;

/** Enqueues one task for each payload, at most 100,000, in one statement; returns their ids in the same order. */
export function enqueueMany<Input>(
    db: Database,
    task: Task<Input, any>,
    payloads: readonly Input[],
    options?: EnqueueManyOptions,
): Promise<string[]>;

/** The arguments of tenon.publish (docs/sql.md has them in full). What is undefined is left out. */
export interface PublishOptions {
    headers?: Readonly<Record<string, unknown>> | undefined;
    /** The property message-id; default: a random UUID. */
    messageId?: string | undefined;
    /** Default: what the body is. */
    contentType?: string | undefined;
    /** Messages of one key are sent one after the other, in the order of their commits. */
    orderKey?: string | undefined;
    /** After that time it is not sent any more, and RabbitMQ discards it. */
    expires?: Duration | undefined;
    properties?:
        | {
              readonly type?: string;
              readonly app_id?: string;
              readonly correlation_id?: string;
              readonly reply_to?: string;
              readonly content_encoding?: string;
              readonly priority?: number;
          }
        | undefined;
    /** A W3C traceparent, which becomes the header traceparent. */
    trace?: string | undefined;
    /** false in a transaction that will be prepared (PREPARE TRANSACTION). */
    notify?: boolean | undefined;
}

/** Those of many messages. */
export interface PublishManyOptions extends Omit<PublishOptions, 'messageId'> {
    /** One for each body, null for a random one. */
    messageIds?: readonly (string | null)[] | undefined;
}

/**
 * Publishes a message to an exchange of RabbitMQ in the transaction of `db`: it is sent after the commit, and never if that
 * rolls back.
 *
 * @param body bytes (a Buffer or another Uint8Array), a string, or anything else that is JSON
 * @returns its number in tenon.outbox, a string
 */
export function publish(
    db: Database,
    exchange: string,
    routingKey: string,
    body: unknown,
    options?: PublishOptions,
): Promise<string>;

/** Publishes one message for each body, in one statement. The bodies are all bytes, all strings, or all JSON. */
export function publishMany(
    db: Database,
    exchange: string,
    routingKey: string,
    bodies: readonly unknown[],
    options?: PublishManyOptions,
): Promise<string[]>;

/** For a Prisma client, or better the `tx` of `prisma.$transaction(async (tx) => ...)`. */
export function fromPrisma(tx: {
    $queryRawUnsafe(text: string, ...params: any[]): PromiseLike<any>;
}): Queryable;
/** For Drizzle's `tx`, with `sql` of drizzle-orm. */
export function fromDrizzle(
    tx: { execute(query: any): PromiseLike<any> },
    sql: (parts: TemplateStringsArray, ...params: any[]) => unknown,
): Queryable;
/** For Kysely's `trx`, with `sql` of kysely. */
export function fromKysely<Trx>(
    trx: Trx,
    sql: (
        parts: TemplateStringsArray,
        ...params: any[]
    ) => { execute(trx: Trx): Promise<{ rows: unknown[] }> },
): Queryable;
/** For Knex's `trx`. */
export function fromKnex(trx: { raw(text: string, params: any[]): PromiseLike<any> }): Queryable;

/** What an amqplib channel has of use here; a ConfirmChannel has it too. */
export interface Channel {
    publish(exchange: string, routingKey: string, content: Buffer): boolean;
}

/**
 * The wake-ups of one transaction: give it to `enqueue` as the option `wakeUps`, and publish it after the commit.
 * A wake-up that is lost costs a second at most, never a task.
 */
export class WakeUps {
    /** How many wait to be published. */
    readonly size: number;
    /**
     * Publishes them on a channel of amqplib, and forgets them. It never throws: if the channel is closed it returns
     * false, and the workers find the tasks within about a second. After a rollback do not call it.
     */
    publish(channel: Channel): boolean;
}

// --- waiting -------------------------------------------------------------------------------------

/** The id of a task, which `enqueue` returned. */
export type TaskId = string | number | bigint;

/** How a task has ended. */
export interface TaskResult {
    readonly id: string;
    /** `unfinished`: not in time; null: there is no such task, or no more. */
    readonly state: 'done' | 'dead' | 'cancelled' | 'expired' | 'unfinished' | null;
    /** What its handler returned, of one that is done; encrypted: as it is stored, see `Keys`. */
    readonly result: any;
    /** What went wrong, of one that is not; else null. */
    readonly error: string | null;
}

export interface WaitOptions {
    /** How long to wait; default: for ever. */
    timeout?: Duration | undefined;
    /** When it aborts, the wait ends: its reason is thrown. */
    signal?: AbortSignal | undefined;
}

/** A connection that may listen: a client of node-postgres, or the `sql` of postgres.js. */
export type Listenable = PgClient | PostgresJsListener;
export interface PgClient {
    query(text: string, params: (string | null)[]): PromiseLike<{ rows: unknown[] }>;
    on(event: 'notification', listener: (message: any) => void): unknown;
}
export interface PostgresJsListener extends PostgresJs {
    listen(channel: string, listener: (payload: string) => void): PromiseLike<unknown>;
}

/**
 * Waits until these tasks have ended, in any state; a task that has not ended when the time is over is `unfinished`. At most
 * 10,000 of them; the results are in their order.
 *
 * @param db in no transaction, and not through a pooler. It listens until this returns, and nothing polls
 * @throws TypeError for a connection that cannot be waited on; Error, with the driver's as its cause, when it is lost;
 *     or the driver's error, for instance SQLSTATE 42501 for a task that another role has enqueued
 */
export function wait(
    db: Listenable,
    ids: readonly TaskId[],
    options?: WaitOptions,
): Promise<TaskResult[]>;

/** Lets any number of callers wait for tasks on one connection. One for each process. */
export class Waiter {
    /**
     * @param connect makes a connection for the waiter alone: a client of node-postgres, which the waiter connects if it is
     *     not connected yet, or postgres.js. It is called for the first wait, and again after the connection was lost
     */
    constructor(connect: () => PromiseLike<Listenable> | Listenable);
    /**
     * Waits until this task has ended, or the time is over: then it is `unfinished`. When the connection is lost, or
     * cannot be made, it throws an Error with the driver's as its cause, and the task may be waited for again.
     */
    wait(taskId: TaskId, options?: WaitOptions): Promise<TaskResult>;
    /** Ends the connection, and resolves when it has ended. Callers that still wait get an Error. */
    close(): Promise<void>;
}

// --- secrets ---------------------------------------------------------------------------------

/** Keys of 32 bytes by their ids, 1 to 100 of `A-Z a-z 0-9 _ . -`. The first one encrypts, each decrypts. */
export class Keys {
    constructor(keys: Record<string, Uint8Array> | Iterable<readonly [string, Uint8Array]>);
    /** `ID:BASE64`, more of them with spaces between, such as a variable of the environment has them. */
    static parse(text: string): Keys;
    readonly ids: string[];
    /** The envelope of a value of JSON. It opens for this kind only, and only as `what` it is, `payload` by default. */
    encrypt(value: unknown, of: { kind: string; what?: string }): { 'tenon:secret': object };
    /** The value in an envelope; what is none is returned as it is. SecretError says why not. */
    decrypt(value: any, of: { kind: string; what?: string }): any;
}
/** The keys of this process: of producers, to encrypt; of handlers, to decrypt. */
export function setKeys(keys: Keys | null): void;

// --- handlers ------------------------------------------------------------------------------------

/** What a handler knows of the task it runs, and what it may say about it. */
export interface Context {
    /** The task's id, a string. The same for all its attempts: an idempotency key. */
    readonly id: string;
    readonly kind: string;
    readonly queue: string;
    /** From 1: 1 + failures + crashes. */
    readonly attempt: number;
    readonly failures: number;
    readonly maxAttempts: number;
    /** When its time is over. */
    readonly deadline: Date;
    /** The W3C traceparent that was given at enqueueing. */
    readonly trace: string | null;
    /** The claim token, for SQL of your own. */
    readonly claim: string;
    /** The progress that was recorded last, by this or an earlier attempt: the checkpoint to continue from; null: none. */
    readonly checkpoint: any;
    /**
     * Aborts when the task should stop: it was cancelled, its claim is lost, its time is over, or the worker ends
     * (`drain`). The reason is a Stopped, which says why. A handler that then throws it, for instance from
     * `fetch(url, { signal })`, is interrupted: that does not count as a failure, and the task continues elsewhere.
     */
    readonly signal: AbortSignal;
    /** The same, but not at a drain: for work that can end within the worker's drain limit. */
    readonly abandoned: AbortSignal;
    /**
     * Records the progress, however often it is called; the worker stores it about once a second, and the next attempt
     * gets the last value. RangeError if it is longer than 64 KiB.
     */
    progress(value: unknown): void;
    /**
     * Log lines of the task: `tenon logs ID` prints them, and the worker's log has them. `fields` is an object of at most
     * 2,048 bytes as JSON; others are left out. Nothing is logged of tasks that have something secret.
     */
    readonly log: {
        readonly [level in 'error' | 'warning' | 'info' | 'debug']: (
            message: string,
            fields?: object,
        ) => void;
    };
    /** Moves the deadline to this time from now, if that is later; at most 30 days. */
    extend(duration: Duration): void;
    /** What is recorded: the steps of earlier attempts and the signals that came, then those of this attempt. */
    readonly steps: { readonly [name: string]: any };
    /**
     * Does `work` once, even after a crash; returns what it returned, in JSON, in later attempts too.
     *
     * Without `db` the worker records it after it was done, and it is done once more if that is lost: give the other
     * side a key. With `db`, a connection within your transaction, the record is a part of that: both are there,
     * exactly once, or neither.
     */
    step<T>(name: string, work: () => T, db?: Database): Promise<Jsonify<Awaited<T>>>;
    /**
     * Continues this long after it was reached first, without a worker meanwhile: it throws Suspended, which ends this
     * attempt without counting a failure. Its end is a step of that name, by this machine's clock.
     */
    sleep(name: string, duration: Duration): Promise<void>;
    /**
     * Returns the signal's payload; null if it did not come within `timeout`, 365 days at most and by default. If it has not
     * come, it throws Suspended, which ends this attempt; the next one starts when it comes, or not in time.
     */
    waitSignal(name: string, timeout?: Duration): Promise<any>;
    /**
     * Waits until these tasks have ended, without a worker meanwhile, and returns how each has, in the order of the ids. It is
     * a step. While one of them has not ended it throws Suspended, which ends this attempt; the next one asks again after 1 s
     * at first, and every 60 s at last. Enqueue the tasks in a step, so that each attempt has the same ids.
     *
     * @param db of a role that may see them, such as the one that enqueued them
     * @param name of the step, if the ids change between attempts
     */
    waitFor(ids: readonly TaskId[], db: Database, name?: string): Promise<TaskResult[]>;
    /** What the parents of this task have returned, in the order of its `dependsOn`. */
    parentResults(db: Database): Promise<ParentResult[]>;
    /**
     * Finishes the task in your own transaction: its effects and its end commit together, so they happen exactly once.
     * The driver's error with SQLSTATE 55000 means that the claim is no longer valid: let it roll back.
     */
    finish(db: Database, result?: unknown): Promise<void>;
}

export interface OutcomeOptions {
    /** Wait this long, instead of the task's retry delay or, for Snooze, 60 s. */
    after?: Duration | undefined;
    /** What went wrong. */
    cause?: unknown;
}

/** Thrown by a handler: this attempt failed and counts as a failure. The next one starts after `after`. */
export class Retry extends Error {
    constructor(message?: string, options?: OutcomeOptions);
    readonly after: Duration | undefined;
}
/** Thrown by a handler: not now; it runs again after `after` (60 s by default), without counting a failure. */
export class Snooze extends Error {
    constructor(message?: string, options?: OutcomeOptions);
    readonly after: Duration | undefined;
}
/** Thrown by a handler: this can never work, do not try again. */
export class Dead extends Error {
    constructor(message?: string, options?: { cause?: unknown });
}
/** Thrown by a handler: it stopped before its end, and is ready again at once, without counting a failure. */
export class Interrupted extends Error {
    constructor(message?: string);
}
/**
 * Thrown by `sleep` and `waitSignal` of the context: they end the attempt, and the task continues later. Do not catch it:
 * the task sleeps or waits nevertheless, and what a handler does after catching it is not recorded.
 */
export class Suspended extends Error {
    private constructor();
}
/** A payload does not fit its task's schema. A handler's task is dead then: it will not get better. */
export class InvalidPayload extends Error {
    constructor(kind: string, issues: readonly SchemaIssue[]);
    readonly issues: readonly SchemaIssue[];
}
/** What is encrypted cannot be decrypted here. The task fails, and is retried: usually a key is missing. */
export class SecretError extends Error {}
/** Why `signal` of a context was aborted. */
export class Stopped extends Error {
    constructor(why: Stopped['why']);
    /** `lost`: its claim; `terminated`: the worker has sent the process TERM. */
    readonly why: 'cancelled' | 'lost' | 'drain' | 'timeout' | 'terminated';
}
