#!/usr/bin/python3
"""Enqueues tasks for a while and takes pictures of tenon ui. For script/screenshots.

usage: tests/browser/screenshots.py FOLDER-WITH-THE-ADDRESS FOLDER-FOR-PICTURES
"""
import json
import os
import sys
import threading

import psycopg2

from page import Page, browser

LOADED = 350  # pairs of tasks, at 25 pairs a second: the first picture is taken then
LOADED_LIMIT_S = 120
# A history, for the graph: more by day than by night, and an hour in which much failed.
HISTORY = """
INSERT INTO tenon.minute (minute, queue, kind, worker_id, started, ended, done, failed, wait_us, run_us, waits, runs)
SELECT date_trunc('minute', now()) - i * interval '1 min', 'mail', 'welcome_mail', gen_random_uuid(), done + failed, done + failed, done, failed, 0, 0,
       CASE WHEN failed > 10 THEN array_fill(0, ARRAY[9]) || ARRAY[5, done::integer, 8] ELSE ARRAY[done::integer, 3, 1, 1] END,
       CASE WHEN failed > 10 THEN array_fill(0, ARRAY[5]) || ARRAY[done::integer, 1, 1, 0, 0, 0, 12] ELSE ARRAY[0, 0, 1, 4, done::integer, 9] END
  FROM generate_series(1, 350) i
 CROSS JOIN LATERAL (SELECT (30 + 24 * sin(i / 66.0) + random() * 5)::bigint AS done,
                            CASE WHEN i BETWEEN 150 AND 192 THEN 24 ELSE (random() * 1.2)::bigint END AS failed) n
"""


def load(done, loaded):
    conn = psycopg2.connect(os.environ["DATABASE_URL"])
    conn.autocommit = True
    with conn.cursor() as cursor:
        cursor.execute("SET timezone = 'UTC'; " + HISTORY)
        cursor.execute("SELECT tenon.enqueue('welcome_mail', '{\"to\": \"ann@example.org\"}', 'mail', max_attempts => 1)"
                       " FROM generate_series(1, 7)")
        cursor.execute("SELECT tenon.enqueue('report', '{\"month\": 10}', 'reports', delay => '1 h') FROM generate_series(1, 12)")
        for i in range(100000):
            if done.is_set():
                break
            payload = json.dumps({"to": f"user{i}@example.org"})
            cursor.execute("SELECT tenon.enqueue('welcome_mail', %s, 'mail'), tenon.enqueue('invoice', '{\"order\": 5}')", (payload,))
            if i == LOADED:
                loaded.set()
            done.wait(0.04)
    conn.close()


def pictures(page, folder, loaded):
    def picture(name):
        page.driver.save_screenshot(os.path.join(folder, name + ".png"))

    page.driver.set_window_size(1440, 1010)
    page.shows("The last hours")
    page.go("")
    page.shows("The last hours")
    page.until("waited for rates", lambda: "/s" in page.driver.find_element("css selector", ".numbers").text)
    if not loaded.wait(LOADED_LIMIT_S):
        sys.exit(f"screenshots: not {LOADED} pairs of tasks within {LOADED_LIMIT_S} s")
    page.until("waited for the doctor", lambda: "is looking" not in page.text())
    picture("queues")
    page.go("dead")
    page.shows("Refused")
    picture("dead")
    page.go("tasks?state=dead")
    page.shows("Refused")
    page.press("tbody a")
    page.shows("What happened")
    picture("task")


def main():
    work, folder = sys.argv[1:]
    with open(os.path.join(work, "ui"), encoding="utf-8") as file:
        url = file.read().strip()
    done, loaded = threading.Event(), threading.Event()
    thread = threading.Thread(target=load, args=(done, loaded))
    thread.start()
    driver = browser(os.path.join(work, "profile"))
    try:
        driver.set_window_size(1100, 1000)
        driver.get(url)
        pictures(Page(driver, url), folder, loaded)
    finally:
        done.set()
        thread.join()
        driver.quit()


if __name__ == "__main__":
    main()
