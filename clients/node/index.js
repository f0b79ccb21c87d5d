export { fromDrizzle, fromKnex, fromKysely, fromPrisma } from './src/databases.js';
export { enqueue, enqueueMany } from './src/enqueue.js';
export {
    Dead,
    Interrupted,
    InvalidPayload,
    Snooze,
    Retry,
    SecretError,
    Stopped,
    Suspended,
} from './src/outcomes.js';
export { Keys, setKeys } from './src/secrets.js';
export { defineTask, handle } from './src/task.js';
export { Waiter, wait } from './src/wait.js';
export { WakeUps } from './src/wakeups.js';
