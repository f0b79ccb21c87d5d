// Requests to the JSON API (docs/ui.md).

export class Refused extends Error {
    constructor(status, body) {
        super(body.error ?? `the server answered with status ${status}`);
        this.status = status;
        this.body = body;
    }
}

// What the page alone knows of its session: browsers send a host's cookies to all of its ports.
const KEY = 'tenon-session';

async function answer(response) {
    const body = await response.json().catch(() => ({}));
    if (!response.ok) {
        throw new Refused(response.status, body);
    }
    return body;
}

const session = () => ({ 'X-Tenon-Session': localStorage.getItem(KEY) ?? '' });

export async function beginSession(body) {
    localStorage.setItem(KEY, (await post('login', body)).session);
}

export async function endSession() {
    await post('logout', {}).catch(() => {});
    localStorage.removeItem(KEY);
}

export async function get(path, parameters = {}) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined));
    return answer(await fetch(`/api/${path}${query.size ? `?${query}` : ''}`, { headers: { Accept: 'application/json', ...session() } }));
}

export async function post(path, body) {
    return answer(await fetch(`/api/${path}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Tenon': '1', ...session() },
        body: JSON.stringify(body),
    }));
}
