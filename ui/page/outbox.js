// Messages that RabbitMQ does not have yet: how many wait, and which are refused.

import { get, post } from './api.js';
import { question } from './acts.js';
import { button, el, link, patch, table } from './dom.js';
import { count, span } from './format.js';
import { moment, state } from './parts.js';

function act(ctx, name, what, target) {
    return question(ctx, name === 'retry' ? `Send ${what} again?` : `Delete ${what}?`, el('p', {}, name === 'retry' ? 'The relay publishes it again.' : 'It never reaches RabbitMQ.'),
        name === 'retry' ? 'Retry' : 'Delete', [], async () => {
            const done = await post(`outbox/${name}`, target);
            return `${count(done.n)} ${done.n === 1 ? 'message' : 'messages'} ${name === 'retry' ? 'retried' : 'deleted'}.`;
        });
}

function buttons(m, ctx) {
    const one = (name, text) => button(text, () => act(ctx, name, `the message ${m.id}`, { ids: [m.id] }), { 'data-key': `${name}-${m.id}`, 'aria-label': `${text} the message ${m.id}` });
    return m.state === 'refused' && [one('retry', 'Retry'), one('delete', 'Delete')];
}

export function outbox(place, ctx) {
    const columns = [
        { head: 'Message', class: 'n name', cell: (m) => m.id },
        { head: 'State', class: 'first', cell: (m) => state(m.state === 'refused' ? 'error' : m.state, m.state) },
        { head: 'Exchange', cell: (m) => m.exchange },
        { head: 'Routing key', class: 'long', cell: (m) => m.routing_key },
        { head: 'Order key', class: 'wide', cell: (m) => m.order_key },
        { head: 'Published', cell: (m) => [moment(m.created_at), el('small', {}, ` by ${m.published_by}`)] },
        { head: 'Size', class: 'n wide', cell: (m) => count(m.bytes) },
        { head: 'Error', class: 'long', cell: (m) => m.error && el('span', { class: 'red' }, m.error, m.retry_at && [' (again ', moment(m.retry_at), ')']) },
        ctx.session.may_act && { head: 'Actions', class: 'act first', cell: (m) => buttons(m, ctx) },
    ].filter(Boolean);
    return async () => {
        const wanted = ctx.query.get('state'), o = await get('outbox', { state: wanted, exchange: ctx.query.get('exchange'), cursor: ctx.query.get('cursor') });
        const next = new URLSearchParams(ctx.query);
        next.set('cursor', o.next);
        const number = (name, value, className) => el('div', { class: className, 'data-key': `n-${name}` }, el('dt', {}, name), el('dd', {}, value));
        patch(place, el('dl', { class: 'numbers', 'data-key': 'numbers' },
            number('Refused', o.refused > 0 ? link('/outbox?state=refused', count(o.refused, o.at_least)) : '0', o.refused > 0 ? 'red' : null),
            number('Waiting', count(o.waiting, o.at_least)),
            number('Oldest waiting', o.oldest_seconds === null ? '-' : span(o.oldest_seconds), o.oldest_seconds > 60 ? 'amber' : null)),
        wanted && el('p', { 'data-key': 'all' }, link('/outbox', 'Show all')),
        table('Messages, the oldest first', columns, o.messages, { empty: 'No message waits: RabbitMQ has them all.', key: (m) => m.id, cards: true, rowClass: (m) => (m.state === 'refused' ? 'red' : null) }),
        o.next !== null && el('p', { 'data-key': 'next' }, link(`/outbox?${next}`, 'Next page')));
    };
}
