/* /metrics, /live and /ready of a worker or cleaner, as a scraper sees them; its own parser of
 * Prometheus' text format, which fails the test at any line that is not as the format has it. */
#ifndef TENON_TESTS_SUPPORT_SCRAPE_H
#define TENON_TESTS_SUPPORT_SCRAPE_H

#include "tests/support/web.h"

/* Where a process that was started with --http 127.0.0.1:0 serves; waits for the log to say so. */
struct web scrape_at(struct process *p);

/* The page, free(), after every line was parsed. */
char *scrape(const struct web *w);

/* Check every line: names, labels and their escapes, numbers; head before lines, each family once,
 * no line twice; buckets that grow up to the count. */
void scrape_check(const char *page);

/* The number of the line that begins so: "tenon_queue_tasks{queue=\"q\",state=\"ready\"}"; -1 =
 * there is none. */
double scrape_value(const char *page, const char *line);

/* Scrape until that line has this number; fails, with the page, after limit_ms. */
void scrape_await(const struct web *w, const char *line, double value, int64_t limit_ms);

/* The same, until its number is at least this. */
void scrape_await_least(const struct web *w, const char *line, double least, int64_t limit_ms);

/* The answer of /live or /ready: until it has this status, and its sentence has this part. */
void scrape_await_probe(const struct web *w, const char *path, int status, const char *part,
                        int64_t limit_ms);

#endif
