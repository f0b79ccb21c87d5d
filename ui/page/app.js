// Which view an address shows; who is logged in; when to read again.

import { Refused, forgetToken, get, hasToken, keepToken } from './api.js';
import { button, el, patch } from './dom.js';
import { clock } from './format.js';
import { overview } from './overview.js';
import { tasks } from './tasks.js';
import { task } from './task.js';
import { dead } from './dead.js';
import { flow, flows } from './flows.js';
import { kind, kinds } from './kinds.js';
import { limits } from './limits.js';
import { outbox } from './outbox.js';
import { schedules } from './schedules.js';
import { workers } from './workers.js';
import { audit } from './audit.js';

const AGAIN_MS = 2000;
const main = document.getElementById('main');
const trouble = document.getElementById('trouble');

// {pattern, title, view}; a view is given its place and its context and returns a function that reads and shows, again and again.
const views = [
    { pattern: /^\/$/, title: 'Overview', view: overview },
    { pattern: /^\/tasks$/, title: 'Tasks', view: tasks },
    { pattern: /^\/tasks\/(\d+)$/, title: 'Task', view: task },
    { pattern: /^\/dead$/, title: 'Dead tasks', view: dead },
    { pattern: /^\/flows$/, title: 'Flows', view: flows },
    { pattern: /^\/flows\/(\d+)$/, title: 'Flow', view: flow },
    { pattern: /^\/kinds$/, title: 'Kinds', view: kinds },
    { pattern: /^\/kinds\/([A-Za-z0-9_.:-]+)$/, title: 'Kind', view: kind },
    { pattern: /^\/limits$/, title: 'Limits', view: limits },
    { pattern: /^\/outbox$/, title: 'Outbox', view: outbox },
    { pattern: /^\/schedules$/, title: 'Schedules', view: schedules },
    { pattern: /^\/workers$/, title: 'Workers', view: workers },
    { pattern: /^\/audit$/, title: 'Audit', view: audit },
];

let session = null; // what /api/session says
let shown = 0;      // counts what was shown: an older view's reading changes nothing
let timer = 0;
let refresh = null;
let readAt = null;  // when this view was last read whole

function say(text) {
    document.getElementById('status').textContent = text;
}

// --- showing ---

function schedule(mine) {
    clearTimeout(timer);
    timer = setTimeout(() => read(mine), AGAIN_MS);
}

// No reading begins while nobody can see it, or while a question is open.
async function read(mine) {
    if (mine !== shown || document.visibilityState !== 'visible') {
        return;
    }
    try {
        if (!document.getElementById('dialog').open) {
            await refresh();
            readAt = new Date();
        }
        if (mine === shown) fresh();
    } catch (error) {
        if (mine === shown) failed(error);
    }
    if (mine === shown && session) schedule(mine);
}

function fresh() {
    main.classList.remove('stale');
    main.removeAttribute('aria-busy');
    trouble.textContent = '';
}

function failed(error) {
    if (error instanceof Refused && error.status === 401) {
        session = null;
        const wrong = hasToken(); // of a tenon ui that has ended, or mistyped
        forgetToken();
        showLogin(error.body.login ?? { token: true });
        if (wrong) trouble.textContent = error.message;
        return;
    }
    const away = !(error instanceof Refused) || error.status === 503;
    const what = error instanceof Refused ? error.message : `tenon ui does not answer: ${error.message}`;
    main.classList.toggle('stale', readAt !== null && away);
    main.removeAttribute('aria-busy');
    trouble.textContent = away && readAt !== null ? `As of ${clock(readAt)}: ${error instanceof Refused ? `the database is away. ${what}` : what}` : what;
}

