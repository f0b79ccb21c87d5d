// What the package exports. It is written so that `import { enqueue } from 'tenon-tasks'` finds the names as well: Node looks for
// them in the text of this assignment.
'use strict';

const { fromDrizzle, fromKnex, fromKysely, fromPrisma } = require('./src/databases.js');
const { enqueue, enqueueMany } = require('./src/enqueue.js');
const {
    Dead,
    Interrupted,
    InvalidPayload,
    Retry,
    SecretError,
    Snooze,
    Stopped,
    Suspended,
} = require('./src/outcomes.js');
const { Keys, setKeys } = require('./src/secrets.js');
const { defineTask, handle } = require('./src/task.js');
const { Waiter, wait } = require('./src/wait.js');
const { WakeUps } = require('./src/wakeups.js');

module.exports = {
    Dead,
    Interrupted,
    InvalidPayload,
    Keys,
    Retry,
    SecretError,
    Snooze,
    Stopped,
    Suspended,
    Waiter,
    WakeUps,
    defineTask,
    enqueue,
    enqueueMany,
    fromDrizzle,
    fromKnex,
    fromKysely,
    fromPrisma,
    handle,
    setKeys,
    wait,
};
