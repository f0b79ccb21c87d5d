// Prisma's own transaction: both, or neither.
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PrismaPg } from '@prisma/adapter-pg';
import { defineTask, enqueue, enqueueMany, fromPrisma, handle, WakeUps } from 'tenon-tasks';
import { mine, run } from 'tenon-tasks/testing';
import { claimed, connected, DATABASE_URL, ran, single } from '../support.js';

const HERE = dirname(fileURLToPath(import.meta.url));
const payload = { text: `it's ? $1 "quoted" \u2028😀`, list: [1, [2]], none: null };

test('Prisma', async (t) => {
    // generating wants the engine of migrations to be there, and does not use it
    const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: '/bin/true' };
    await ran('npx', ['prisma', 'generate', '--schema', join(HERE, 'schema.prisma')], { env });
    const { PrismaClient } = await import('@prisma/client');
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: DATABASE_URL }) });
    t.after(() => prisma.$disconnect());
    const client = await connected(t);
    const task = defineTask('from_prisma');
    const wakeUps = new WakeUps();
    const ids = await prisma.$transaction(async (tx) => {
        const db = fromPrisma(tx);
        const one = await enqueue(db, task, payload, { delay: '1 h', wakeUps });
        const many = await enqueueMany(db, task, [payload, 2], { uniqueKeys: ['a', null] });
        assert.deepEqual((await mine(db))[0].payload, payload);
        return [one, ...many];
    });
    const found = 'SELECT count(*)::integer FROM tenon.task WHERE id = ANY ($1)';
    assert.equal(await single(client, found, ids), 3);
    assert.equal(wakeUps.size, 1);
    let lost;
    const rolledBack = prisma.$transaction(async (tx) => {
        lost = await enqueue(fromPrisma(tx), task, payload);
        throw new Error('never mind');
    });
    await assert.rejects(rolledBack, /never mind/);
    assert.equal(await single(client, found, [lost]), 0);
    const claim = await claimed(client, ids[1]);
    await prisma.$transaction(async (tx) => {
        const finishing = handle(task, (_, context) => context.finish(fromPrisma(tx), payload));
        assert.equal((await run(finishing, null, { claim })).error, undefined);
        assert.equal(await single(client, found, [ids[1]]), 1);
    });
    const result = 'SELECT result FROM tenon.history WHERE id = $1';
    assert.deepEqual(await single(client, result, ids[1]), payload);
});
