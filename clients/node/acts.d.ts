// The public types of what is done with tasks, flows, signals, schedules and limits; index.d.ts has the others.
import type {
    Database,
    Duration,
    EnqueueOptions,
    Json,
    Task,
    TaskId,
    TaskOptions,
    TaskResult,
} from './index.js';

// --- tasks and signals ---------------------------------------------------------------------------

/** Cancels a task; a running one is told to stop. Returns false if it had ended. */
export function cancel(db: Database, id: TaskId): Promise<boolean>;

/**
 * Retries a dead, cancelled or expired task under its own id; its failures no longer count. For operators. `why` is for the
 * audit log. With `fromStep` the task forgets that step and all that it recorded after it.
 */
export function retry(
    db: Database,
    id: TaskId,
    options?: { why?: string | undefined; fromStep?: string | undefined },
): Promise<boolean>;

/** Makes a scheduled or retrying task ready at once. For operators. */
export function runNow(
    db: Database,
    id: TaskId,
    options?: { why?: string | undefined },
): Promise<boolean>;

/** The state of a task now, without waiting: `unfinished` if it has not ended. */
export function result(db: Database, id: TaskId): Promise<TaskResult>;

/**
 * Sends a signal: tasks that wait for it continue, and those that will wait for it within `signal_keep` need not. It is sent
 * when the transaction commits. The first one wins: false if one of this name was sent before.
 */
export function signal(db: Database, name: string, payload?: unknown): Promise<boolean>;

/** The state of a task that may not have ended. */
export interface TaskState {
    readonly id: string;
    /** As `tenon list` shows it; null: there is no such task. */
    readonly state: string | null;
    /** The progress that was recorded last, of a task that is not done; null: none. Encrypted: as it is stored, see `Keys`. */
    readonly progress: any;
    readonly result: any;
    /** The last error, of one that is not done. */
    readonly error: string | null;
}
export interface WatchOptions {
    /** How often to look; default: `1 s`, which is about how often the worker writes a progress. */
    every?: Duration | undefined;
    /** When it aborts, its reason is thrown. */
    signal?: AbortSignal | undefined;
}
/**
 * Yields a task's state now and whenever it or its progress changes, and ends after the task has ended. It asks once a second
 * on `db`, which may be a pool; the role must be the one that enqueued the task, or a reader.
 */
export function watch(
    db: Database,
    id: TaskId,
    options?: WatchOptions,
): AsyncGenerator<TaskState, void>;

/** The payload of the task that `onDead` of a kind, or of the settings, enqueues: the task that died. */
export interface DeadTask<Payload = Json> {
    id: number;
    kind: string;
    queue: string;
    payload: Payload;
    /** Too many failures; too many crashes; the handler said so; its time was over. */
    reason: 'failures' | 'crashes' | 'handler' | 'timeout';
    error: string | null;
    error_class: string | null;
    attempt: number;
    failures: number;
    crashes: number;
    unique_key: string | null;
    trace: string | null;
    created_at: string;
    enqueued_by: string | null;
    /** What it had recorded. */
    steps: { [name: string]: Json } | null;
}

// --- flows and batches ---------------------------------------------------------------------------

/** The tasks that are enqueued when the others have ended. Their payload is that of the flow, with `flow` added. */
export interface Callbacks {
    /** When all are done. */
    onDone?: Task<any, any> | string | undefined;
    /** When all have ended, and at least one is not done. */
    onDead?: Task<any, any> | string | undefined;
    /** When all have ended. */
    onEnd?: Task<any, any> | string | undefined;
    payload?: unknown;
    /** For people. */
    name?: string | undefined;
}
export type BatchOptions = Callbacks;
/** The payload of a callback. */
export type CallbackPayload<Payload extends object = {}> = Payload & {
    flow: number;
};

/** A task in the description of a flow. */
export interface FlowTask<Input = any>
    extends Pick<
        EnqueueOptions,
        | 'queue'
        | 'priority'
        | 'runAt'
        | 'delay'
        | 'startBefore'
        | 'maxAttempts'
        | 'timeout'
        | 'retry'
        | 'limitKeys'
        | 'onParentDead'
        | 'trace'
    > {
    task: Task<Input, any>;
    payload?: Input | undefined;
    name?: string | undefined;
    /** The names of its parents. */
    dependsOn?: readonly string[] | undefined;
}
export interface FlowDescription extends Callbacks {
    tasks: readonly FlowTask[];
}

