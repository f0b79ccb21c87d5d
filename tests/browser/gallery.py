#!/usr/bin/python3
"""Takes a picture of every view of tenon ui at 1440 and 400 pixels, by day and night. For script/screenshots --views.

usage: tests/browser/gallery.py FOLDER-WITH-THE-ADDRESS FOLDER-FOR-PICTURES
"""
import base64
import os
import sys

import each_view
from page import Page, browser

TALLEST = 2600


def picture(page, width, path):
    height = page.driver.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, TALLEST), "scale": 1}
    shot = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    with open(path, "wb") as file:
        file.write(base64.b64decode(shot["data"]))


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
            for width in each_view.WIDTHS:
                for scheme in each_view.SCHEMES:
                    each_view.size(page, width, scheme)
                    picture(page, width, os.path.join(folder, f"{path.replace('/', '-') or 'overview'}-{width}-{scheme}.png"))
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
