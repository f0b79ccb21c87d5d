// BullMQ: lists and hashes in Redis; finished jobs are removed here, as its guide recommends.
'use strict'
const { Queue, Worker } = require('bullmq')
const Redis = require('ioredis')
const { main } = require('./common.js')

const redis = () => new Redis(process.env.RIVAL_URL, { maxRetriesPerRequest: null })
const options = { removeOnComplete: true, removeOnFail: true }

const settings = {
    recommended: { concurrency: 300 }, // its guide says 100 to 300 for quick handlers
    max: { concurrency: 300, processes: 2 },
}

async function open(variant, connections) {
    const queues = Array.from({ length: connections }, () => new Queue('noop', { connection: redis() }))
    let turn = 0
    return {
        one: (i) => queues[turn++ % connections].add('noop', { i }, options),
        many: async (n) => {
            for (let at = 0; at < n; at += 2000) {
                const size = Math.min(2000, n - at)
                await queues[0].addBulk(Array.from({ length: size }, (_, i) => ({ name: 'noop', data: { i: at + i }, opts: options })))
            }
        },
        remaining: async () => {
            const counts = await queues[0].getJobCounts('wait', 'active')
            return counts.wait + counts.active
        },
        settle: async () => {},
        close: () => Promise.all(queues.map((queue) => queue.close())),
    }
}

async function work(variant, onTask) {
    const worker = new Worker('noop', async (job) => onTask(job.data.i), {
        connection: redis(),
        concurrency: settings[variant].concurrency,
    })
    await worker.waitUntilReady()
    return { stop: () => worker.close(true) }
}

main({ settings, open, work })
