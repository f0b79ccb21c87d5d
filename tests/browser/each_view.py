#!/usr/bin/python3
"""An operator at tenon ui in a real Chromium: incidents, a flow of 500 tasks, dialogs that change limits and schedules, day and night,
each view by the keyboard alone and as axe-core sees it, and the database that stops and comes back. For ui_views_test, which
stops and starts the database when this says so.

usage: tests/browser/each_view.py URL FOLDER-OF-AXE PROFILE-FOLDER
"""
import os
import re
import sys
import time

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import states
import views
from page import Page, browser

VIEWS = {"": "tbody tr", "dead": "tbody tr", "tasks": "tbody tr", "tasks/1": ".timeline", "workers": "tbody tr", "kinds": "tbody tr", "kinds/sync": ".numbers",
         "schedules": "tbody tr", "flows": "tbody tr", "flows/1": ".dag", "flows/2": ".dag", "limits": "tbody tr", "outbox": "tbody tr", "audit": "tbody tr"}
WIDTHS, SCHEMES = (1440, 400), ("light", "dark")
# Of WCAG 2.0 to 2.2, levels A and AA. What is faint can_be_read() finds, in a twentieth of the time that axe needs for it.
AXE = """
const done = arguments[0];
axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], rules: { 'color-contrast': { enabled: false } }, resultTypes: ['violations'] })
    .then((r) => done(r.violations.flatMap((v) => v.nodes.slice(0, 3).map((n) => `${v.id}: ${n.html.slice(0, 200)}: ${n.failureSummary}`))), (e) => done([String(e)]));
"""
# Once.
REFUSE_SECOND_PIECE = """
const real = window.fetch;
let pieces = 0;
window.fetch = (url, options) => {
    if (!String(url).endsWith('/api/act') || ++pieces !== 2) return real(url, options);
    window.fetch = real;
    return Promise.resolve(new Response('{"error": "could not serialize access"}', { status: 409 }));
};
"""
TABS = 60
# What gets the focus by the Tab key, in order; and whether it is seen.
WATCH = """
window.passed = [];
let tab = false;
addEventListener('keydown', (event) => { tab = event.key === 'Tab'; }, true);
addEventListener('focusin', (event) => {
    if (!tab) return; // by the page, which keeps the focus amid a refresh
    tab = false;
    const node = event.target, style = getComputedStyle(node);
    node.scrollIntoView({ block: 'nearest', inline: 'nearest' }); // as the browser does, if it has not yet
    const box = node.getBoundingClientRect(), ring = node instanceof SVGElement || style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
    window.passed.push({ node, seen: ring && box.width > 0 && box.right > 0 && box.left < innerWidth,
        html: `${node.outerHTML.slice(0, 120)}: ring ${ring}, from ${box.left} to ${box.right} of ${innerWidth}` });
});
document.body.tabIndex = -1;
document.body.focus();
"""
PASSED = """
const all = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')].filter((node) => node.checkVisibility() && !node.closest('dialog'));
const first = all.slice(0, arguments[0]), reached = new Set(window.passed.map((p) => p.node));
return { all: all.length, missed: first.filter((node) => !reached.has(node)).map((node) => node.outerHTML.slice(0, 120)),
         unseen: window.passed.filter((p) => !p.seen && p.node.isConnected).map((p) => p.html) };
"""


def size(page, width, scheme):
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})


def go(page, path):
    page.go(path)
    page.until(f"waited for {VIEWS[path]} of /{path}", lambda: page.find(f"main {VIEWS[path]}"))


def axe_finds_nothing(page, folder):
    with open(os.path.join(folder, "node_modules/axe-core/axe.min.js"), encoding="utf-8") as file:
        axe = file.read()
    page.driver.set_script_timeout(120)
    for path in VIEWS:
        size(page, WIDTHS[0], SCHEMES[0])
        go(page, path)
        page.driver.execute_script(axe)
        for width in WIDTHS:
            for scheme in SCHEMES:
                what = f"/{path}, {width}, {scheme}"
                size(page, width, scheme)
                found = page.driver.execute_async_script(AXE)
                assert not found, f"{what}: {found}"
                views.fits(page, what)
                views.has_names(page, what)
                views.can_be_read(page, what, scheme)
    size(page, WIDTHS[0], SCHEMES[0])


