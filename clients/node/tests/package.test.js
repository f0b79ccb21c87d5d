// The package by both of Node's ways: import and require give the same functions, and no more than the types declare.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import * as imported from 'tenon-tasks';
import * as importedTesting from 'tenon-tasks/testing';

const require = createRequire(import.meta.url);

const named = (module) => {
    const { default: whole, 'module.exports': again, ...names } = module; // what Node adds to CommonJS
    return names;
};

test('import and require', () => {
    assert.deepEqual(named(imported), { ...require('tenon-tasks') });
    assert.deepEqual(named(importedTesting), { ...require('tenon-tasks/testing') });
});

test('what is exported is declared', async () => {
    const index = require.resolve('tenon-tasks').replace(/\.js$/, '.d.ts');
    const acts = index.replace('index', 'acts'); // which index.d.ts exports again
    const types = `${await readFile(index, 'utf8')}\n${await readFile(acts, 'utf8')}`;
    const declared = types.matchAll(/^export (?:declare )?(?:class|function|const) (\w+)/gm);
    assert.deepEqual(
        [...new Set([...declared].map(([, name]) => name))].sort(),
        Object.keys(named(imported)).sort(),
    );
});