/**
 * Makes a flow, and returns its number: an empty one, to whose number tasks are enqueued with the options `flow` and
 * `dependsOn`; or a whole one, with its tasks.
 */
export function flow(db: Database, of?: string | FlowDescription): Promise<string>;

/** Makes an open batch, and returns its number for the option `flow` of its tasks. Close it when it has all of them. */
export function batch(db: Database, options: BatchOptions): Promise<string>;

/** From now on the batch may end; false if it was closed. */
export function closeBatch(db: Database, flow: TaskId): Promise<boolean>;

/** Cancels all tasks of a flow or batch that have not ended; returns how many. */
export function cancelFlow(db: Database, flow: TaskId): Promise<number>;

export interface ParentResult {
    readonly id: string;
    readonly name: string | null;
    readonly state: string;
    readonly result: any;
}
/** What the parents of a task have returned; a handler calls `context.parentResults(db)`. */
export function parentResults(db: Database, id: TaskId): Promise<ParentResult[]>;

// --- schedules, limits and sync ------------------------------------------------------------------

export interface ScheduleOptions
    extends Pick<TaskOptions, 'queue' | 'priority' | 'maxAttempts' | 'timeout'> {
    /** Minute, hour, day of month, month, day of week. */
    cron?: string | undefined;
    /** Instead of `cron`: 1 s to 366 days. */
    every?: Duration | undefined;
    task: Task<any, any> | string;
    payload?: unknown;
    /** Of `cron`; default: UTC. */
    zone?: string | undefined;
    catchUp?: 'last' | 'all' | 'none' | undefined;
    overlap?: 'allow' | 'skip' | undefined;
}
/** Sets a schedule, or changes the one of that name; returns its next tick. For operators. */
export function setSchedule(db: Database, name: string, options: ScheduleOptions): Promise<Date>;
/** False if there was none. */
export function removeSchedule(db: Database, name: string): Promise<boolean>;

export interface LimitOptions {
    /** How many tasks run at once. */
    maxRunning?: number | undefined;
    /** How many start ... */
    maxStarts?: number | undefined;
    /** ... in this time. */
    per?: Duration | undefined;
    strict?: boolean | undefined;
    fair?: boolean | undefined;
    weight?: number | undefined;
    whenDead?: 'block' | 'skip' | undefined;
}
/** Sets a limit, or changes the one of that name; what is omitted is cleared. For operators. */
export function setLimit(db: Database, name: string, options: LimitOptions): Promise<void>;
/** False if there was none. */
export function removeLimit(db: Database, name: string): Promise<boolean>;
/**
 * For a handler that calls a limited service itself: takes `n` of the rate of a limit key. Returns 0, or how many milliseconds to
 * wait before asking again.
 */
export function takeLimit(db: Database, key: string, n?: number): Promise<number>;

/** What the code says of its kinds, queues, limits and schedules. */
export interface Declared {
    /** An array, or the exports of a module: its tasks, and those of its handlers. */
    tasks?: readonly unknown[] | object | undefined;
    queues?:
        | Record<string, Pick<TaskOptions, 'priority' | 'maxAttempts' | 'timeout' | 'retry'>>
        | undefined;
    limits?: Record<string, LimitOptions> | undefined;
    schedules?: Record<string, ScheduleOptions> | undefined;
    /** The names of what the code no longer has. */
    remove?:
        | Partial<Record<'queues' | 'kinds' | 'limits' | 'schedules', readonly string[]>>
        | undefined;
    /** Which application its schedules belong to. */
    source?: string | undefined;
}
export interface Change {
    readonly what: 'queue' | 'kind' | 'limit' | 'schedule';
    readonly name: string;
    readonly act: 'added' | 'changed' | 'removed';
}
/**
 * Sets what the code declares, and returns what that has changed. For operators, at each deploy. The options `queue`,
 * `priority`, `maxAttempts`, `timeout`, `retry` and `limitKeys` of a task then hold however it is enqueued: from SQL, by
 * schedules, in other languages. Each is set as a whole; what is not declared stays, unless `remove` names it.
 */
export function sync(db: Database, declared: Declared): Promise<Change[]>;
/** The same as an object for `tenon sync FILE.json`. */
export function description(declared: Declared): Record<string, any>;
