// The field of the search: it completes names, and knows the last searches.

import { get } from './api.js';
import { el, patch } from './dom.js';
import { complete, read } from './query.js';

const RECENT = 'tenon-searches', RECENT_MAX = 8;

const recent = () => {
    try {
        return JSON.parse(localStorage.getItem(RECENT) ?? '[]').filter((text) => typeof text === 'string');
    } catch {
        return [];
    }
};

function remember(text) {
    if (text) localStorage.setItem(RECENT, JSON.stringify([text, ...recent().filter((t) => t !== text)].slice(0, RECENT_MAX)));
}

// `text`: what it has at first. A combobox (ARIA): the arrows choose, Enter takes the choice or finds, Escape closes.
export function search(text, ctx) {
    let names = null, offers = [], chosen = -1;
    const list = el('ul', { id: 'offers', role: 'listbox', 'aria-label': 'Completions', hidden: true });
    const input = el('input', { id: 'search', name: 'search', type: 'search', value: text, placeholder: 'state:dead kind:mail to = ann@example.org', role: 'combobox',
        'aria-label': 'Search tasks', 'aria-expanded': 'false', 'aria-controls': 'offers', 'aria-autocomplete': 'list', autocomplete: 'off', spellcheck: 'false', 'data-key': 'search' });

    function close() {
        offers = [];
        chosen = -1;
        show();
    }
    function take(offer) {
        input.value = offer;
        input.focus();
        if (offer.endsWith(':') || offer.endsWith(' ')) offer_();
        else close();
    }
    function show() {
        list.hidden = offers.length === 0;
        input.setAttribute('aria-expanded', String(offers.length > 0));
        if (chosen >= 0) input.setAttribute('aria-activedescendant', `offer-${chosen}`);
        else input.removeAttribute('aria-activedescendant');
        patch(list, offers.map((offer, i) => el('li', { id: `offer-${i}`, role: 'option', 'aria-selected': String(i === chosen),
            onmousedown: (event) => { event.preventDefault(); take(offer); } }, offer.trim())));
    }
    async function offer_() {
        names ??= await get('names').catch(() => null);
        if (document.activeElement !== input || !names) return;
        const typed = input.value;
        offers = typed.trim() === '' ? [...recent(), ...complete('', names, ctx.session.states)].slice(0, 14) : complete(typed, names, ctx.session.states);
        offers = offers.filter((o) => o !== typed);
        chosen = -1;
        show();
    }
    function find() {
        const wanted = read(input.value), query = wanted.query;
        remember(input.value.trim());
        close();
        if (order.value) query.set('oldest', 'true');
        ctx.go(wanted.task ? `/tasks/${wanted.task}` : `/tasks${query.size ? `?${query}` : ''}`);
    }
    input.addEventListener('input', offer_);
    input.addEventListener('focus', offer_);
    input.addEventListener('blur', close);
    input.addEventListener('keydown', (event) => {
        if ((event.key === 'ArrowDown' || event.key === 'ArrowUp') && offers.length > 0) {
            event.preventDefault();
            chosen = (chosen + (event.key === 'ArrowDown' ? 1 : -1) + offers.length) % offers.length;
            show();
        } else if (event.key === 'Enter' && chosen >= 0) {
            event.preventDefault();
            take(offers[chosen]);
        } else if (event.key === 'Escape' && offers.length > 0) {
            event.preventDefault();
            close();
        }
    });
    const order = el('select', { id: 'order', 'aria-label': 'Order' }, el('option', { value: '' }, 'the newest first'),
        el('option', { value: 'true', selected: ctx.query.get('oldest') === 'true' }, 'the oldest first'));
    order.addEventListener('change', find);
    return el('form', { class: 'search', role: 'search', 'data-own': true, 'data-key': 'search-form', onsubmit: (event) => { event.preventDefault(); find(); } },
        el('div', { class: 'field' }, input, list), order, el('button', {}, 'Find'), el('a', { href: '/tasks', class: 'go' }, 'Clear'));
}
