// What the tests with Vitest and Jest run: each hands over its own functions, and the modules as it loads them.

'use strict';

/**
 * @param {{ beforeAll: any, afterAll: any, beforeEach: any, afterEach: any, test: any, expect: any }} runner
 * @param {{ pg: any, tenon: any, testing: any }} modules
 */
module.exports = (runner, { pg, tenon, testing }) => {
    const { expect, test } = runner;
    const double = tenon.defineTask('runners_double');
    const onDouble = tenon.handle(double, ({ n }) => 2 * n);
    const client = new pg.Client({ connectionString: process.env.DATABASE_URL });

    runner.beforeAll(async () => {
        await testing.setup(process.env.DATABASE_URL);
        await client.connect();
        await testing.flush(client);
    });
    runner.afterAll(() => client.end());
    runner.beforeEach(() => client.query('BEGIN'));
    runner.afterEach(() => client.query('ROLLBACK'));

    test('a handler', async () => {
        const ended = await testing.run(onDouble, { n: 2 });
        expect(ended).toMatchObject({ outcome: 'done', result: 4 });
    });

    test('what a transaction has enqueued, and what comes of it', async () => {
        await tenon.enqueue(client, double, { n: 21 }, { delay: '1 h' });
        const found = await testing.mine(client);
        expect(found).toMatchObject([{ kind: 'runners_double', payload: { n: 21 } }]);
        expect(await testing.runDue(client, { onDouble })).toEqual([]);
        const later = await testing.runDue(client, { onDouble }, { ahead: '1 h' });
        expect(later).toMatchObject([{ result: 42 }]);
    });
};
