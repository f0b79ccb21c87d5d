// The snippets of README.md, in a new project, with the package as npm installs it.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { defineTask, enqueue, Keys, setKeys } from 'tenon-tasks';
import { connected, DATABASE_URL, directory, HERE, ran, single, tenon } from './support.js';

const PACKAGE = await realpath(join(HERE, '../node_modules/tenon-tasks'));
const APP_KEYS = `2026-11:${randomBytes(32).toString('base64')}`;
const env = { ...process.env, APP_DATABASE_URL: DATABASE_URL, APP_KEYS };
delete env.NODE_TEST_CONTEXT; // a test within a test

// Each block is one of these files, which are run below, or one of the two of commands.
const FILES = [
    'tasks',
    'signup',
    'results',
    'web',
    'handlers',
    'many',
    'nightly',
    'deploy',
    'tracing',
    'sentry',
    'with-postgres',
    'with-knex',
    'with-kysely',
    'with-drizzle',
]
    .concat(['publish', 'webhook', 'import', 'pay', 'order', 'cards', 'handlers.test'])
    .map((name) => `${name}.js`);

async function blocks(language) {
    const readme = await readFile(join(PACKAGE, 'README.md'), 'utf8');
    const found = readme.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'));
    return [...found].map(([, text]) => text);
}

/** A project with a file for each snippet, which begins with its name. */
async function project(t) {
    const dir = await directory(t);
    const readme = await readFile(join(PACKAGE, 'README.md'), 'utf8');
    const names = [];
    for (const [, name, text] of readme.matchAll(/^```js\n\/\/ (\S+)\n(.*?)^```/gms)) {
        await writeFile(join(dir, name), text);
        names.push(name);
    }
    await mkdir(join(dir, 'node_modules'));
    await writeFile(join(dir, 'package.json'), '{ "private": true, "type": "module" }');
    const install = ['install', '--install-links', '--offline', '--no-audit', '--no-fund'];
    await ran('npm', [...install, PACKAGE], { cwd: dir, env });
    return { dir, names };
}

async function worked(dir, modules) {
    const args = ['tenon-node', '--print-handlers', ...modules.map((name) => `./${name}`)];
    const { out } = await ran('npx', args, { cwd: dir, env });
    await writeFile(join(dir, 'handlers.conf'), out);
    const worker = ['worker', '--until-empty', '--slots', '1', '--handlers', 'handlers.conf'];
    await ran(process.env.TENON, worker, { cwd: dir, env: { ...env, AMQP_URL: 'none' } });
}

async function refused(dir, name, args) {
    await assert.rejects(ran(process.execPath, [name, ...args], { cwd: dir, env }));
}

