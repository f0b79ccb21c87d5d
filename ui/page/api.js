// Requests to the JSON API (docs/json-api.md). A browser sends a name and a password, or a proxy's cookie, by itself; the token
// of `tenon ui` is sent by this page.

export class Refused extends Error {
    constructor(status, body) {
        super(body.error ?? `the server answered with status ${status}`);
        this.status = status;
        this.body = body;
    }
}

const KEY = 'tenon-token'; // in the storage of this host and port

export const hasToken = () => localStorage.getItem(KEY) !== null;
export const keepToken = (token) => localStorage.setItem(KEY, token);
export const forgetToken = () => localStorage.removeItem(KEY);

const bearer = () => (hasToken() ? { Authorization: `Bearer ${localStorage.getItem(KEY)}` } : {});

// Without the name and the password that the page's own address may have.
const address = (path) => new URL(`/api/${path}`, location.origin);

const LIMIT_MS = 10000; // then the server is taken to be away

async function answer(response) {
    const body = await response.json().catch(() => ({}));
    if (!response.ok) {
        throw new Refused(response.status, body);
    }
    return body;
}

export async function get(path, parameters = {}) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined));
    return answer(await fetch(address(`${path}${query.size ? `?${query}` : ''}`), {
        headers: { Accept: 'application/json', ...bearer() }, signal: AbortSignal.timeout(LIMIT_MS),
    }));
}

export async function post(path, body) {
    return answer(await fetch(address(path), {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Tenon': '1', ...bearer() },
        body: JSON.stringify(body),
    }));
}