# --- the dead ---

def refused(page, what):
    """The dialog of an act that the server refused: it is open, says why, and a field has the focus."""
    page.until("waited for the refusal", lambda: what in page.first("dialog[open] [role=alert]"))
    return page.driver.execute_script("return [document.activeElement.name, document.activeElement.value]")

def incidents(page):
    go(page, "dead")
    page.shows("59 dead in 5 incidents")
    classes = page.driver.execute_script("return [...document.querySelectorAll('tbody td.name > a:first-child')].map((a) => a.textContent)")
    assert classes[:3] == ["ConnectionRefused", "Smtp550", "OutOfMemory"], classes
    # The handler said that its task can never work: that is one death, not two.
    again = page.driver.execute_script("return [...document.querySelectorAll('tbody tr')].find((tr) => tr.textContent.includes('exit_65')).querySelector('[data-head=\"Died again\"]').textContent")
    assert again == "-", again
    page.button("Try 10 first of ConnectionRefused")
    page.shows("Retry: 10 tasks?")
    page.button("Retry: 10 tasks")
    page.shows("10 tasks retried. If they are not dead again in a while, retry the others.")
    page.shows("49 dead in 5 incidents")
    page.button("Retry all of ConnectionRefused, kind invoice")
    page.shows("Retry: 30 tasks?")
    page.driver.execute_script(REFUSE_SECOND_PIECE)
    page.type(By.NAME, "rate", "20")
    page.type(By.NAME, "why", "the ledger is back", Keys.ENTER)
    assert refused(page, "20 tasks retried, then it failed: could not serialize access") == ["why", "the ledger is back"]
    assert page.find("dialog [name=rate]")[0].get_attribute("value") == "20"
    views.press(page, Keys.ENTER)
    page.shows("10 tasks retried.")
    page.shows("19 dead in 4 incidents")
    page.button("Delete all of Smtp550")
    page.shows("Delete: 12 tasks?")
    page.button("Delete: 12 tasks")
    page.shows("12 tasks deleted.")
    page.shows("7 dead in 3 incidents")


# --- flows ---

def nodes(page):
    return len(page.find(".dag .node"))


# Of 500 tasks 498 are alike: one node, until it is opened.
def groups_open(page):
    go(page, "flows/2")
    page.until("waited for the group", lambda: nodes(page) == 3)
    page.driver.execute_script("document.querySelector('.dag .many').focus()")
    begun = time.monotonic()
    views.press(page, Keys.ENTER)
    page.until("waited for all nodes", lambda: nodes(page) == 500)
    print(f"500 nodes after {time.monotonic() - begun:.1f} s")
    page.driver.execute_script("document.querySelector('.dag-place').scrollTop = 900")
    states.go(page, "flows/2", "real")
    page.until("waited for the group", lambda: nodes(page) == 3)


def root_cause_is_marked(page):
    go(page, "flows/1")
    page.shows("Failed first: ")
    marked = [node.get_attribute("textContent") for node in page.find(".dag .root")]
    assert len(marked) == 1 and "fetch" in marked[0] and "root cause" in marked[0], marked
    page.driver.execute_script("document.querySelector('.verdict a').click()")
    page.shows("HTTP503")


# --- one task ---

def marks(page):
    return [node.get_attribute("textContent") for node in page.find("svg.time .mark title")]


# After root_cause_is_marked(): it stands at the task that died, on which two others depend.
def others_in_the_timeline(page):
    page.until("waited for the children", lambda: len(page.find(".timeline [data-key^='Child-'] a")) == 2)
    page.driver.execute_script("document.querySelector(\".timeline [data-key^='Child-'] a\").click()")
    page.until("waited for the parent", lambda: [li for li in page.find(".timeline [data-key^='Parent-']") if "fetch" in li.text and "dead" in li.text])
    page.until("waited for its mark", lambda: [text for text in marks(page) if "ended: dead" in text])


def steps_in_the_timeline(page):
    page.go("tasks?unique_key=refund-17")
    page.shows_rows(1)
    page.driver.execute_script("document.querySelector('tbody a').click()")
    lines = page.until("waited for the steps", lambda: [li.text.split(" (")[0] for li in page.find(".timeline li")])
    assert [" ".join(line.split()[:3]) for line in lines[1:4]] == ["Signal approved-17 sent", "Step charge recorded", "Signal approved-17 received"], lines
    page.until("waited for the mark", lambda: [text for text in marks(page) if text.startswith("signal approved-17 sent at ")])
    assert [text for text in marks(page) if text.startswith("step charge recorded at ")], marks(page)


