// graphile-worker: a table in PostgreSQL, LISTEN/NOTIFY; finished jobs are deleted.
'use strict'
const { Pool } = require('pg')
const { Logger, makeWorkerUtils, run } = require('graphile-worker')
const { main, count, settle } = require('./common.js')

const connectionString = process.env.RIVAL_URL
const logger = new Logger(() => () => {})

const settings = {
    // the configuration of its own performance page
    recommended: { concurrentJobs: 24, maxPoolSize: 25, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
    // the fastest that was found here
    max: { processes: 2, concurrentJobs: 500, maxPoolSize: 10, localQueue: { size: 2000 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
}

async function open(variant, connections) {
    const pool = new Pool({ connectionString, max: connections })
    pool.on('error', (error) => console.error(error))
    pool.on('connect', (client) => client.on('error', (error) => console.error(error)))
    const utils = await makeWorkerUtils({ pgPool: pool, logger })
    await utils.migrate()
    return {
        one: (i) => utils.addJob('noop', { i }),
        many: async (n) => {
            for (let at = 0; at < n; at += 10000) {
                const size = Math.min(10000, n - at)
                await utils.addJobs(Array.from({ length: size }, (_, i) => ({ identifier: 'noop', payload: { i: at + i } })))
            }
        },
        remaining: () => count(pool, 'SELECT count(*) FROM graphile_worker._private_jobs'),
        settle: () => settle(pool),
        close: async () => {
            await utils.release()
            await pool.end()
        },
    }
}

async function work(variant, onTask) {
    const { processes, ...chosen } = settings[variant]
    const runner = await run({
        preset: { worker: { connectionString, logger, ...chosen } },
        taskList: { noop: async (payload) => onTask(payload.i) },
        noHandleSignals: true,
    })
    return { stop: () => runner.stop() }
}

main({ settings, open, work })
