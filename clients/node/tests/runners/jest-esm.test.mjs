// tenon-tasks/testing under Jest, in ES modules.
import * as jest from '@jest/globals';
import pg from 'pg';
import * as tenon from 'tenon-tasks';
import * as testing from 'tenon-tasks/testing';
import cases from './cases.cjs';

cases(jest, { pg, tenon, testing });