# --- dialogs ---

def fill(page, **values):
    for name, value in values.items():
        page.until(f"waited for the field {name}", lambda name=name: page.find(f"dialog [name={name}]"))
        field = page.find(f"dialog [name={name}]")[0]
        field.clear()
        field.send_keys(value)


def limits_change(page):
    go(page, "limits")
    page.button("Edit the limit api")
    page.shows("Change the limit api")
    fill(page, max_running="7")
    page.button("Set")
    page.shows("The limit api is set.")
    page.shows("7 at once, 100 starts in 60 s")
    page.button("Edit the limit api")
    fill(page, max_running="8", per="soon")
    views.press(page, Keys.ENTER)
    assert refused(page, "soon") == ["per", "soon"]
    assert page.find("dialog [name=max_running]")[0].get_attribute("value") == "8"
    fill(page, max_running="7", per="1 min")
    views.press(page, Keys.ENTER)
    page.until("waited for the dialog to go", lambda: not page.find("dialog[open]"))
    page.shows("The limit api is set.")
    page.shows("7 at once, 100 starts in 60 s")
    page.button("Set a limit")
    page.button("Set")  # the browser asks for the name
    assert page.find("dialog[open]")
    fill(page, name="smtp", max_running="3")
    page.button("Set")
    page.shows("The limit smtp is set.")
    page.shows("3 at once")


def schedules_change(page):
    go(page, "schedules")
    page.button("Edit nightly-report")
    fill(page, cron="0 4 * * *")
    page.button("Change")
    page.shows("nightly-report is changed; its next tick: ")
    page.shows("0 4 * * *")
    page.button("Edit nightly-report")
    fill(page, cron="at four")
    views.press(page, Keys.ENTER)
    assert refused(page, "at four") == ["cron", "at four"]
    page.button("No")
    page.until("waited for the dialog to go", lambda: not page.find("dialog[open]"))
    page.shows("0 4 * * *")
    # A question that is closed and another one asked before the browser says so.
    page.driver.execute_script("""
        const press = (label) => document.querySelector(`[aria-label="${label}"]`).click();
        press('Edit nightly-report');
        document.getElementById('dialog').close();
        press('Edit sync-every-5-min');""")
    fill(page, seconds="600")
    page.button("Change")
    page.shows("every 10 min")
    page.button("Pause nightly-report")
    page.shows("nightly-report: paused.")
    page.button("Resume nightly-report")
    page.shows("nightly-report: resumed.")
    page.button("Run now nightly-report")
    page.until("waited for its task", lambda: re.search(r"nightly-report made the task \d+\.", page.first("#status")))


# --- looks ---

def dark(page):
    return page.driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(19, 22, 20)"


# Auto follows the system, Day and Night do not; the choice stays.
def themes_switch(page):
    size(page, WIDTHS[0], "dark")
    go(page, "audit")
    assert page.first("#theme") == "Auto" and dark(page)
    for name, is_dark in (("Day", False), ("Night", True)):
        page.press("#theme")
        assert page.first("#theme") == name and dark(page) == is_dark, name
        size(page, WIDTHS[0], "light")
        assert dark(page) == is_dark, name
        go(page, "audit")
        assert page.first("#theme") == name and dark(page) == is_dark, name
    page.press("#theme")
    assert page.first("#theme") == "Auto" and not dark(page)


def texts_of_every_direction(page):
    page.go("tasks?kind=export")
    page.shows("תיק לקוח 17")
    page.press("tbody td.name a")
    page.shows("القاهرة")
    assert "invoice\\u202egnp.exe" in page.text() and "\u202e" not in page.text()
    go(page, "dead")
    page.shows("<b>{{ user.name }}</b>")
    isolated = page.driver.execute_script("return [...document.querySelectorAll('td, td a, .said')].every((node) => getComputedStyle(node).unicodeBidi === 'isolate')")
    assert isolated and page.driver.execute_script("return document.querySelectorAll('main b').length") == 0


# --- the keyboard ---

