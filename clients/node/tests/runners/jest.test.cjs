// tenon-tasks/testing under Jest, in CommonJS modules.
'use strict';

const cases = require('./cases.cjs');
const [pg, tenon, testing] = [
    require('pg'),
    require('tenon-tasks'),
    require('tenon-tasks/testing'),
];

cases(globalThis, { pg, tenon, testing });
