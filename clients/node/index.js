// What the package exports. It is written so that `import { enqueue } from 'tenon-tasks'` finds the names as well: Node looks for
// them in the text of this assignment.
'use strict';

const {
    batch,
    cancel,
    cancelFlow,
    closeBatch,
    flow,
    parentResults,
    removeLimit,
    removeSchedule,
    result,
    retry,
    runNow,
    setLimit,
    setSchedule,
    signal,
    takeLimit,
} = require('./src/acts.js');
const { fromDrizzle, fromKnex, fromKysely, fromPrisma } = require('./src/databases.js');
const { enqueue, enqueueMany } = require('./src/enqueue.js');
const { use } = require('./src/middleware.js');
const { publish, publishMany } = require('./src/publish.js');
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
const { description, sync } = require('./src/sync.js');
const { Waiter, wait } = require('./src/wait.js');
const { WakeUps } = require('./src/wakeups.js');
const { watch } = require('./src/watch.js');

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
    batch,
    cancel,
    cancelFlow,
    closeBatch,
    defineTask,
    description,
    enqueue,
    enqueueMany,
    flow,
    fromDrizzle,
    fromKnex,
    fromKysely,
    fromPrisma,
    handle,
    parentResults,
    publish,
    publishMany,
    removeLimit,
    removeSchedule,
    result,
    retry,
    runNow,
    setKeys,
    setLimit,
    setSchedule,
    signal,
    sync,
    takeLimit,
    use,
    wait,
    watch,
};
