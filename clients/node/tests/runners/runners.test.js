// The helpers for tests under Vitest and Jest, in ES modules and in CommonJS.
import { test } from 'node:test';
import { HERE, ran } from './../support.js';

const HOME = `${HERE}..`;
const env = { ...process.env, NODE_ENV: 'test', CI: 'true' };
delete env.NODE_TEST_CONTEXT;
const bin = (name) => `${HOME}/node_modules/.bin/${name}`;
const jest = ['--rootDir', HOME, '--testEnvironment', 'node', '--testRegex'];

test('Vitest', async () => {
    await ran(bin('vitest'), ['run', 'tests/runners/vitest.test.mjs'], { cwd: HOME, env });
});

test('Jest, CommonJS', async () => {
    await ran(bin('jest'), [...jest, 'runners/jest\\.test\\.cjs$'], { cwd: HOME, env });
});

test('Jest, ES modules', async () => {
    const options = { ...env, NODE_OPTIONS: '--experimental-vm-modules' };
    await ran(bin('jest'), [...jest, 'runners/jest-esm\\.test\\.mjs$'], {
        cwd: HOME,
        env: options,
    });
});
