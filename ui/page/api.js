// Requests to the JSON API (docs/ui.md).

export class Refused extends Error {
    constructor(status, body) {
        super(body.error ?? `the answer was ${status}`);
        this.status = status;
        this.body = body;
    }
}

async function answer(response) {
    const body = await response.json().catch(() => ({}));
    if (!response.ok) {
        throw new Refused(response.status, body);
    }
    return body;
}

export async function get(path, parameters = {}) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined));
    return answer(await fetch(`/api/${path}${query.size ? `?${query}` : ''}`, { headers: { Accept: 'application/json' } }));
}

export async function post(path, body) {
    return answer(await fetch(`/api/${path}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Tenon': '1' },
        body: JSON.stringify(body),
    }));
}
