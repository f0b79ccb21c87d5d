// Tests without a worker: run a handler here and now, and look at what a transaction has enqueued.
import type { Database, Duration, Handler, Jsonify, Stopped } from './index.js';

/** What a handler is to see in its context; default: a first attempt. */
export interface RunOptions {
    id?: string;
    queue?: string;
    attempt?: number;
    maxAttempts?: number;
    timeoutMs?: number;
    trace?: string;
    claim?: string;
    /** What an earlier attempt said of its progress. */
    checkpoint?: unknown;
    /** What earlier attempts recorded, and the signals that came. */
    steps?: Record<string, unknown>;
    /** It is stopped from the beginning: how does it take that? */
    stopped?: Stopped['why'];
}

/** The outcome of a run that the worker would receive. */
export interface Run<Result = any> {
    outcome: 'done' | 'failed' | 'snooze' | 'wait_signal' | 'dead' | 'interrupted';
    /** Of one that is done, if it returned something. */
    result: Result | undefined;
    error: string | undefined;
    errorClass: string | undefined;
    /** Of `snooze` and `failed`; of `wait` for how long at most. */
    delayMs: number | undefined;
    /** What it waits for. */
    signal: string | undefined;
    /** Those that the worker was told to record, not those on a connection. */
    steps: { [name: string]: any };
    /** What was said, in order. */
    progress: any[];
    extendedMs: number[];
}

/** A task that a transaction has enqueued. */
export interface Enqueued {
    id: string;
    kind: string;
    queue: string;
    state: string;
    priority: number;
    runAt: Date;
    uniqueKey: string | null;
    payload: any;
}

/** Runs a handler on a payload, which goes through JSON and the task's schema as on its way to a worker. */
export function run<Input, Result>(
    handler: Handler<Input, any, Result>,
    payload?: Input,
    options?: RunOptions,
): Promise<Run<Jsonify<Awaited<Result>>>>;

/** What the transaction of this connection has enqueued so far: look, and then roll back. */
export function mine(db: Database): Promise<Enqueued[]>;

/**
 * Runs what the transaction has enqueued so far, in order, with these handlers (or a module's exports); nothing is
 * committed, and no task is finished.
 */
export function runMine(
    db: Database,
    handlers: readonly Handler<any, any, any>[] | object,
): Promise<Run[]>;

/** A task that was run where it was enqueued has failed, or is dead. */
export class TaskFailed extends Error {
    readonly run: Run;
}

/**
 * While `work` runs, `enqueue` and `enqueueMany` run tasks at once with these handlers (or a module's exports), whatever their delay;
 * no database is asked, and `db` may be null. `work` gets the list of the runs. A task that fails throws TaskFailed where it was
 * enqueued, unless `throws` is false.
 */
export function eager<T>(
    handlers: readonly Handler<any, any, any>[] | object,
    work: (runs: Run[]) => T | Promise<T>,
    options?: { throws?: boolean | undefined },
): Promise<T>;

export interface DueOptions {
    /** Time travel: the tasks are due this much earlier. */
    ahead?: Duration | undefined;
    /** All tasks of the database, not only those of this transaction: for tests that commit, in a database of their own. */
    all?: boolean | undefined;
}
/**
 * Runs the due tasks, those that they enqueue, and what follows in flows, until none is due. Unlike `runMine` it records how each
 * ends, as a worker does: the next call finds a retry, a snooze or a result. The role must own the schema.
 */
export function runDue(
    db: Database,
    handlers: readonly Handler<any, any, any>[] | object,
    options?: DueOptions,
): Promise<Run[]>;

/** Deletes all tasks of the database, between tests that commit. */
export function flush(db: Database): Promise<void>;

/** Makes the schema in a test database, or brings it up to date: `tenon setup`, without RabbitMQ. TENON names the program. */
export function setup(url: string): Promise<void>;
