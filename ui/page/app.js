// Which view an address shows; who is logged in; when to read again.

import { Refused, beginSession, endSession, get } from './api.js';
import { el, button, swap } from './dom.js';
import { overview } from './overview.js';
import { tasks } from './tasks.js';
import { task } from './task.js';
import { dead } from './dead.js';
import { flow, flows } from './flows.js';
import { limits } from './limits.js';
import { schedules, workers, audit } from './lists.js';

const AGAIN_MS = 2000;
const main = document.getElementById('main');
const trouble = document.getElementById('trouble');

// {pattern, title, view}; a view is given the address and the session and returns a function that reads and shows,
// again and again.
const views = [
    { pattern: /^\/$/, title: 'Queues', view: overview },
    { pattern: /^\/tasks$/, title: 'Tasks', view: tasks },
    { pattern: /^\/tasks\/(\d+)$/, title: 'Task', view: task },
    { pattern: /^\/dead$/, title: 'Dead tasks', view: dead },
    { pattern: /^\/flows$/, title: 'Flows', view: flows },
    { pattern: /^\/flows\/(\d+)$/, title: 'Flow', view: flow },
    { pattern: /^\/limits$/, title: 'Limits', view: limits },
    { pattern: /^\/schedules$/, title: 'Schedules', view: schedules },
    { pattern: /^\/workers$/, title: 'Workers', view: workers },
    { pattern: /^\/audit$/, title: 'Audit', view: audit },
];

let session = null; // what /api/session says
let shown = 0;      // counts what was shown: an older view's reading changes nothing
let timer = 0;
let refresh = null;

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
        }
        trouble.textContent = '';
    } catch (error) {
        if (mine === shown) failed(error);
    }
    if (mine === shown && session) schedule(mine);
}

function failed(error) {
    if (error instanceof Refused && error.status === 401) {
        session = null;
        showLogin(error.body.login ?? { token: true });
    } else {
        trouble.textContent = error instanceof Refused ? error.message : `The server does not answer: ${error.message}`;
    }
}

function show() {
    const found = views.find((v) => v.pattern.test(location.pathname));
    const mine = ++shown;
    trouble.textContent = '';
    for (const a of document.querySelectorAll('nav a')) {
        const here = a.pathname === '/' ? location.pathname === '/' : location.pathname.startsWith(a.pathname);
        if (here) a.setAttribute('aria-current', 'page');
        else a.removeAttribute('aria-current');
    }
    if (!found) {
        swap(main, el('h1', {}, 'Page not found'));
        return;
    }
    const parameter = found.pattern.exec(location.pathname)[1];
    document.title = `${found.title}${parameter ? ` ${parameter}` : ''} - tenon`;
    const place = el('div');
    swap(main, el('h1', {}, `${found.title}${parameter ? ` ${parameter}` : ''}`), place);
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

// --- who ---

function showWho() {
    const text = `${session.user ?? session.role}${session.may_act ? '' : ', read-only'}`;
    swap(document.getElementById('who'), el('span', { title: session.database }, text), button('Log out', logOut));
}

async function logOut() {
    await endSession();
    session = null;
    start();
}

function field(name, label, type, autocomplete) {
    return el('p', {}, el('label', { for: name }, label), el('input', { id: name, name, type, autocomplete, required: true }));
}

function showLogin(means) {
    shown++;
    document.title = 'Log in - tenon';
    swap(document.getElementById('who'));
    const form = (fields) => el('form', { class: 'login', onsubmit: logIn }, fields, el('p', {}, el('button', {}, 'Log in')));
    swap(main, el('h1', {}, 'Log in'),
        means.password && form([field('user', 'Name', 'text', 'username'),
            field('password', 'Password', 'password', 'current-password')]),
        means.token && form([field('token', 'Token', 'password', 'off'),
            el('p', { class: 'dim' }, 'tenon ui prints it when it starts; with --token-file it is in that file.')]));
    main.querySelector('input')?.focus();
}

async function logIn(event) {
    event.preventDefault();
    try {
        await beginSession(Object.fromEntries(new FormData(event.target)));
        trouble.textContent = '';
        await start();
    } catch (error) {
        trouble.textContent = error.message;
    }
}

// The token of the address that tenon ui prints: it never reaches a log, and leaves the address at once.
async function takeToken() {
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (token) {
        history.replaceState(null, '', location.pathname + location.search);
        await beginSession({ token });
    }
}

async function start() {
    try {
        session = await get('session');
        showWho();
        show();
    } catch (error) {
        failed(error);
    }
}

takeToken().catch((error) => { trouble.textContent = error.message; }).finally(start);
