// The wake-ups of a transaction: published by hand after its commit, with amqplib.
'use strict';

/** @typedef {{ id: string, exchange: string, routingKey: string }} WakeUp */

class WakeUps {
    /** @type {WakeUp[]} */
    #waiting = [];

    get size() {
        return this.#waiting.length;
    }

    /**
     * @internal
     * @param {WakeUp} wakeUp
     */
    add(wakeUp) {
        this.#waiting.push(wakeUp);
    }

    /** @param {import('../index.d.ts').Channel} channel */
    publish(channel) {
        const waiting = this.#waiting.splice(0);
        try {
            for (const { id, exchange, routingKey } of waiting) {
                channel.publish(exchange, routingKey, Buffer.from(id));
            }
            return true;
        } catch {
            return false; // it is closed: the workers' poll finds the tasks
        }
    }
}

exports.WakeUps = WakeUps;
