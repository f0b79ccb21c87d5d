#!/usr/bin/python3
"""What an operator does on the page of tenon ui: drains a worker, retries dead tasks and puts
them back. For ui_operator_test.

usage: tests/browser/acts.py URL PROFILE-FOLDER
"""
import sys

from page import Page, browser


# Of two workers one is told to drain; it ends, and the other one stays.
def drained(page):
    page.go("workers")
    page.shows_rows(2)
    page.shows("r-42")
    page.button("Drain the worker on")
    page.shows("finishes the 0 that run")
    page.button("Drain")
    page.shows("drains.")
    page.shows_rows(1)


# The release of the workers is in the graph of three days.
def marked(page):
    page.go("?hours=72")
    page.until("waited for the mark", lambda: any("r-42" in mark.text for mark in page.find(".graph .release")))
    assert page.find("#graph-hours")[0].get_attribute("value") == "72"


# No worker serves their kind: all three are dead again, and the offer is gone.
def undone(page):
    page.go("dead")
    page.shows("3 dead in 1 incident")
    page.button("Retry all of Boom, kind z")
    page.button("Retry: 3 tasks")
    page.shows("3 tasks retried.")
    page.shows("No dead tasks.")
    page.button("Undo the retry of Boom, kind z")
    page.button("Undo the retry: 3 tasks")
    page.shows("3 tasks made dead again.")
    page.shows("3 dead in 1 incident")
    page.until("waited for the offer to go", lambda: not page.find(".undos"))


def main():
    url, profile = sys.argv[1:]
    driver = browser(profile)
    try:
        driver.get(url)
        page = Page(driver, url)
        page.shows("Log out")
        drained(page)
        undone(page)
        marked(page)
        severe = [line["message"] for line in driver.get_log("browser") if line["level"] == "SEVERE"]
        assert not severe, severe
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