function show() {
    const found = views.find((v) => v.pattern.test(location.pathname));
    const mine = ++shown;
    readAt = null;
    fresh();
    for (const a of document.querySelectorAll('nav a')) {
        const here = a.pathname === '/' ? location.pathname === '/' : location.pathname.startsWith(a.pathname);
        if (here) a.setAttribute('aria-current', 'page');
        else a.removeAttribute('aria-current');
    }
    if (!found) {
        main.replaceChildren(el('h1', {}, 'Page not found'), el('p', {}, 'No view has this address.'));
        return;
    }
    const parameter = found.pattern.exec(location.pathname)[1];
    document.title = `${found.title}${parameter ? ` ${parameter}` : ''} - tenon`;
    const place = el('div', { class: 'view' });
    main.setAttribute('aria-busy', 'true');
    main.replaceChildren(el('h1', {}, `${found.title}${parameter ? ` ${parameter}` : ''}`), place);
    refresh = found.view(place, {
        parameter, query: new URLSearchParams(location.search), session, say, go, reload: () => read(mine),
    });
    read(mine);
}

function go(path) {
    history.pushState(null, '', path);
    say('');
    show();
    main.focus();
}

document.addEventListener('click', (event) => {
    const a = event.target.closest('a');
    if (a && a.origin === location.origin && !a.hash && event.button === 0 &&
        !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)) {
        event.preventDefault();
        go(a.pathname + a.search);
    }
});
addEventListener('popstate', () => session && show());
document.addEventListener('visibilitychange', () => session && read(shown));

// --- day and night ---

const THEMES = { auto: 'Auto', light: 'Day', dark: 'Night' };

function showTheme() {
    const root = document.documentElement, node = document.getElementById('theme');
    const now = root.dataset.theme ?? 'auto', names = Object.keys(THEMES), next = names[(names.indexOf(now) + 1) % names.length];
    node.textContent = THEMES[now];
    node.setAttribute('aria-label', `Colours: ${THEMES[now]}. Change to ${THEMES[next]}`);
    node.onclick = () => {
        if (next === 'auto') delete root.dataset.theme;
        else root.dataset.theme = next;
        localStorage.setItem('tenon-theme', next);
        showTheme();
    };
}
showTheme();

// --- who ---

function showWho() {
    const text = `${session.user ?? session.role}${session.may_act ? '' : ', read-only'}`;
    patch(document.getElementById('who'), el('span', { title: session.database }, text), hasToken() && button('Log out', logOut));
}

function logOut() {
    forgetToken();
    session = null;
    start();
}

// What to do without a token, a password or a proxy that names the user.
function showLogin(means) {
    shown++;
    document.title = 'Log in - tenon';
    patch(document.getElementById('who'));
    main.classList.remove('stale');
    main.removeAttribute('aria-busy');
    main.replaceChildren(...[el('h1', {}, 'Log in'),
        means.password && el('p', {}, 'Load this page again to enter your name and password.'),
        means.proxy && el('p', {}, 'The proxy in front of this page must log you in.'),
        means.token && el('form', { class: 'login', onsubmit: takeTyped },
            el('p', {}, el('label', { for: 'token' }, 'Token'),
                el('input', { id: 'token', name: 'token', type: 'password', autocomplete: 'off', required: true })),
            el('p', {}, el('button', {}, 'Log in')),
            el('p', { class: 'dim' }, 'tenon ui prints the token when it starts. With --token-file, it is the first line of that file.'))].filter(Boolean));
    main.querySelector('input')?.focus();
}

function takeTyped(event) {
    event.preventDefault();
    keepToken(new FormData(event.target).get('token'));
    trouble.textContent = '';
    start();
}

// The token of the address that tenon ui prints: it never reaches a log, and leaves the address at once.
function takeToken() {
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (token) {
        history.replaceState(null, '', location.pathname + location.search);
        keepToken(token);
    }
}

async function start() {
    try {
        session = await get('session');
        showWho();
        show();
    } catch (error) {
        failed(error);
        if (!(error instanceof Refused) || error.status !== 401) setTimeout(start, AGAIN_MS);
    }
}

takeToken();
start();
