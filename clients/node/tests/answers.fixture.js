// What answers.test.js has run: returns what JSON.parse makes of a text.
import { readFileSync } from 'node:fs';
import { defineTask, handle } from 'tenon-tasks';

const texts = JSON.parse(readFileSync(process.env.TEXTS, 'utf8'));

export const answers = handle(defineTask('answers'), (name) => JSON.parse(texts[name]));
