// What compose/node.Dockerfile runs: a task `greet`, whose payload is a name.
import { defineTask, handle } from 'tenon-tasks';

export const greet = handle(defineTask('greet'), (name) => `Hello ${name}, from Node`);
