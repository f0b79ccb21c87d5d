// The types for CommonJS.
import tenon = require('tenon-tasks');
import { run } from 'tenon-tasks/testing';

const mail = tenon.defineTask<{ to: string }>('mail');
const onMail = tenon.handle(mail, async ({ to }, { id }) => `${id}: ${to}`);
export const ran: Promise<string> = run(onMail, { to: 'ann@example.org' }).then((it) => it.outcome);
// @ts-expect-error: it has another shape
run(onMail, { to: 1 }).then(() => {});
