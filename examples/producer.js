#!/usr/bin/env node
// Signs users up and enqueues their welcome mails, with SQL only.
//
//     DATABASE_URL=postgresql://... node examples/producer.js ann@example.org bob@example.org
//
// There is no client (clients/node) and no RabbitMQ on this side: the cleaner wakes the workers up, within
// milliseconds. Needs pg (npm install pg, or Debian's node-pg).
'use strict';

const { Client } = require('pg');

// One transaction: the user and the task are both there, or neither.
async function signUp(client, mail) {
    await client.query('BEGIN');
    try {
        await client.query('INSERT INTO users (mail) VALUES ($1)', [mail]);
        const enqueue = "SELECT tenon.enqueue('welcome_mail', $1) AS id";
        const result = await client.query(enqueue, [{ to: mail }]);
        await client.query('COMMIT');
        return result.rows[0].id; // a string: a bigint may be larger than a JavaScript number
    } catch (error) {
        await client.query('ROLLBACK');
        throw error;
    }
}

async function main() {
    const mails = process.argv.slice(2);
    const client = new Client({ connectionString: process.env.DATABASE_URL });
    await client.connect();
    try {
        await client.query('CREATE TABLE IF NOT EXISTS users (mail text PRIMARY KEY)');
        for (const mail of mails.length > 0 ? mails : ['ann@example.org']) {
            console.log(mail, 'signed up, task', await signUp(client, mail));
        }
    } finally {
        await client.end(); // else the process stays
    }
}

main().catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
});
