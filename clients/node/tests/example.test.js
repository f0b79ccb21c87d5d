// What Node can do without the package: examples/producer.js, and the snippets of docs/start.md.
import assert from 'node:assert/strict';
import { readFile, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { connected, directory, HERE, ran, single } from './support.js';

const ROOT = join(await realpath(join(HERE, '../node_modules/tenon-tasks')), '../..');
const env = { ...process.env, NODE_PATH: join(HERE, '../node_modules') };

test('enqueue with SQL, handle with lines', async (t) => {
    const client = await connected(t);
    const dir = await directory(t);
    await client.query('CREATE TABLE IF NOT EXISTS public.users (mail text PRIMARY KEY)');
    const page = await readFile(join(ROOT, 'docs/start.md'), 'utf8');
    const snippet = (heading) =>
        page.split(`\n### ${heading}\n`)[1].split('```js\n')[1].split('```')[0];
    await writeFile(join(dir, 'signup.cjs'), snippet('Node'));
    await writeFile(join(dir, 'mailer.cjs'), snippet('A handler in Node'));

    const cwd = { cwd: dir, env };
    const { out } = await ran(process.execPath, ['signup.cjs', 'snippet@example.org'], cwd);
    assert.match(out, /^task \d+$/m);
    const producer = [join(ROOT, 'examples/producer.js'), 'example@example.org'];
    await ran(process.execPath, producer, cwd);
    await assert.rejects(ran(process.execPath, producer, cwd)); // is there already: no second task
    const handler = 'welcome_mail=pool:exec node mailer.cjs';
    await ran(process.env.TENON, ['worker', '--until-empty', '--handler', handler], {
        cwd: dir,
        env: { ...env, AMQP_URL: 'none' },
    });
    const sent = `SELECT count(*)::integer FROM tenon.history WHERE result = '{"sent": true}'
                     AND payload->>'to' IN ('snippet@example.org', 'example@example.org')`;
    assert.equal(await single(client, sent), 2);
});