test('no block is left out', async () => {
    const [js, sh] = [await blocks('js'), await blocks('sh')];
    const names = js.map((text) => text.match(/^\/\/ (\S+)\n/)?.[1]);
    assert.deepEqual(names.sort(), FILES.sort());
    assert.equal(sh.length, 2);
    const readme = await readFile(join(PACKAGE, 'README.md'), 'utf8');
    assert.equal(readme.match(/^ *```/gm).length, 2 * (js.length + sh.length + 1)); // with the opening
});

// In a folder with no packages around it; they are fetched.
test('from npm install to the first task', async (t) => {
    const dir = await mkdtemp(join(tmpdir(), 'fresh-'));
    t.after(() => rm(dir, { recursive: true, force: true }));
    const own = (path) => !/\/(tests|node_modules)(\/|$)/.test(path.slice(PACKAGE.length));
    await cp(PACKAGE, join(dir, 'clients/node'), { recursive: true, filter: own });
    await writeFile(join(dir, 'package.json'), '{ "private": true, "type": "module" }');
    const [install, run] = await blocks('sh');
    const path = `${dirname(process.env.TENON)}:${process.env.PATH}`;
    const options = { cwd: dir, env: { ...env, PATH: path, AMQP_URL: 'none' } };
    await ran('bash', ['-ec', install], options);
    for (const text of await blocks('js')) {
        await writeFile(join(dir, text.match(/^\/\/ (\S+)\n/)[1]), text);
    }
    const client = await connected(t);
    await client.query('CREATE TABLE IF NOT EXISTS public.users (mail text PRIMARY KEY)');
    await ran(
        'bash',
        ['-ec', `node signup.js fresh@example.org\n${run.trimEnd()} --until-empty`],
        options,
    );
    const sent = `SELECT count(*)::integer FROM tenon.history WHERE result = '{"sent": true}'
                   AND payload->>'to' = 'fresh@example.org'`;
    assert.equal(await single(client, sent), 1);
});

test('what the README says is so', async (t) => {
    const client = await connected(t);
    const { dir, names } = await project(t);
    const node = (...args) => ran(process.execPath, args, { cwd: dir, env });
    await ran(process.env.TENON, ['setup'], { env }); // the exchange
    await client.query('CREATE TABLE IF NOT EXISTS public.users (mail text PRIMARY KEY)');
    await client.query('TRUNCATE public.users');

    await t.test('enqueue', async () => {
        const { out } = await node('signup.js', 'ann@example.org');
        assert.match(out, /^task \d+$/m);
        await refused(dir, 'signup.js', ['ann@example.org']); // is there already
        await refused(dir, 'signup.js', ['nobody']); // no address: no user either
        const { out: many } = await node('many.js');
        assert.match(many, /^2 tasks$/m);
        await node('publish.js');
        const libraries = names.filter((name) => name.startsWith('with-'));
        assert.equal(libraries.length, 4);
        for (const name of libraries) {
            await node(name);
        }
        const both = `SELECT count(*)::integer FROM users JOIN tenon.task ON payload->>'to' = mail`;
        assert.equal(await single(client, both), 5);
        assert.equal(await single(client, 'SELECT count(*)::integer FROM users'), 5);
    });

    await t.test('handle', async () => {
        await worked(dir, ['handlers.js']);
        const sent = `SELECT count(*)::integer FROM tenon.history JOIN users ON payload->>'to' = mail
                       WHERE result = '{"sent": true}'`;
        assert.equal(await single(client, sent), 5);
        const one = ['worker', '--handlers', 'handlers.conf', '--run-one', 'welcome_mail', '-'];
        const { out } = await ran(process.env.TENON, one, {
            cwd: dir,
            env,
            input: '{"to": "a@b"}',
        });
        assert.deepEqual(JSON.parse(out), { sent: true });
    });

    await t.test('wait for results', async (t) => {
        const worker = tenon(t, ['worker', '--handlers', 'handlers.conf'], {
            cwd: dir,
            env: { ...env, AMQP_URL: 'none' },
        });
        const { out } = await node('results.js');
        assert.match(out, /^done { sent: true }$/m);
        const id = await single(client, 'SELECT max(id) FROM tenon.history');
        const answer = `import('./web.js').then(async ({ answer, waiter }) => {
            console.log(JSON.stringify(await answer(${id})));
            await waiter.close();
        })`;
        const { out: answered } = await node('-e', answer);
        assert.deepEqual(JSON.parse(answered), { state: 'done', result: { sent: true } });
        worker.kill(); // with SIGTERM: a cleaner would stay for a worker that died
        await worker.end;
    });

    await t.test('flows, schedules, limits; what holds everywhere', async () => {
        await node('nightly.js');
        const blocked = `SELECT count(*)::integer FROM tenon.tasks WHERE state = 'blocked'`;
        assert.equal(await single(client, blocked), 2); // by its limit, and by its parent
        const next = 'SELECT kind FROM tenon.schedule WHERE name = $1';
        assert.equal(await single(client, next, 'nightly'), 'resize');
        const { out } = await node('deploy.js');
        assert.match(out, /^schedule weekly added$/m);
        assert.match(out, /^schedule nightly removed$/m);
        assert.equal((await node('deploy.js')).out, '');
        await client.query(`SELECT tenon.cancel_flow(max(id)) FROM tenon.flow`);
        await client.query(`SELECT tenon.remove_schedule('weekly')`);
    });

    await t.test('outcomes, long tasks, exactly once', async (t) => {
        const asked = [];
        const server = createServer((request, response) => {
            asked.push(request.headers['idempotency-key']);
            response.writeHead(Number(request.url.slice(1))).end();
        });
        await once(server.listen(0, '127.0.0.1'), 'listening');
        t.after(() => server.close());
        await client.query(
            'CREATE TABLE IF NOT EXISTS account (id integer PRIMARY KEY, balance integer)',
        );
        await client.query(
            'INSERT INTO account VALUES (7, 1) ON CONFLICT (id) DO UPDATE SET balance = 1',
        );
        const ids = [];
        for (const status of [200, 404, 429, 500]) {
            const url = `http://127.0.0.1:${server.address().port}/${status}`;
            ids.push(await enqueue(client, defineTask('webhook'), { url, body: { a: 1 } }));
        }
        ids.push(await enqueue(client, defineTask('import_rows'), { rows: 5 }));
        ids.push(await enqueue(client, defineTask('pay'), { account: 7, amount: 3 }));
        await worked(dir, ['webhook.js', 'import.js', 'pay.js']);
        const states = [];
        for (const id of ids) {
            states.push(await single(client, 'SELECT state FROM tenon.tasks WHERE id = $1', id));
        }
        assert.deepEqual(states, ['done', 'dead', 'scheduled', 'retrying', 'done', 'done']);
        assert.deepEqual(asked.sort(), ids.slice(0, 4).sort());
        assert.equal(await single(client, 'SELECT balance FROM account WHERE id = 7'), 4);
    });

    await t.test('steps', async () => {
        await client.query('CREATE TABLE IF NOT EXISTS shelf AS SELECT 9 AS items');
        const task = await enqueue(client, defineTask('order'), { order: 17 });
        await worked(dir, ['order.js']);
        const steps = async () =>
            single(client, 'SELECT steps FROM tenon.tasks WHERE id = $1', task);
        const { reserve, charge } = await steps();
        assert.deepEqual([reserve, charge], [1, { key: `charge-${task}` }]);
        const wake = 'UPDATE tenon.task SET run_at = now() WHERE id = $1';
        await client.query(wake, [task]);
        const slept = `UPDATE tenon.task_step SET value = '0' WHERE task_id = $1 AND name = $2`;
        await client.query(slept, [task, 'cooling-off']);
        await worked(dir, ['order.js']);
        const state = 'SELECT state FROM tenon.tasks WHERE id = $1';
        assert.equal(await single(client, state, task), 'blocked');
        await client.query(`SELECT tenon.signal('payment:17', '{"amount": 30}')`);
        await ran(process.env.TENON, ['cleaner', '--once'], { env: { ...env, AMQP_URL: 'none' } });
        await worked(dir, ['order.js']);
        const result = 'SELECT result FROM tenon.history WHERE id = $1';
        assert.equal(await single(client, result, task), 'ship');
        assert.equal(await single(client, 'SELECT items FROM shelf'), 8);
    });

    await t.test('secrets', async () => {
        const keys = Keys.parse(APP_KEYS);
        setKeys(keys);
        const task = defineTask('charge_card', undefined, { secret: 'payload' });
        const id = await enqueue(client, task, { card: '4111' });
        await worked(dir, ['cards.js']);
        const row = 'SELECT json_build_array(payload, result) FROM tenon.history WHERE id = $1';
        const [payload, result] = await single(client, row, id);
        assert.doesNotMatch(JSON.stringify([payload, result]), /4111/);
        const of = { kind: 'charge_card', what: 'result' };
        assert.deepEqual(keys.decrypt(result, of), { charged: '4111' });
    });

    await t.test('middleware: a trace continues in the handler', async () => {
        const parent = '0af7651916cd43dd8448eb211c80319c';
        await writeFile(
            join(dir, 'traced.js'),
            `import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
             import { handle, Snooze } from 'tenon-tasks';
             import { run } from 'tenon-tasks/testing';
             import { welcomeMail } from './tasks.js';
             import './tracing.js';
             import { onWelcomeMail } from './handlers.js';
             const exporter = new InMemorySpanExporter();
             new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
             const trace = '00-${parent}-b7ad6b7169203331-01';
             await run(onWelcomeMail, { to: 'a@b' }, { trace });
             const fails = handle(welcomeMail, () => { throw new Error('no') });
             await run(fails, { to: 'a@b' });
             const later = handle(welcomeMail, () => { throw new Snooze('no') });
             await run(later, { to: 'a@b' });
             const spans = exporter.getFinishedSpans();
             console.error(JSON.stringify(spans.map((s) => [s.name, s.spanContext().traceId, s.events.length])));`,
        );
        const { err } = await node('traced.js');
        const spans = JSON.parse(err);
        assert.deepEqual(spans[0], ['welcome_mail', parent, 0]);
        assert.deepEqual(
            spans.map(([name, , events]) => [name, events]),
            [
                ['welcome_mail', 0],
                ['welcome_mail', 1],
                ['welcome_mail', 0],
            ],
        );
    });

    await t.test('the middleware for Sentry', async () => {
        const sentry = join(dir, 'node_modules/@sentry/node'); // the light one: the same scopes, without OpenTelemetry
        await mkdir(sentry, { recursive: true });
        await writeFile(
            join(sentry, 'package.json'),
            '{ "type": "module", "exports": "./index.js" }',
        );
        await writeFile(join(sentry, 'index.js'), `export * from '@sentry/node-core/light';`);
        await writeFile(
            join(dir, 'reported.js'),
            `import * as Sentry from '@sentry/node';
             import { defineTask, handle, Retry, Snooze } from 'tenon-tasks';
             import { run } from 'tenon-tasks/testing';
             import './sentry.js';
             const events = [];
             const send = async () => ({});
             Sentry.init({
                 dsn: 'http://key@localhost/1',
                 transport: () => ({ send, flush: async () => true }),
                 beforeSend: (event) => void events.push([event.exception.values[0].value, event.tags]),
             });
             const task = defineTask('k');
             const outcomes = [() => 1, () => { throw new Error('no') }, () => { throw new Snooze('later') }];
             await Promise.all(outcomes.map((work, i) => run(handle(task, work), {}, { id: String(i), attempt: 2 })));
             await Sentry.flush(2000);
             console.error(JSON.stringify(events));`,
        );
        const { err } = await node('reported.js');
        const tags = { 'tenon.kind': 'k', 'tenon.task': '1', 'tenon.attempt': 2 };
        assert.deepEqual(JSON.parse(err), [['no', tags]]);
    });

    await t.test('TypeScript', async () => {
        const text = `import { defineTask, handle } from 'tenon-tasks';
            export const onDouble = handle(defineTask<{ n: number }>('double'), ({ n }): number => 2 * n);`;
        await writeFile(join(dir, 'double.ts'), text);
        const command = 'double=pool:exec npx tenon-node ./double.ts';
        const tsx = { ...env, NODE_OPTIONS: '--import tsx' };
        const args = ['worker', '--handler', command, '--run-one', 'double', '-'];
        const options = { cwd: dir, env: tsx, input: '{"n": 21}' };
        const { out } = await ran(process.env.TENON, args, options);
        assert.equal(out.trim(), '42');
    });

    await t.test('test', async () => {
        const { out } = await node('--test', 'handlers.test.js');
        assert.match(out, /pass 3/);
    });
});
