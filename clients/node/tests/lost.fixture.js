// A web process that waits for tasks, behind a proxy that cuts its connection: after 0 bytes of the server, after STEP,
// 2 * STEP ...; `node lost.fixture.js DRIVER TASK STEP` prints what became of the waits. What nobody catches ends it, as
// it would end any web process.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import pg from 'pg';
import postgres from 'postgres';
import { Waiter } from 'tenon-tasks';

const AT_ONCE = 16;
const LIMIT_MS = 30_000;
const url = new URL(process.env.DATABASE_URL);

/** As PostgreSQL says that a session was terminated. */
const FIELDS = [
    'SFATAL',
    'VFATAL',
    'C57P01',
    'Mterminating connection due to administrator command',
];
const BODY = Buffer.from(`${FIELDS.map((field) => `${field}\0`).join('')}\0`);
const FATAL = Buffer.concat([Buffer.from('E\0\0\0\0'), BODY]);
FATAL.writeInt32BE(BODY.length + 4, 1);

/** How a connection is cut. */
const CUTS = {
    end: (socket, rest) => socket.end(rest),
    reset: (socket, rest) => socket.write(rest, () => socket.resetAndDestroy()),
    killed: (socket, rest) => socket.end(Buffer.concat([rest, FATAL])), // in one piece with what was said before
};

/** How many of these bytes are whole messages. */
function whole(said) {
    let at = 0;
    while (at + 5 <= said.length && at + 1 + said.readInt32BE(at + 1) <= said.length) {
        at += 1 + said.readInt32BE(at + 1);
    }
    return at;
}

/**
 * @param {number} bytes of the server, all connections together
 * @param {keyof typeof CUTS} how
 */
async function proxy(bytes, how) {
    let passed = 0;
    let cut;
    const sockets = new Set();
    const server = createServer((client) => {
        const backend = connect(Number(url.port), url.hostname);
        let said = Buffer.alloc(0);
        for (const [socket, other] of [
            [client, backend],
            [backend, client],
        ]) {
            sockets.add(socket.on('error', () => {}).on('close', () => other.destroy()));
        }
        client.on('data', (data) => backend.write(data));
        backend.on('data', (data) => {
            const left = bytes - passed;
            passed += data.length;
            said = Buffer.concat([said, data]);
            if (cut !== client && (cut || left >= data.length)) {
                client.write(data);
            } else if (!cut) {
                cut = client; // and no other one
                const from = said.length - data.length;
                const to = from + left;
                const end = how === 'killed' ? Math.max(whole(said.subarray(0, to)), from) : to;
                CUTS[how](client, said.subarray(from, end));
            }
        });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const through = new URL(url);
    through.hostname = '127.0.0.1';
    through.port = server.address().port;
    const close = () => {
        server.close();
        for (const socket of sockets) {
            socket.destroy();
        }
    };
    return { url: through.href, close, passed: () => passed };
}

const DRIVERS = {
    'node-postgres': {
        make: (through) => new pg.Client(through),
        cuts: ['end', 'reset', 'killed'],
    },
    connected: {
        make: async (through) => {
            const client = new pg.Client(through);
            await client.connect();
            return client;
        },
        cuts: ['end', 'reset'], // what comes with the end of connecting, its own listener must hear
    },
    'postgres.js': {
        make: (through) => postgres(through, { max: 1, fetch_types: false, onnotice() {} }),
        cuts: ['end', 'reset', 'killed'],
    },
};

const [driver, task, step] = process.argv.slice(2);
const { make, cuts } = DRIVERS[driver];
const counts = { bytes: 0, done: 0, lost: 0 };

/** A Waiter of one connection; returns how many bytes the server said. */
async function trial(bytes, how) {
    const { url: through, close, passed } = await proxy(bytes, how);
    const waiter = new Waiter(() => make(through));
    try {
        const { state } = await waiter.wait(task, { timeout: { milliseconds: LIMIT_MS } });
        counts[state] = (counts[state] ?? 0) + 1;
    } catch (error) {
        if (!/^could not wait for task/.test(error.message) || !(error.cause instanceof Error)) {
            throw error;
        }
        counts.lost++;
    }
    await waiter.close();
    close();
    return passed();
}

counts.bytes = await trial(Infinity, 'end');
const trials = [];
for (let bytes = 0; bytes <= counts.bytes; bytes += Number(step)) {
    trials.push(...cuts.map((how) => [bytes, how]));
}
await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
        for (let one = trials.pop(); one; one = trials.pop()) {
            await trial(...one);
        }
    }),
);
console.log(JSON.stringify(counts));
process.exit(0);
