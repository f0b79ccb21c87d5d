"""Nothing of tenon ui is taken from under the hand: through 1,000 refreshes, in which everything changes, the focus, the selection,
what is open, what is ticked and where the page is scrolled to stay; a click that a refresh falls into counts; and a page whose
database is away says since when. The answers are made here, in place of the server's. For page.py.
"""
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

REFRESHES = 1000
TICKED_REFRESHES = 100
# Answers of the server are kept by their path, and given again with other numbers and in another order: window.turns.
STAND_IN = """
window.turns = 0;
window.away = false;
const real = window.fetch, kept = new Map();
const answer = (body, status = 200) => new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } });
function change(path, body) {
    const copy = structuredClone(body), n = window.turns;
    (copy.queues ?? []).forEach((q, i) => { q.ready += n; q.dead += (n + i) % 7 * 1000000; });
    if (copy.tasks) {
        copy.tasks = [...copy.tasks.slice(0, 3)].map((t) => ({ ...t, kind: `${t.kind}${n}`, error: `the ${n}th` }));
        copy.tasks.unshift({ ...copy.tasks[0], id: 1e6 + n });
        copy.next = null;
    }
    return copy;
}
window.fetch = async (url, options) => {
    const path = String(url).split('?')[0];
    if (options?.method === 'POST') return real(url, options);
    if (window.away) return answer({ error: 'could not connect' }, 503);
    if (!kept.has(path)) kept.set(path, await (await real(url, options)).json());
    return answer(change(path, kept.get(path)));
};
"""
# So often: what a timer does is done at once, and awaited.
REFRESH = """
const [times, done] = arguments;
(async () => {
    for (let i = 0; i < times; i++) {
        window.turns++;
        document.dispatchEvent(new Event('visibilitychange'));
        await new Promise((resolve) => setTimeout(resolve));
        await new Promise((resolve) => setTimeout(resolve));
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
    done(window.turns);
})();
"""


def refresh(page, times):
    page.driver.set_script_timeout(300)
    return page.driver.execute_async_script(REFRESH, times)


def stand_in(page, path, selector):
    page.go(path)
    page.until(f"waited for {selector}", lambda: page.find(selector))
    page.driver.execute_script(STAND_IN)
    refresh(page, 1)


def overview_stays(page):
    stand_in(page, "", "#graph-queue")
    page.driver.execute_script("""
        const one = (selector) => document.querySelector(selector);
        one('[data-key=graph-table]').open = true;
        one('[data-key=pause-default]').focus();
        getSelection().selectAllChildren(one('[data-key=q-default]'));
        scrollTo(0, 60);
        window.held = ['[data-key=pause-default]', '[data-key=q-default]', '[data-key=graph-table]', '[data-key=numbers]'].map(one);
        window.scrolled = scrollY;""")
    refresh(page, REFRESHES)
    seen = page.driver.execute_script("""
        return { alive: window.held.every((node) => node.isConnected), focus: document.activeElement.dataset.key, selected: getSelection().toString(),
                 open: window.held[2].open, scrolled: scrollY === window.scrolled, text: document.body.innerText }""")
    assert seen["alive"] and seen["open"] and seen["scrolled"], seen
    assert seen["focus"] == "pause-default" and seen["selected"] == "default", seen


def ticks_stay(page):
    stand_in(page, "tasks?state=dead", "tbody input")
    page.driver.execute_script("document.querySelectorAll('tbody input')[1].click(); window.held = document.querySelectorAll('tbody input')[1];")
    refresh(page, TICKED_REFRESHES)
    seen = page.driver.execute_script("""
        return { alive: window.held.isConnected, checked: window.held.checked, error: window.held.closest('tr').innerText, rows: document.querySelectorAll('tbody tr').length }""")
    assert seen["alive"] and seen["checked"] and seen["rows"] == 4, seen
    assert f"the {TICKED_REFRESHES + 1}th" in seen["error"], seen


# The button goes down, a refresh turns the order of the rows round, and it comes up.
def a_click_counts(page):
    stand_in(page, "", "[data-key=pause-default]")
    page.until("waited for the doctor", lambda: "is looking" not in page.text())
    refresh(page, 1)
    button = page.driver.find_element(By.CSS_SELECTOR, "[data-key=pause-default]")
    ActionChains(page.driver).move_to_element(button).click_and_hold().perform()
    refresh(page, 3)
    ActionChains(page.driver).release().perform()
    page.shows("Pause the queue default?")
    page.button("No")


# A list that grows while the pointer is on its rows does not move them.
def rows_stay_under_the_pointer(page):
    stand_in(page, "tasks?state=dead", "tbody input")
    row = page.driver.find_element(By.CSS_SELECTOR, "tbody tr:nth-child(2)")
    key = row.get_attribute("data-key")
    ActionChains(page.driver).move_to_element(row).perform()
    refresh(page, 5)
    keys = page.driver.execute_script("return [...document.querySelectorAll('tbody tr')].map((tr) => tr.dataset.key)")
    assert len(keys) == 4 and keys[1] == key, keys


def away_is_said(page):
    stand_in(page, "", "tbody tr")
    page.driver.execute_script("window.away = true")
    refresh(page, 1)
    page.shows("the database is away")
    assert page.driver.execute_script("return document.querySelector('main').matches('.stale')")
    assert "As of " in page.text() and page.find("tbody tr"), page.text()
    page.driver.execute_script("window.away = false")
    refresh(page, 1)
    page.until("waited for it to be back", lambda: "is away" not in page.text() and not page.find("main.stale"))


def nothing_is_taken_away(page):
    overview_stays(page)
    ticks_stay(page)
    a_click_counts(page)
    rows_stay_under_the_pointer(page)
    away_is_said(page)
