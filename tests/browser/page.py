#!/usr/bin/python3
"""Drives the page of tenon ui in a real Chromium: a failed task is found by its payload, retried and seen done; a queue is
paused and resumed; a flow is seen as a tree and cancelled, a limit is paused; hostile texts stay texts; a filter leaves one
task, and all that fit are deleted after a question; what hands.py and views.py hold of the page. For ui_browser_test. With TEST_LONG,
in a database full of tasks, each answer must come within a second.

usage: tests/browser/page.py URL ID-OF-DEAD-TASK ID-OF-HOSTILE-TASK PROFILE-FOLDER
"""
import os
import sys

from selenium import webdriver
from selenium.common.exceptions import ElementClickInterceptedException, ElementNotInteractableException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import hands
import views

LIMIT_S = 120
ANSWER_MS = 1000


def browser(profile):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1200,900",
                     "--disable-background-networking", "--no-first-run", f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


class Page:
    def __init__(self, driver, url):
        self.driver = driver
        self.base = url.split("#")[0]
        self.answers = []

    def until(self, what, condition):
        """A page that is drawn again while the condition looks at it is looked at again."""
        redrawn = [StaleElementReferenceException, ElementNotInteractableException, ElementClickInterceptedException, IndexError]
        wait = WebDriverWait(self.driver, LIMIT_S, 0.1, redrawn)
        return wait.until(lambda _: condition(), f"{what}; the page says: {self.text()[:2000]}")

    def text(self):
        return self.driver.execute_script("return document.body.innerText")

    def shows(self, text):
        self.until(f"waited for {text!r}", lambda: text in self.text())

    def button(self, name):
        """Pressed by the script in one step: a page that is drawn again between finding and clicking takes no click."""
        script = """const b = [...document.querySelectorAll('button')].find(
                        (b) => (b.getAttribute('aria-label') ?? b.textContent).startsWith(arguments[0]) &&
                               (!document.getElementById('dialog').open || b.closest('dialog')));
                    b?.click();
                    return Boolean(b);"""
        self.until(f"waited for the button {name!r}", lambda: self.driver.execute_script(script, name))

    def type(self, by, what, *keys):
        self.until(f"waited for {what!r}", lambda: self.driver.find_element(by, what).send_keys(*keys) or True)

    def press(self, selector):
        self.until(f"waited for {selector}", lambda: self.driver.find_element(By.CSS_SELECTOR, selector).click() or True)

    def first(self, selector):
        """The text of the first one."""
        return self.until(f"waited for {selector}", lambda: self.find(selector)[0].text if self.find(selector) else None)

    def find(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def shows_rows(self, n):
        self.until(f"waited for {n} rows", lambda: len(self.find("tbody tr")) == n)

    def redrawn(self):
        """Its table has been drawn again: another node stands there."""
        self.driver.execute_script("document.querySelector('.scroll').dataset.seen = ''")
        self.until("waited for the table to be drawn again",
                   lambda: self.driver.execute_script("return document.querySelector('.scroll:not([data-seen])')"))

    def go(self, path):
        self.note_answers()
        self.driver.get(self.base + path)

    def note_answers(self):
        """How long the server took for what this page has asked it since it was loaded. An act takes as long as it has tasks, and the doctor looks at everything."""
        self.answers += self.driver.execute_script(
            """return performance.getEntriesByType('resource').filter((r) => /\\/api\\/(?!preview|doctor|act\\b)/.test(r.name))
                   .map((r) => [Math.round(r.responseEnd - r.requestStart), new URL(r.name).pathname + new URL(r.name).search])""")


def find_and_retry(page, task):
    page.go("tasks")
    page.type(By.ID, "search", "to = ann@example.org", Keys.ENTER)
    page.until("waited for the address", lambda: "payload=" in page.driver.current_url)
    page.shows_rows(1)
    assert page.first("tbody a") == task
    page.type(By.LINK_TEXT, task, Keys.ENTER)
    page.shows("failed once")
    page.button("Retry")
    page.shows("Why (for the audit)")
    page.type(By.NAME, "why", "the mail server is back", Keys.ENTER)
    page.shows("1 task retried.")
    page.shows("It ended well")
    page.go("audit")
    page.shows("the mail server is back")


def pause_and_resume(page):
    page.go("")
    page.until("waited for the graph", lambda: page.find("svg rect.done"))
    page.type(By.ID, "graph-queue", "default", Keys.ENTER)
    page.until("waited for the address", lambda: "queue=default" in page.driver.current_url)
    page.until("waited for its graph", lambda: page.find("svg rect.done"))
    page.button("Pause the queue default")
    page.button("Pause")
    page.shows("The queue default is paused")
    page.button("Resume the queue default")
    page.shows("The queue default is resumed.")
    page.until("waited for no trouble", lambda: "is paused" not in page.text())


# Flow 1: a parent, with a hostile name like the flow's, and two children, of which one has a child itself and a key.
def tree_and_limits(page):
    page.go("flows")
    page.shows("<img src=x onerror=")
    page.type(By.LINK_TEXT, "1", Keys.ENTER)
    page.shows("4: 3 blocked, 1 waiting")
    depths = page.driver.execute_script("return [...document.querySelectorAll('.tree li')].map((li) => li.querySelectorAll('li').length)")
    assert depths == [3, 1, 0, 0], depths
    page.go("limits")
    page.button("Pause the limit t:")
    page.button("Pause")
    page.shows("The limit t:<b>1</b> is paused.")
    page.button("Resume the limit t:")
    page.shows("The limit t:<b>1</b> is resumed.")
    page.go("flows/1")
    page.button("Cancel the flow")
    page.shows("Cancel all tasks of the flow 1")
    page.button("Cancel the flow")
    page.shows("4 tasks of the flow 1 cancelled.")
    page.shows("4: 4 cancelled")


def hostile_texts_stay_texts(page, task):
    for path in (f"tasks/{task}", "tasks", "dead", "flows", "flows/1", "limits?key=t"):
        page.go(path)
        page.shows("t:<b>1</b>" if path.startswith("limits") else "<img src=x onerror=")
    page.go(f"tasks/{task}")
    page.shows("123456789012345678901234567890.12345")
    assert page.driver.execute_script("return document.querySelectorAll('main img, main script, main b').length") == 0
    assert page.driver.execute_script("return window.struck === undefined")


def a_deep_payload_is_shown(page, task):
    page.go(f"tasks/{task}")
    page.shows(r"ann\u202egnp.exe")
    page.until("waited for the fold", lambda: page.find("main section.text summary"))
    page.press("main section.text summary")
    page.shows("characters; tenon show")


# The field completes what it knows; the address has the filter.
def found_by_the_field(page):
    page.go("tasks")
    page.type(By.ID, "search", "ki")
    page.shows("kind:")
    page.type(By.ID, "search", Keys.ARROW_DOWN, Keys.ENTER)
    page.type(By.ID, "search", "lett")
    page.until("waited for the kind", lambda: any("kind:letter" in offer.text for offer in page.find("#offers li")))
    page.type(By.ID, "search", Keys.ARROW_DOWN, Keys.ENTER)
    page.type(By.ID, "search", "queue:mails error:Late older:\"2 hours\"", Keys.ENTER)
    page.until("waited for the address", lambda: "older_than=2+hours" in page.driver.current_url)
    page.shows_rows(1)
    assert "Late: a letter of 3 h" in page.text(), page.text()
    assert page.find("#search")[0].get_attribute("value") == 'kind:letter queue:mails error:Late older:"2 hours"'
    page.go("tasks")
    page.press("#search")
    page.until("waited for the recent search", lambda: "older" in "".join(offer.text for offer in page.find("#offers li")[:1]))


# Three of kind letter are dead in the queue mails.
def all_that_fit_deleted(page):
    page.go("tasks?state=dead&queue=mails&kind=letter")
    page.shows_rows(3)
    page.button("Delete all matches")
    page.shows("Delete: 3 tasks?")
    page.button("No")
    page.until("waited for the question to go", lambda: not page.find("dialog[open]"))
    page.redrawn()
    page.shows_rows(3)
    assert "deleted" not in page.text(), page.text()
    page.button("Delete all matches")
    page.shows("Delete: 3 tasks?")
    page.button("Delete: 3 tasks")
    page.shows("3 tasks deleted.")
    page.shows("No task matches.")


# The oldest of 150,000: no single answer reads so far.
def searched_and_counted_in_pieces(page):
    page.go("tasks?state=dead&kind=many&payload=n+%3D+1")
    page.shows_rows(1)
    page.button("Delete all matches")
    page.shows("Delete: 1 task?")
    page.button("Delete: 1 task")
    page.shows("1 task deleted.")
    page.shows("No task matches.")


def answered_soon(page):
    slowest = sorted(page.answers)[-8:]
    print(len(page.answers), "answers; the slowest, in ms:", *(f"{path} {ms}" for ms, path in slowest), sep="\n  ")
    assert page.answers
    if os.environ.get("TEST_LONG"):
        assert slowest[-1][0] < ANSWER_MS, slowest


def main():
    url, dead, hostile, profile = sys.argv[1:]
    driver = browser(profile)
    try:
        driver.get(url)
        page = Page(driver, url)
        page.shows("Log out")
        assert "token" not in driver.current_url
        find_and_retry(page, dead)
        pause_and_resume(page)
        tree_and_limits(page)
        hostile_texts_stay_texts(page, hostile)
        a_deep_payload_is_shown(page, dead)
        found_by_the_field(page)
        all_that_fit_deleted(page)
        searched_and_counted_in_pieces(page)
        hands.nothing_is_taken_away(page)
        views.keyboard_is_enough(page)
        views.show_well(page, hostile, "light", 400)
        views.stays_scrolled(page)
        page.note_answers()
        answered_soon(page)
        page.button("Log out")
        page.shows("Token")
        severe = [line["message"] for line in driver.get_log("browser") if line["level"] == "SEVERE" and "401" not in line["message"]]
        assert not severe, severe
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
