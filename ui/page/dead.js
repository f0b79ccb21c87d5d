// Dead tasks by their errors.

import { get } from './api.js';
import { actButton } from './acts.js';
import { count, el, link, moment, swap, table } from './dom.js';

const filterOf = (g) => ({ state: ['dead'], kind: g.kind, error: g.error_class });

export function dead(place, ctx) {
    const columns = [
        { head: 'Error class', cell: (g) => (g.error_class === null ? el('em', {}, 'none')
            : link(`/tasks?${new URLSearchParams({ state: 'dead', kind: g.kind, error: g.error_class })}`, g.error_class, { 'data-key': `e-${g.kind}-${g.error_class}` })) },
        { head: 'Kind', cell: (g) => g.kind },
        { head: 'Tasks', class: 'n', cell: (g) => count(g.n) },
        { head: 'Queues', class: 'wide', cell: (g) => g.queues.join(', ') },
        { head: 'Last', cell: (g) => moment(g.last_at) },
        { head: 'First', class: 'wide', cell: (g) => moment(g.first_at) },
        { head: 'Newest', class: 'long', cell: (g) => [link(`/tasks/${g.newest_id}`, g.newest_id), ` ${g.error ?? ''}`] },
        ctx.session.may_act && { head: 'Actions', cell: (g) => g.error_class !== null && ['retry', 'delete'].map((name) =>
            actButton(ctx, name, () => filterOf(g), { text: name === 'retry' ? 'Retry…' : 'Delete…', key: `${g.kind}-${g.error_class}`,
                label: `${name} all dead ${g.kind} with ${g.error_class}` })) },
    ].filter(Boolean);
    return async () => {
        const d = await get('dead');
        swap(place, d.at_least && el('p', { class: 'dim' }, 'Only the newest 10,000 dead tasks are counted.'),
            table('Dead tasks by error class and kind', columns, d.groups, 'No dead tasks.'));
    };
}
