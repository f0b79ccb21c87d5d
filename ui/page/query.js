// The search: "state:dead kind:mail to = ann@example.org" and the filter that it is.

const KEYS = ['state', 'kind', 'queue', 'error', 'tag', 'key', 'limit', 'flow', 'older', 'payload'];
export const FILTERS = { state: 'state', kind: 'kind', queue: 'queue', error: 'error', tag: 'tag', key: 'unique_key', limit: 'limit_key', flow: 'flow', older: 'older_than',
    payload: 'payload' };
const WORDS = Object.fromEntries(KEYS.map((key) => [FILTERS[key], key]));

// "to = ann@example.org" is short for a predicate of SQL/JSON path.
export function payloadPath(text) {
    const short = /^([A-Za-z_][\w.]*)\s*={1,2}\s*(.+)$/.exec(text.trim());
    if (!short) return text.trim();
    const value = short[2].trim();
    const isJson = /^(-?\d+(\.\d+)?|true|false|null|".*")$/.test(value);
    const path = short[1].split('.').map((key) => `.${JSON.stringify(key)}`).join('');
    return `$${path} == ${isJson ? value : JSON.stringify(value)}`;
}

// The words of a text: key:value, key:"a value", or something else, of which what is left is about the payload.
export function read(text) {
    const query = new URLSearchParams(), rest = [];
    for (const [word, key, quoted, plain] of text.matchAll(/(?:([a-z]+):(?:"([^"]*)"|(\S+)))|\S+/g)) {
        const value = quoted ?? plain;
        if (key === 'payload') rest.push(value);
        else if (KEYS.includes(key)) query.set(FILTERS[key], value);
        else rest.push(word);
    }
    if (rest.length === 1 && /^\d+$/.test(rest[0]) && query.size === 0) return { task: rest[0], query };
    if (rest.length > 0) query.set('payload', rest.join(' '));
    return { task: null, query };
}

const quote = (value) => (/[\s"]/.test(value) ? `"${value.replaceAll('"', '')}"` : value);

// The text of an address.
export function write(query) {
    return Object.values(FILTERS).filter((name) => query.get(name)).map((name) => (name === 'payload' ? query.get(name) : `${WORDS[name]}:${quote(query.get(name))}`)).join(' ');
}

export function filterOf(query) {
    const filter = {};
    for (const name of Object.values(FILTERS)) {
        const value = query.get(name);
        if (value) filter[name] = name === 'payload' ? payloadPath(value) : name === 'state' ? value.split(',') : value;
    }
    return filter;
}

// What the word at the end of the text could become: at most `most` texts.
export function complete(text, names, states, most = 12) {
    const at = text.search(/\S*$/), begun = text.slice(0, at), word = text.slice(at), colon = word.indexOf(':');
    if (colon < 0) return KEYS.filter((key) => key !== 'payload' && key.startsWith(word)).map((key) => `${begun}${key}:`).slice(0, most);
    const values = { state: states, kind: names.kinds, queue: names.queues, error: names.errors, tag: names.tags, older: ['1h', '1d', '7d'] }[word.slice(0, colon)] ?? [];
    const typed = word.slice(colon + 1).toLowerCase();
    const fits = values.filter((v) => v.toLowerCase().includes(typed));
    fits.sort((a, b) => b.toLowerCase().startsWith(typed) - a.toLowerCase().startsWith(typed));
    return fits.slice(0, most).map((v) => `${begun}${word.slice(0, colon + 1)}${quote(v)} `);
}
