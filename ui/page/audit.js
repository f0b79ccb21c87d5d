// The audit: acts, with the user and the reason.

import { get } from './api.js';
import { el, link, patch, table } from './dom.js';
import { count } from './format.js';
import { moment } from './parts.js';

export function audit(place, ctx) {
    const columns = [
        { head: 'Act', class: 'n', cell: (a) => a.id },
        { head: 'When', cell: (a) => moment(a.at) },
        { head: 'Who', cell: (a) => (a.what.web_user ? `${a.what.web_user} (${a.who})` : a.who) },
        { head: 'What', cell: (a) => a.act },
        { head: 'Changed', class: 'n', cell: (a) => count(a.n) },
        { head: 'Skipped', class: 'n wide', cell: (a) => a.skipped || '' },
        { head: 'Filter and changes', class: 'long', cell: (a) => el('code', {}, JSON.stringify({ ...a.what, web_user: undefined, why: undefined })) },
        { head: 'Why', class: 'long', cell: (a) => a.what.why },
    ];
    return async () => {
        const acts = (await get('audit', { cursor: ctx.query.get('cursor') })).acts;
        patch(place, table('Who did what, the newest first', columns, acts, { empty: 'Nobody has changed anything yet. Each act of an operator appears here, with who and why.', key: (a) => a.id, cards: true }),
            acts.length === 50 && el('p', {}, link(`/audit?cursor=${acts[49].id}`, 'Next page', { 'data-key': 'next' })));
    };
}
