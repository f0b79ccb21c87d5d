// What the tests share. The servers are those of DATABASE_URL and AMQP_URL, the program that of TENON.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';

export const DATABASE_URL = process.env.DATABASE_URL;
export const HERE = fileURLToPath(new URL('.', import.meta.url));
export const TENON_NODE = join(HERE, '../node_modules/tenon-tasks/bin/tenon-node.js');

/** A client, which ends with the test. */
export async function connected(t) {
    const client = new pg.Client({ connectionString: DATABASE_URL });
    await client.connect();
    t.after(() => client.end());
    return client;
}

/** The only value of a row. */
export async function single(client, text, ...params) {
    const { rows } = await client.query({ text, values: params, rowMode: 'array' });
    return rows[0]?.[0];
}

/** The claim of a task that a worker would have now. */
export function claimed(client, id) {
    const claim = `UPDATE tenon.task SET start_time = now(), claim_key = tenon.random_key(), worker_id = gen_random_uuid(), claims = 1
        WHERE id = $1
        RETURNING concat_ws('/', id, claims, lpad(to_hex(claim_key), 16, '0'))`;
    return single(client, claim, id);
}

/** Asks until it is true. */
export async function awaited(client, text, ...params) {
    for (const end = Date.now() + 30_000; Date.now() < end; ) {
        if (await single(client, text, ...params)) {
            return;
        }
        await client.query('SELECT pg_sleep(0.01)');
    }
    throw new Error(`not within 30 s: ${text}`);
}

/** A directory beside the packages, which goes with the test. */
export async function directory(t) {
    const path = await mkdtemp(join(HERE, '../try-'));
    t.after(() => rm(path, { recursive: true, force: true }));
    return path;
}

/** The end of a program, with all that it printed. */
export async function ended(child) {
    let [out, err] = ['', ''];
    child.stdout?.on('data', (data) => {
        out += data;
    });
    child.stderr?.on('data', (data) => {
        err += data;
    });
    const [code, signal] = await once(child, 'close');
    return { code, signal, out, err };
}

/** Runs a program to its end; it has to end well. */
export async function ran(command, args, options = {}) {
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], ...options });
    child.stdin.end(options.input ?? '');
    const end = await ended(child);
    if (end.code !== (options.code ?? 0)) {
        throw new Error(`${command} ${args.join(' ')}: ${JSON.stringify(end)}`);
    }
    return end;
}

/** A program of tenon, which is killed with the test. */
export function tenon(t, args, options = {}) {
    const child = spawn(process.env.TENON, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
    child.end = ended(child);
    t.after(() => child.kill('SIGKILL'));
    return child;
}

/** A pool child, spoken with as a worker does. */
export class Pool {
    constructor(t, module, args = [], env = {}) {
        this.child = spawn(process.execPath, [TENON_NODE, ...args, module], {
            stdio: ['pipe', 'pipe', 'pipe'],
            env: { ...process.env, ...env },
        });
        this.end = ended(this.child);
        this.lines = [];
        this.wanted = [];
        let rest = '';
        this.child.stdout.setEncoding('utf8').on('data', (data) => {
            const parts = (rest + data).split('\n');
            rest = parts.pop();
            for (const part of parts) {
                this.lines.push(part);
                this.wanted.shift()?.();
            }
        });
        this.child.on('close', () => {
            for (const wanted of this.wanted) {
                wanted();
            }
        });
        t.after(() => this.child.kill('SIGKILL'));
    }

    /** The next line that it says, as an object; what it says of its start is passed over. */
    async line() {
        const line = JSON.parse(await this.text());
        return 'starting' in line ? this.line() : line;
    }

    async text() {
        if (this.lines.length === 0) {
            await new Promise((resolve) => this.wanted.push(resolve));
        }
        const line = this.lines.shift();
        if (line === undefined) {
            throw new Error(`it ended: ${JSON.stringify(await this.end)}`);
        }
        return line;
    }

    say(line) {
        this.child.stdin.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`);
    }

    task(id, kind, payload = {}, more = {}) {
        const claim = `${id}/1/0000000000000000`;
        const counts = { attempt: 1, failures: 0, max_attempts: 25, timeout_ms: 3_600_000 };
        const line = { kind, queue: 'default', ...counts, claim, trace: null, progress: null };
        const rest = JSON.stringify({ ...line, ...more, payload }).slice(1);
        this.say(`{"id":${id},${rest}`);
    }
}