def keyboard_reaches_all(page):
    for path in VIEWS:
        go(page, path)
        page.driver.execute_script(WATCH)
        ActionChains(page.driver).send_keys(*[Keys.TAB] * TABS).perform()
        seen = page.driver.execute_script(PASSED, TABS - 5)
        assert seen["all"] > 10 and not seen["missed"] and not seen["unseen"], f"/{path}: {seen}"


# --- the overview ---

def red_comes_first(page):
    go(page, "")
    page.until("waited for the doctor", lambda: "is looking" not in page.text())
    rows = page.driver.execute_script("return [...document.querySelectorAll('table:has(.trend) tbody tr')].map((tr) => ['red', 'amber', ''].indexOf(tr.className))")
    assert rows == sorted(rows) and rows[0] == 0, rows
    page.shows("no worker for sync")


# In the hour of failures half of the tasks waited for 5 to 10 s; before, for at most 5 ms. The table has the same.
def times_are_shown(page):
    go(page, "")
    titles = page.driver.execute_script("return [...document.querySelectorAll('.graph.spread title')].map((title) => title.textContent)")
    for what in ("Wait p50 5.0 s to 10 s", "Wait p95 10 s to 30 s", "Wait p50 ≤ 5 ms", "Run time p50 50 ms to 100 ms", "Run time p95 10 s to 30 s"):
        assert any(title.endswith(f": {what}") for title in titles), (what, titles[:8])
    cells = page.driver.execute_script("return [...document.querySelectorAll('[data-key=graph-table] td')].map((td) => td.textContent)")
    assert len(cells) == 6 * 9 and all(re.fullmatch(r"≤ 5 ms|[\d.]+ m?s to [\d.]+ m?s", cell) for row in range(6) for cell in cells[row * 9 + 5:row * 9 + 9]), cells


# --- the database stops ---

def the_database_stops(page):
    go(page, "")
    page.until("waited for the doctor", lambda: "is looking" not in page.text())
    rows = len(page.find("main table:not(.by) tbody tr"))
    print("now: stop the database", file=sys.stderr, flush=True)
    page.shows("the database is away")
    assert re.search(r"As of \d\d:\d\d:\d\d: the database is away", page.text()), page.text()
    seen = page.driver.execute_script("return [document.querySelector('main').matches('.stale'), Number(getComputedStyle(document.querySelector('.view')).opacity)]")
    assert seen[0] and seen[1] < 1, seen
    assert len(page.find("main table:not(.by) tbody tr")) == rows
    page.button("Pause the queue mail")
    fill(page, why="the disk is full")
    views.press(page, Keys.ENTER)
    assert refused(page, "could not") == ["why", "the disk is full"]
    page.button("No")
    states.go(page, "kinds", "real")  # a view that was never read says so, and shows nothing old
    page.until("waited for the refusal", lambda: page.find("#trouble")[0].text and not page.find("main.stale"))
    assert not page.find("main tbody tr")
    print("now: start the database", file=sys.stderr, flush=True)
    page.until("waited for it to be back", lambda: page.find("main tbody tr") and not page.find("#trouble")[0].text)


def main():
    url, axe, profile = sys.argv[1:]
    driver = browser(profile)
    begun = time.monotonic()

    def done(what):
        print(f"{time.monotonic() - begun:6.1f} s  {what}", flush=True)
    try:
        driver.get(url)
        page = Page(driver, url)
        page.shows("Log out")
        size(page, WIDTHS[0], SCHEMES[0])
        axe_finds_nothing(page, axe)
        done("axe")
        keyboard_reaches_all(page)
        done("keyboard")
        states.refreshes_take_nothing(page, VIEWS)
        done("refreshes")
        states.nothing_is_there(page)
        states.it_reads(page)
        states.it_is_refused(page)
        done("states")
        texts_of_every_direction(page)
        red_comes_first(page)
        times_are_shown(page)
        groups_open(page)
        root_cause_is_marked(page)
        others_in_the_timeline(page)
        steps_in_the_timeline(page)
        done("flows")
        incidents(page)
        limits_change(page)
        schedules_change(page)
        themes_switch(page)
        done("acts")
        severe = [line["message"] for line in driver.get_log("browser") if line["level"] == "SEVERE" and not re.search("40[0-9]", line["message"])]
        assert not severe, severe
        the_database_stops(page)
        done("away")
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
