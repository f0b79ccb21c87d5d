"""What each view of tenon ui shows when there is nothing, while it reads, and when it is refused; and that refreshes take nothing
from under the hand in any view. The answers are made here, in place of the server's. For each_view.py.
"""
import os

from selenium.webdriver.common.action_chains import ActionChains

import views

REFRESHES, AT_LEAST = 1000, 20
LIMIT_MS = 1e9 if os.environ.get("TEST_LONG") else 2800  # of a view: then the others are left to the long variant
# What the server answers is given again: emptied, turned round, refused, or never. What is turned round was answered once, so that a
# refresh takes no longer than the page needs for it.
FETCH = """
window.mode = arguments[0];
window.clicks = 0;
if (!window.real) {
    window.real = window.fetch;
    const kept = new Map();
    const json = (body, status) => new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } });
    const emptied = (body) => Object.fromEntries(Object.entries(body).map(([key, value]) => [key, Array.isArray(value) && key !== 'steps' ? [] : value]));
    const turned = (body) => JSON.parse(JSON.stringify(body), (key, value) => (Array.isArray(value) && typeof value[0] === 'object' && window.turn % 2 ? value.reverse() : value));
    window.turn = 0;
    window.fetch = async (url, options) => {
        if (options?.method === 'POST' || window.mode === 'real') return window.real(url, options);
        if (window.mode === 'never') return new Promise(() => {});
        if (window.mode === 'refused') return json({ error: 'permission denied for table task' }, 403);
        const path = String(url);
        if (window.mode === 'empty' || !kept.has(path)) {
            const answer = await window.real(url, options), body = await answer.json();
            if (window.mode === 'empty') return json(answer.ok ? emptied(body) : body, answer.status);
            kept.set(path, body);
        }
        return json(turned(kept.get(path)), 200);
    };
    // A view that was read is read again in two seconds: that is the end of a refresh.
    const later = window.setTimeout;
    window.setTimeout = (what, ms, ...rest) => {
        if (ms === 2000) window.refreshed?.();
        return later(what, ms, ...rest);
    };
    addEventListener('click', (event) => {
        if (window.mode === 'turned') { window.clicks++; event.preventDefault(); event.stopPropagation(); }
    }, true);
}
"""
REFRESH = """
const [times, least, limitMs, done] = arguments, begun = performance.now();
(async () => {
    let i = 0;
    for (; i < times && (i < least || performance.now() - begun < limitMs); i++) {
        window.turn++;
        const refreshed = new Promise((resolve) => { window.refreshed = resolve; });
        document.dispatchEvent(new Event('visibilitychange'));
        await refreshed;
    }
    done(i);
})();
"""
# A control has the focus, a text is selected, what can be opened is open, and the page and what is in it is scrolled.
HOLD = """
const main = document.querySelector('main'), control = main.querySelector('.view button') ?? main.querySelector('.view a, .view input');
const text = document.querySelector('h1');
main.querySelectorAll('details').forEach((one) => { one.open = true; });
control?.focus();
getSelection().selectAllChildren(main.querySelector('td a, dd a, td, dd') ?? text);
scrollTo(0, 60);
const scrolled = [document.scrollingElement, ...main.querySelectorAll('.scroll, .log, pre')].filter((node) => node.scrollHeight > node.clientHeight);
scrolled.slice(1).forEach((node) => { node.scrollTop = 30; });
window.held = { control, opened: [...main.querySelectorAll('details')], selected: getSelection().toString(), scrolled: scrolled.map((node) => [node, node.scrollTop]) };
return Boolean(control);
"""
SEEN = """
const { control, opened, selected, scrolled } = window.held;
return { alive: !control || control.isConnected, focused: !control || document.activeElement === control,
         open: opened.every((one) => one.isConnected && one.open), trouble: document.getElementById('trouble').textContent,
         moved: scrolled.filter(([node, top]) => node.scrollTop !== top).map(([node, top]) => `${node.tagName} ${top} ${node.scrollTop}`), selected: getSelection().toString() === selected, was: selected, is: getSelection().toString(),
         at: document.activeElement.outerHTML.slice(0, 200) };
"""
EMPTY = ("tasks", "dead", "flows", "limits", "schedules", "workers", "kinds", "outbox", "audit")


def go(page, path, mode):
    """To a view inside of the page, so that what stands in for the server stays."""
    page.driver.execute_script(FETCH, mode)
    page.driver.execute_script("""
        const a = document.createElement('a');
        a.href = '/' + arguments[0];
        document.body.append(a);
        window.mode = arguments[1] === 'turned' ? 'real' : arguments[1];
        a.click();
        a.remove();
        window.mode = arguments[1];""", path, mode)


def refresh(page, times, least=None):
    """How many there were; fewer than `least` never."""
    page.driver.set_script_timeout(900)
    return page.driver.execute_async_script(REFRESH, times, times if least is None else least, LIMIT_MS)


def nothing_is_there(page):
    page.go("")
    page.shows("Log out")
    for path in EMPTY:
        go(page, path, "real")
        page.until(f"waited for /{path}", lambda: not page.find("main[aria-busy]"))
        go(page, path, "empty")
        page.until(f"waited for the empty /{path}", lambda: page.find("main .empty") and not page.find("main tbody tr"))
        views.fits(page, f"the empty /{path}")
    # The shapes of the overview are the same as long as it has no queue.
    go(page, "", "empty")
    page.shows("No queue has tasks or settings.")


def it_reads(page):
    go(page, "dead", "never")
    assert page.find("main[aria-busy]")
    seen = page.driver.execute_script("return getComputedStyle(document.querySelector('.view'), '::before').content")
    assert seen == '"Reading ..."', seen


def it_is_refused(page):
    go(page, "dead", "refused")
    page.shows("permission denied for table task")
    assert page.find("#trouble[role=alert]") and not page.find("main[aria-busy]"), page.text()
    go(page, "dead", "real")
    page.until("waited for the answer", lambda: page.find("main tbody tr") and "permission denied" not in page.text())


def refreshes_take_nothing(page, paths):
    """In each view; and a click into which refreshes fall counts."""
    page.go("")
    page.shows("Log out")
    for path, content in paths.items():
        go(page, path, "real")
        page.until(f"waited for {content} of /{path}", lambda: page.find(f"main {content}"))
        page.driver.execute_script(FETCH, "turned")
        held = page.driver.execute_script(HOLD)
        print(f"{refresh(page, REFRESHES, AT_LEAST)} refreshes of /{path}")
        for _ in range(2):  # the rows as they were, and turned round
            seen = page.driver.execute_script(SEEN)
            assert seen["alive"] and seen["focused"] and seen["open"] and seen["selected"] and not seen["moved"] and not seen["trouble"], f"/{path}: {seen}"
            refresh(page, 1)
        if not held:
            continue
        control = page.driver.execute_script("return window.held.control")
        ActionChains(page.driver).move_to_element(control).click_and_hold().perform()
        refresh(page, 3)
        ActionChains(page.driver).release().perform()
        page.until(f"waited for the click in /{path}", lambda: page.driver.execute_script("return window.clicks > 0"))
        page.driver.execute_script(FETCH, "real")
