// pg-boss: a table in PostgreSQL; finished jobs are kept. It polls by default; NOTIFY, which it offers for short
// waits, costs each send a commit in turn.
'use strict'
const { Pool } = require('pg')
const { PgBoss } = require('pg-boss')
const { main, count, settle } = require('./common.js')

const connectionString = process.env.RIVAL_URL

const settings = {
    // wakes by NOTIFY; a full batch is followed by the next at once
    recommended: { notify: true, batchSize: 500, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true },
    // the same without NOTIFY; it does not poll more often than twice a second
    polling: { notify: false, batchSize: 500, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true },
    // the fastest that was found here
    max: { notify: true, batchSize: 5000, localConcurrency: 2, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true },
}

async function start(connections, supervise, notify) {
    const boss = new PgBoss({ connectionString, max: connections, useListenNotify: notify, supervise })
    boss.on('error', (error) => console.error(error))
    await boss.start()
    return boss
}

async function open(variant, connections) {
    const { notify } = settings[variant]
    const boss = await start(connections, false, notify)
    const pool = new Pool({ connectionString, max: 1 })
    await boss.createQueue('noop', { notify })
    return {
        one: (i) => boss.send('noop', { i }),
        many: async (n) => {
            for (let at = 0; at < n; at += 10000) {
                const size = Math.min(10000, n - at)
                await boss.insert('noop', Array.from({ length: size }, (_, i) => ({ data: { i: at + i } })))
            }
        },
        remaining: () => count(pool, "SELECT count(*) FROM pgboss.job WHERE name = 'noop' AND state < 'completed'"),
        settle: () => settle(pool),
        close: async () => {
            await boss.stop({ graceful: false })
            await pool.end()
        },
    }
}

async function work(variant, onTask) {
    const { notify, ...options } = settings[variant]
    const boss = await start(10, true, notify)
    await boss.work('noop', options, async (jobs) => {
        for (const job of jobs) onTask(job.data.i)
    })
    return { stop: () => boss.stop({ graceful: true, timeout: 5000 }) }
}

main({ settings, open, work })
