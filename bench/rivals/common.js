// What the Node rivals have in common: the workloads. Each rival is a module with
//
//     settings                    {variant: {processes, ...}}
//     open(variant, connections)  for a producer: {one(i), many(n), remaining(), settle(), close()}
//     work(variant, onTask)       start a worker in this process: {stop()}
//
// A worker runs in a process of its own (or several). What was measured goes to stdout, a line for
// each figure: METRIC VALUE.
'use strict'
const { fork } = require('node:child_process')

const now = () => Number(process.hrtime.bigint()) / 1e6 // milliseconds, the same clock in all processes
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const print = (metric, value) => console.log(metric, value)

// --- the worker's process: it answers {start} with {started}, and {report} with what it has run ---

function serve(rival, variant) {
    const starts = []
    let worker
    process.on('message', async (message) => {
        if (message === 'start') {
            worker = await rival.work(variant, (i) => starts.push([i, now()]))
            process.send('started')
        } else if (message === 'count') {
            process.send(starts.length)
        } else if (message === 'report') {
            process.send(starts)
        } else {
            await worker.stop()
            process.exit(0)
        }
    })
    process.send('ready')
}

class Workers {
    static async fork(rival, variant) {
        const workers = new Workers()
        const n = rival.settings[variant].processes || 1
        workers.all = Array.from({ length: n }, () => fork(process.argv[1], ['serve', variant]))
        await Promise.all(workers.all.map(hear))
        return workers
    }
    ask(message) {
        return Promise.all(this.all.map((child) => (child.send(message), hear(child))))
    }
    async starts() {
        return (await this.ask('report')).flat()
    }
    async count() {
        return (await this.ask('count')).reduce((a, b) => a + b)
    }
    async stop() {
        await Promise.all(this.all.map((child) => {
            child.send('stop')
            return new Promise((resolve) => child.once('exit', resolve))
        }))
    }
}

function hear(child) {
    return new Promise((resolve, reject) => {
        const died = (code) => reject(new Error(`a worker ended with ${code}`))
        child.once('exit', died)
        child.once('message', (message) => {
            child.off('exit', died)
            resolve(message)
        })
    })
}

// --- the workloads ---

async function warmUp(workers, producer, n) {
    for (let i = 0; i < n; i++) await producer.one(-1)
    while ((await workers.count()) < n) await sleep(20)
}

// From the order to start until nothing is left; loading the program is not counted.
async function drain(rival, variant, n) {
    const producer = await rival.open(variant, 2)
    const before = now()
    await producer.many(n)
    print('bulk_tasks_per_s', n / ((now() - before) / 1000))
    await producer.settle()
    const workers = await Workers.fork(rival, variant)
    const start = now()
    await workers.ask('start')
    while ((await workers.count()) < n) await sleep(5)
    while ((await producer.remaining()) > 0) await sleep(2)
    print('tasks_per_s', n / ((now() - start) / 1000))
    await workers.stop()
    await producer.close()
}

async function latency(rival, variant, n) {
    const producer = await rival.open(variant, 1)
    const workers = await Workers.fork(rival, variant)
    await workers.ask('start')
    await warmUp(workers, producer, 50)
    const sent = []
    for (let i = 0; i < n; i++) {
        sent[i] = now()
        await producer.one(i)
        await sleep(20)
    }
    while ((await workers.count()) < n + 50) await sleep(20)
    const late = (await workers.starts()).filter(([i]) => i >= 0).map(([i, at]) => at - sent[i])
    late.sort((a, b) => a - b)
    for (const p of [50, 95, 99]) print(`p${p}_ms`, late[Math.min(n - 1, Math.floor((n * p) / 100))])
    await workers.stop()
    await producer.close()
}

// `slice` seconds are reported on their own when it is not 0.
async function sustained(rival, variant, producers, seconds, slice) {
    const producer = await rival.open(variant, producers)
    const workers = await Workers.fork(rival, variant)
    await workers.ask('start')
    await warmUp(workers, producer, 50)
    const start = now()
    const end = start + seconds * 1000
    let enqueued = 0
    await Promise.all(Array.from({ length: producers }, async () => {
        for (; now() < end; enqueued++) await producer.one(0)
    }))
    print('enqueued_per_s', enqueued / seconds)
    await sleep(200)
    const times = (await workers.starts()).filter(([i]) => i >= 0).map(([, at]) => at - start)
    const rate = (from, to) => times.filter((t) => t >= from * 1000 && t < to * 1000).length / (to - from)
    print('tasks_per_s', rate(0, seconds))
    for (let at = 0; slice > 0 && at + slice <= seconds; at += slice) {
        print(`slice_${at / slice}_tasks_per_s`, rate(at, at + slice))
    }
    await workers.stop()
    await producer.close()
}

// --- two things that rivals in PostgreSQL share ---

async function count(pool, text) {
    return Number((await pool.query(text)).rows[0].count)
}

async function settle(pool) {
    await pool.query('VACUUM ANALYZE')
    await pool.query('CHECKPOINT')
}

async function main(rival) {
    const [command, variant, ...numbers] = process.argv.slice(2)
    if (command === 'serve') return serve(rival, variant)
    await { drain, latency, sustained }[command](rival, variant, ...numbers.map(Number))
    process.exit(0)
}

module.exports = { main, count, settle }
