#!/usr/bin/python3
"""Logs in to tenon ui in a real Chromium: with a name and a password in the address, as HTTP Basic has it, or with a token that is
mistyped, typed, and forgotten. For ui_login_test.

usage: tests/browser/login.py URL PROFILE-FOLDER [TOKEN]
"""
import sys

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import page


def with_password(p):
    p.shows("ann")
    p.button("Pause the queue mail")
    p.button("Pause")
    p.shows("The queue mail is paused")
    assert "Log out" not in p.text()


def with_token(p, token):
    p.shows("Token")
    p.type(By.NAME, "token", "0123456789abcdef", Keys.ENTER)
    p.shows("wrong token")
    p.type(By.NAME, "token", token, Keys.ENTER)
    p.button("Pause the queue mail")
    p.button("Pause")
    p.shows("The queue mail is paused")
    p.driver.refresh()
    p.shows("queue mail is paused")
    p.button("Log out")
    p.shows("Token")
    p.driver.refresh()
    p.shows("Token")


def main():
    url, profile, *token = sys.argv[1:]
    driver = page.browser(profile)
    try:
        driver.get(url)
        p = page.Page(driver, url)
        if token:
            with_token(p, *token)
        else:
            with_password(p)
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
