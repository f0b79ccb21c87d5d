#!/usr/bin/python3
"""Takes a picture of every view of tenon ui, and of questions and what follows from them, at 1440 and 400 pixels, by day and night.
For script/screenshots --views.

usage: tests/browser/gallery.py FOLDER-WITH-THE-ADDRESS FOLDER-FOR-PICTURES
"""
import base64
import os
import sys

import each_view
from page import Page, browser

TALLEST = 6000
# Drawings are made for the width at the next refresh.
REFRESHED = "document.dispatchEvent(new Event('visibilitychange')); setTimeout(arguments[0], 800);"


def picture(page, width, path):
    height = page.driver.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, TALLEST), "scale": 1}
    shot = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    with open(path, "wb") as file:
        file.write(base64.b64decode(shot["data"]))


def pictures(page, folder, name):
    for width in each_view.WIDTHS:
        for scheme in each_view.SCHEMES:
            each_view.size(page, width, scheme)
            page.driver.execute_async_script(REFRESHED)
            picture(page, width, os.path.join(folder, f"{name}-{width}-{scheme}.png"))


def close(page):
    page.button("No")
    page.until("waited for the question to go", lambda: not page.find("dialog[open]"))


# {name: what is done before the picture}, in this order.
def three_days(page):
    page.go("?hours=72")
    page.until("waited for the release", lambda: page.find(".graph .release"))
    page.until("waited for the doctor", lambda: "is looking" not in page.text())
    page.press("[data-key=graph-table] summary")


def steps_of_a_task(page):
    page.go("tasks?unique_key=refund-17")
    page.shows_rows(1)
    page.press("tbody a")
    page.shows("Step charge recorded")


def a_question(page):
    each_view.go(page, "dead")
    page.button("Retry all of ConnectionRefused, kind invoice")
    page.shows("Retry: 40 tasks?")


def a_refusal(page):
    close(page)
    each_view.go(page, "limits")
    page.button("Edit the limit api")
    each_view.fill(page, per="soon")
    page.button("Set")
    each_view.refused(page, "soon")


def an_undo(page):
    close(page)
    each_view.go(page, "dead")
    page.button("Try 10 first of ConnectionRefused")
    page.shows("Retry: 10 tasks?")
    page.button("Retry: 10 tasks")
    page.until("waited for the offer", lambda: page.find(".undos"))


def a_drain(page):
    each_view.go(page, "workers")
    page.button("Drain the worker on")
    page.shows("finishes the")


def drains(page):
    page.button("Drain")
    page.until("waited for the state", lambda: page.find(".state.draining"))


SCENES = {"overview-72h": three_days, "task-steps": steps_of_a_task, "dead-question": a_question, "limits-refused": a_refusal, "dead-undo": an_undo,
          "workers-question": a_drain, "workers-draining": drains}


def main():
    work, folder = sys.argv[1:]
    with open(os.path.join(work, "ui"), encoding="utf-8") as file:
        url = file.read().strip()
    os.makedirs(folder, exist_ok=True)
    driver = browser(os.path.join(work, "profile"))
    try:
        driver.get(url)
        page = Page(driver, url)
        page.shows("Log out")
        for path in each_view.VIEWS:
            each_view.go(page, path)
            page.until("waited for the doctor", lambda: "is looking" not in page.text())
            pictures(page, folder, path.replace("/", "-") or "overview")
        for name, scene in SCENES.items():
            scene(page)
            pictures(page, folder, name)
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
