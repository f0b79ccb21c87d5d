// Each library's own transaction, on a real PostgreSQL: both, or neither.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql as drizzleSql } from 'drizzle-orm';
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres';
import { drizzle as drizzleJs } from 'drizzle-orm/postgres-js';
import knex from 'knex';
import { CamelCasePlugin, Kysely, PostgresDialect, sql as kyselySql } from 'kysely';
import pg from 'pg';
import postgres from 'postgres';
import {
    defineTask,
    enqueue,
    enqueueMany,
    fromDrizzle,
    fromKnex,
    fromKysely,
    handle,
    WakeUps,
} from 'tenon-tasks';
import { mine, run } from 'tenon-tasks/testing';
import { claimed, connected, DATABASE_URL, single } from './support.js';

/** Each: name -> begin(t) -> transaction(work(db)), which commits unless work throws. */
const LIBRARIES = {
    'node-postgres, a client': (t) => connected(t).then(byHand),
    'node-postgres, of a pool': async (t) => {
        const made = new pg.Pool({ connectionString: DATABASE_URL });
        const client = await made.connect();
        t.after(() => client.release());
        t.after(() => made.end());
        return byHand(client);
    },
    'postgres.js': (t) => {
        const sql = postgresJs(t, { transform: postgres.camel });
        return (work) => sql.begin(work);
    },
    'postgres.js, a pooler in between': (t) => {
        const sql = postgresJs(t, { prepare: false, fetch_types: false });
        return (work) => sql.begin(work);
    },
    Knex: (t) => {
        const db = knex({ client: 'pg', connection: DATABASE_URL });
        t.after(() => db.destroy());
        return (work) => db.transaction((trx) => work(fromKnex(trx)));
    },
    'Kysely, with camel case': (t) => {
        const dialect = new PostgresDialect({ pool: pool(t) });
        const db = new Kysely({ dialect, plugins: [new CamelCasePlugin()] });
        return (work) => db.transaction().execute((trx) => work(fromKysely(trx, kyselySql)));
    },
    'Drizzle, on node-postgres': (t) => {
        const db = drizzlePg(pool(t));
        return (work) => db.transaction((tx) => work(fromDrizzle(tx, drizzleSql)));
    },
    'Drizzle, on postgres.js': (t) => {
        const db = drizzleJs(postgresJs(t));
        return (work) => db.transaction((tx) => work(fromDrizzle(tx, drizzleSql)));
    },
};

function pool(t) {
    const made = new pg.Pool({ connectionString: DATABASE_URL });
    t.after(() => made.end());
    return made;
}

function postgresJs(t, options = {}) {
    const sql = postgres(DATABASE_URL, { onnotice() {}, ...options });
    t.after(() => sql.end());
    return sql;
}

function byHand(client) {
    return async (work) => {
        await client.query('BEGIN');
        try {
            await work(client);
            await client.query('COMMIT');
        } catch (error) {
            await client.query('ROLLBACK');
            throw error;
        }
    };
}

const task = defineTask('from_library');
// what drivers and libraries might take for something of theirs
const payload = {
    text: `it's ? ?? $1 :name \\ "quoted" {1,2} \u2028😀`,
    list: [1, [2]],
    none: null,
};

for (const [name, begin] of Object.entries(LIBRARIES)) {
    test(name, async (t) => {
        const client = await connected(t);
        const transaction = await begin(t);
        const wakeUps = new WakeUps();
        const key = `${name} ${Date.now()}`;
        let ids;
        await transaction(async (db) => {
            const options = { delay: '1 h', uniqueKey: `? $2 ${key}`, limitKeys: undefined };
            ids = [await enqueue(db, task, payload, { ...options, wakeUps })];
            ids.push(await enqueue(db, task, payload, { notify: false, priority: 3 }));
            ids.push(...(await enqueueMany(db, task, [payload, 2], { uniqueKeys: [key, null] })));
            ids.push(...(await enqueueMany(db, task, [3, 4], { queue: 'q', wakeUps })));
            const found = await mine(db);
            assert.deepEqual(
                found.map((one) => one.id),
                ids,
            );
            assert.deepEqual(found[0].payload, payload);
            assert.ok(found[0].runAt > Date.now() + 3_000_000);
        });
        const stored = await client.query(
            'SELECT id::text, payload FROM tenon.task t WHERE id = ANY ($1) ORDER BY t.id',
            [ids],
        );
        assert.deepEqual(
            stored.rows.map((row) => row.id),
            ids,
        );
        assert.deepEqual(stored.rows[0].payload, payload);
        assert.equal(wakeUps.size, 3);
        const sent = [];
        wakeUps.publish({
            publish: (exchange, key, body) => sent.push([exchange, key, `${body}`]),
        });
        assert.deepEqual(sent[2], ['tenon', 'q/from_library', ids[5]]);

        let lost;
        const rolledBack = transaction(async (db) => {
            lost = await enqueue(db, task, payload);
            throw new Error('never mind');
        });
        await assert.rejects(rolledBack, /never mind/);
        const count = 'SELECT count(*)::integer FROM tenon.task WHERE id = $1';
        assert.equal(await single(client, count, lost), 0);

        const claim = await claimed(client, ids[1]);
        await transaction(async (db) => {
            const finishing = handle(task, (_, context) => context.finish(db, payload));
            assert.equal((await run(finishing, null, { claim })).error, undefined);
            assert.equal(await single(client, count, ids[1]), 1);
        });
        const result = 'SELECT result FROM tenon.history WHERE id = $1';
        assert.deepEqual(await single(client, result, ids[1]), payload);
    });
}
