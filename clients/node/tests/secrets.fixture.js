// What secrets.test.js has run: a task whose values are encrypted.
import { Dead, defineTask, handle, Keys, Retry, setKeys } from 'tenon-tasks';

export const KEYS = new Keys({
    '2026-11': Buffer.alloc(32, '1'),
    '2026-10': Buffer.alloc(32, '0'),
});
setKeys(KEYS);

const card = {
    '~standard': {
        version: 1,
        vendor: 'tests',
        validate: (value) =>
            value.fails === 'misfit' && process.env.SECRET_CHILD
                ? { issues: [{ message: `no card: ${value.number}`, path: [value.number] }] }
                : { value },
    },
};
export const charge = defineTask('charge', card, { secret: 'all', maxAttempts: 1 });

function deeper({ number }) {
    throw new RangeError(`no such card: ${number}\nreally, ${number}`);
}

const ENDS = {
    shows: (_, context) => [context.checkpoint, context.steps.authorise],
    raises: deeper,
    says: () => {
        throw new Dead('Secret, but said on purpose');
    },
    retries: (payload) => {
        try {
            deeper(payload);
        } catch (cause) {
            throw new Retry('', { cause, after: '1 h' });
        }
    },
    result: ({ number }) => ({ [number]: new Map() }),
};

export const onCharge = handle(charge, async (payload, context) => {
    if (payload.fails) {
        return ENDS[payload.fails](payload, context);
    }
    context.progress({ at: payload.number });
    await context.step('authorise', () => `code of ${payload.number}`);
    return { last: payload.number };
});
