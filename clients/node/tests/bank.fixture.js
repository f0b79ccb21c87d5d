// The handler in Node of tests/clients/bank_test.c.
import pg from 'pg';
import { defineTask, handle } from 'tenon-tasks';

const LOCK = 'SELECT FROM public.account WHERE id IN ($1, $2) ORDER BY id FOR UPDATE';
const TAKE = 'UPDATE public.account SET balance = balance - $2 WHERE id = $1';
const GIVE = 'UPDATE public.account SET balance = balance + $2 WHERE id = $1';
const NOTE = `INSERT INTO public.ledger (n, source, target, amount, by) VALUES ($1, $2, $3, $4, 'node')`;

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 4 });
pool.on('error', () => {}); // of a connection that is idle: the next one is another

export const bankNode = handle(defineTask('bank_node'), async (payload, context) => {
    const { n, from, to, amount, pause } = payload;
    const client = await pool.connect();
    client.on('error', () => {}); // and so it is no crash when one ends that is not
    let broken = false;
    try {
        await client.query('BEGIN');
        await client.query(LOCK, [from, to]);
        await client.query(TAKE, [from, amount]);
        await client.query(GIVE, [to, amount]);
        await client.query(NOTE, [n, from, to, amount]);
        await client.query('SELECT pg_sleep($1)', [pause]);
        await context.finish(client);
        await client.query('COMMIT');
    } catch (error) {
        broken = true; // what is closed is rolled back
        throw error;
    } finally {
        client.release(broken);
    }
});
