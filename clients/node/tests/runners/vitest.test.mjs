// tenon-tasks/testing under Vitest, in ES modules.
import pg from 'pg';
import * as tenon from 'tenon-tasks';
import * as testing from 'tenon-tasks/testing';
import * as vitest from 'vitest';
import cases from './cases.cjs';

cases(vitest, { pg, tenon, testing });
