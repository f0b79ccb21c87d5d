// examples/order.py with the client for Node: reserve the goods, ask for the price of the shipping, charge the customer,
// wait for the payment or a day, ship or refund. Whatever dies meanwhile, each step is done once.
//
//     npm install ./clients/node pg
//     psql -c 'CREATE TABLE order_effect ("order" bigint, what text)'
//     tenon worker --handler 'order=pool:exec npx tenon-node examples/order_client.mjs' --pass-env DATABASE_URL
//     psql -c "SELECT tenon.enqueue('order', '{\"order\": 17}')"
//     tenon signal payment:17 --payload '{"amount": 30}'
//
// A step with a connection commits together with its record: both are there, or neither. One without, elsewhere, may be
// done twice when its record is lost: it gets a key by which the other side knows it again.
import { appendFile } from 'node:fs/promises';
import pg from 'pg';
import { defineTask, handle } from 'tenon-tasks';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });

async function transaction(work) {
    const client = await pool.connect();
    try {
        await client.query('BEGIN');
        await work(client);
        await client.query('COMMIT');
    } catch (error) {
        await client.query('ROLLBACK');
        throw error;
    } finally {
        client.release();
    }
}

async function askPrice(key) {
    await appendFile(process.env.PRICES ?? '/dev/null', `${key}\n`);
    return { shipping: 5 };
}

export const onOrder = handle(defineTask('order'), async (payload, context) => {
    const once = (what) =>
        transaction((client) =>
            context.step(
                what,
                async () => {
                    const sql = 'INSERT INTO order_effect ("order", what) VALUES ($1, $2)';
                    await client.query(sql, [payload.order, what]);
                },
                client,
            ),
        );

    await once('reserve');
    const price = await context.step('price', () => askPrice(`price-${context.id}`));
    await once('charge');
    const paid = await context.waitSignal(`payment:${payload.order}`, payload.wait_ms === undefined ? '1 d' : { milliseconds: payload.wait_ms });
    const end = paid === null ? 'refund' : 'ship'; // null: it did not come in time
    await once(end);
    return { order: payload.order, end, shipping: price.shipping };
});
