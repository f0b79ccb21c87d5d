#!/usr/bin/env node
// A pool child of a tenon worker, which runs the handlers of the user's modules.
'use strict';

const { parseArgs } = require('node:util');
const { handlersFile, handlersOf } = require('../src/modules.js');
const { serve, takeWire } = require('../src/process.js');

const USAGE = `usage: tenon-node [--concurrency N] [--print-handlers] MODULE...

Runs tasks with the handlers that the modules export, in a pool process of a worker:

    tenon worker --handler 'welcome_mail=pool:exec npx tenon-node ./handlers.js'

or, for many kinds, tenon worker --handlers handlers.conf, where

    npx tenon-node --print-handlers ./handlers.js > handlers.conf

writes the file. What handlers print goes to stderr.

  --concurrency N    maximum tasks at once, 1 to 1024 (default: 10)
  --print-handlers   print entries of a handlers file for the modules' kinds, and exit
`;

const options = /** @type {const} */ ({
    concurrency: { type: 'string', default: '10' },
    'print-handlers': { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
});

/** @param {unknown} error */
function fail(error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    process.stderr.write(`tenon-node: ${text}\n`, () => process.exit(2));
}

function parsed() {
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    const concurrency = Number(values.concurrency);
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 1024) {
        throw new Error('--concurrency: a number from 1 to 1024');
    }
    if (positionals.length === 0 && !values.help) {
        throw new Error('which module? tenon-node --help says more');
    }
    return { ...values, concurrency, modules: positionals };
}

/** @param {ReturnType<typeof parsed>} args */
async function printHandlers({ concurrency, modules }) {
    const kinds = [...(await handlersOf(modules)).keys()].sort();
    const own = [process.execPath, ...process.execArgv, __filename];
    const command = [...own, '--concurrency', String(concurrency), ...modules];
    process.stdout.write(handlersFile(command, kinds, process.cwd()), () => process.exit(0));
}

async function main() {
    const args = parsed();
    if (args.help) {
        process.stdout.write(USAGE);
    } else if (args['print-handlers']) {
        await printHandlers(args);
    } else {
        const wire = takeWire(); // what modules print when they are imported does not go to the worker, either
        wire.output.write(
            `${JSON.stringify({ starting: `importing ${args.modules.join(', ')}` })}\n`,
        );
        serve(await handlersOf(args.modules), args.concurrency, wire);
    }
}

main().catch(fail);
