// The part of bench/waiting/measure.py in Node: waits for the tasks of IDS, and prints when it heard of each, in seconds.
import pg from 'pg';
import { Waiter } from 'tenon-tasks';

const waiter = new Waiter(async () => {
    const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
    await client.connect();
    return client;
});
const heard = IDS.map(async (id) => {
    await waiter.wait(id, { timeout: '2 min' });
    return [id, (performance.timeOrigin + performance.now()) / 1000];
});
console.log(JSON.stringify(await Promise.all(heard)));
await waiter.close();
