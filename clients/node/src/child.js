// The pool child: reads task lines, runs the tasks side by side, and answers (docs/protocol.md).
'use strict';

const { AsyncLocalStorage } = require('node:async_hooks');
const { TaskContext } = require('./context.js');
const { failed, replyLine, run } = require('./run.js');

/**
 * @typedef {import('./task.js').Handler} Handler
 * @typedef {import('./run.js').Reply} Reply
 */

/** Whose code runs: what it throws where nobody catches it is this task's failure. */
const current = new AsyncLocalStorage();

class Child {
    #handlers;
    #say;
    #exit;
    /** @type {Map<string, TaskContext>} those that have not been answered, the oldest first */
    #running = new Map();
    #answered = 0;
    #ending = false;
    #secret = false; // a secret task has run here: what it left behind may throw at any time
    #code = 0;

    /**
     * @param {Map<string, Handler>} handlers
     * @param {(line: string) => void} say
     * @param {(code: number) => void} exit once everything has been said
     */
    constructor(handlers, say, exit) {
        this.#handlers = handlers;
        this.#say = say;
        this.#exit = exit;
    }

    /** Whether a task that runs is secret, and with it whatever is thrown. */
    get hides() {
        return this.#secret || [...this.#running.values()].some((context) => context.hides);
    }

    /** @param {number} concurrency */
    hello(concurrency) {
        const kinds = [...this.#handlers.keys()].sort();
        this.#say(JSON.stringify({ hello: 'tenon', in_flight: concurrency, stop: true, kinds }));
    }

    /** @param {string} text a line of the worker */
    line(text) {
        const stop = /^\{"stop":(\d+|null),"why":"(\w+)"/.exec(text);
        if (stop) {
            this.#stop(stop[1], stop[2]);
        } else if (text.startsWith('{"step":')) {
            const { name, recorded } = JSON.parse(text);
            this.#running.get(/\d+/.exec(text)?.[0] ?? '')?.told(name, recorded);
        } else if (!this.#ending) {
            this.#start(/^\{"id":(\d+),/.exec(text)?.[1] ?? '0', text);
        }
    }

    /** No more tasks come. */
    end() {
        this.#ending = true;
        for (const context of this.#running.values()) {
            context.endOfLines();
        }
        this.#exitWhenIdle();
    }

    /** The worker has sent TERM, and will send KILL. */
    terminate() {
        for (const context of this.#running.values()) {
            context.stop('terminated');
        }
        this.end();
    }

    /**
     * An uncaught error is a failure of the task whose code threw it or, if that is not known, of
     * the oldest; the others may come to their end, but what state the process is in nobody knows: it takes no more.
     *
     * @param {unknown} error
     */
    uncaught(error) {
        const running = [...this.#running.values()];
        const thrower = current.getStore();
        const context = running.includes(thrower) ? thrower : running[0];
        if (this.#answered + running.length === 0) {
            this.#code = 1; // it never got as far as a task: the handler does not start
        } else if (!this.#ending) {
            this.#say('{"bye":true}');
        }
        this.#ending = true;
        if (context) {
            this.#answer(context, failed(error, { hides: context.hides || this.hides }));
        }
        this.#exitWhenIdle();
    }

    /**
     * @param {string} id
     * @param {string} text
     */
    #start(id, text) {
        const { payload, ...line } = JSON.parse(text);
        const handler = this.#handlers.get(line.kind);
        const context = new TaskContext({ ...line, id }, this.#say);
        this.#running.set(id, context);
        if (handler) {
            current.run(context, () =>
                run(handler, payload, context).then((reply) => this.#answer(context, reply)),
            );
        } else {
            this.#answer(context, { outcome: 'failed', error: `no handler for ${line.kind}` });
        }
    }

    /**
     * @param {string} id or null: all
     * @param {string} why
     */
    #stop(id, why) {
        for (const context of this.#running.values()) {
            if (id === 'null' || id === context.id) {
                context.stop(/** @type {any} */ (why));
            }
        }
    }

    /**
     * @param {TaskContext} context
     * @param {Reply} reply
     */
    #answer(context, reply) {
        if (context.ended) {
            return; // what it threw where nobody caught it was its answer
        }
        context.end();
        this.#secret ||= context.hides;
        this.#running.delete(context.id);
        this.#answered++;
        this.#say(replyLine(context.id, reply));
        this.#exitWhenIdle();
    }

    #exitWhenIdle() {
        if (this.#ending && this.#running.size === 0) {
            this.#exit(this.#code);
        }
    }
}

exports.Child = Child;
