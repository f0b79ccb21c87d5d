#include "tests/support/scrape.h"

#include "core/base/now.h"

#include <ctype.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>

enum { START_MS = 30000, AGAIN_MS = 100, NAME_BYTES = 128, LINES_MAX = 20000 };

struct web scrape_at(struct process *p)
{
    struct web w = {.process = p};
    process_await_line(p, "event=http_ready", START_MS);
    char *log = file_text(p->log);
    const char *at = strstr(strstr(log, "event=http_ready"), "127.0.0.1:");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "127.0.0.1:%d", &w.port), 1);
    free(log);
    return w;
}

/* --- the format ----------------------------------------------------------------------------- */

static const char *name_end(const char *at)
{
    const char *end = at;
    while (isalnum((unsigned char)*end) || *end == '_') {
        end++;
    }
    return isdigit((unsigned char)*at) ? at : end;
}

/* {name="value",...} */
static const char *labels_end(const char *line, const char *at)
{
    do {
        const char *end = name_end(++at);
        if (end == at || end[0] != '=' || end[1] != '"') {
            fail_msg("no label: %s", line);
        }
        for (at = end + 2; *at && *at != '"'; at++) {
            if (*at == '\\' && !strchr("\\\"n", *++at)) {
                fail_msg("no escape: %s", line);
            }
        }
        at += *at == '"';
    } while (*at == ',');
    if (*at != '}') {
        fail_msg("labels without an end: %s", line);
    }
    return at + 1;
}

struct family {
    char name[NAME_BYTES], type[16];
    double bucket; /* the last of the histogram's, cumulative */
    char of[512];  /* its labels but le */
};

/* Is it a line of the family: its name, of a histogram with an end? ret: which end */
static const char *end_of(const struct family *f, const char *line, const char *end)
{
    size_t n = strlen(f->name), bytes = (size_t)(end - line);
    if (bytes < n || memcmp(line, f->name, n) != 0) {
        fail_msg("not of the family %s: %s", f->name, line);
    }
    const char *rest = line + n;
    bool histogram = strcmp(f->type, "histogram") == 0;
    bool known = histogram ? strncmp(rest, "_bucket{", 8) == 0 || strncmp(rest, "_sum", 4) == 0 ||
                                 strncmp(rest, "_count", 6) == 0
                           : bytes == n;
    if (!known) {
        fail_msg("not of the %s %s: %s", f->type, f->name, line);
    }
    return rest;
}

static void check_histogram(struct family *f, const char *line, const char *rest, double value)
{
    if (strncmp(rest, "_count", 6) == 0 && value != f->bucket) {
        fail_msg("the last bucket has %g: %s", f->bucket, line);
    }
    if (strncmp(rest, "_bucket", 7) != 0) {
        return;
    }
    const char *le = strstr(line, ",le=\"");
    assert_non_null(le);
    size_t n = (size_t)(le - rest);
    assert_true(n < sizeof f->of);
    bool goes_on = strncmp(f->of, rest, n) == 0 && strlen(f->of) == n;
    if (goes_on && value < f->bucket) {
        fail_msg("fewer than in the bucket before: %s", line);
    }
    (void)snprintf(f->of, sizeof f->of, "%.*s", (int)n, rest);
    f->bucket = value;
}

static void check_sample(struct family *f, const char *line)
{
    const char *at = name_end(line);
    if (at == line) {
        fail_msg("no name: %s", line);
    }
    const char *rest = end_of(f, line, at);
    at = *at == '{' ? labels_end(line, at) : at;
    char *end;
    double value = strtod(at + 1, &end);
    if (*at != ' ' || end == at + 1 || *end) {
        fail_msg("no number: %s", line);
    }
    if (strcmp(f->type, "histogram") == 0) {
        check_histogram(f, line, rest, value);
    }
}

/* "# HELP name text" and "# TYPE name type", in this order. */
static void check_head(struct family *f, const char *line, bool typed)
{
    char name[NAME_BYTES], text[16];
    if (typed) {
        assert_int_equal(sscanf(line, "# TYPE %127s %15s", name, text), 2);
        assert_string_equal(name, f->name);
        assert_true(strcmp(text, "counter") == 0 || strcmp(text, "gauge") == 0 ||
                    strcmp(text, "histogram") == 0);
        (void)snprintf(f->type, sizeof f->type, "%s", text);
        size_t n = strlen(name);
        bool total = n > 6 && strcmp(name + n - 6, "_total") == 0;
        assert_int_equal(total, strcmp(text, "counter") == 0);
    } else {
        *f = (struct family){.bucket = 0};
        if (sscanf(line, "# HELP %127s %15s", f->name, text) != 2) {
            fail_msg("no head: %s", line);
        }
    }
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What stands before the number, and each head, stands there once. */
static void check_unique(char **lines, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *blank = lines[i][0] == '#' ? NULL : strrchr(lines[i], ' ');
        if (blank) {
            *blank = '\0';
        }
    }
    qsort(lines, n, sizeof *lines, compare_lines);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(lines[i - 1], lines[i]) == 0) {
            fail_msg("twice: %s", lines[i]);
        }
    }
}

void scrape_check(const char *page)
{
    struct family f = {.bucket = 0};
    char *copy = strdup(page), *rest = copy, *line;
    char **lines = calloc(LINES_MAX, sizeof *lines);
    size_t n = 0;
    assert_true(copy && lines && *page && page[strlen(page) - 1] == '\n');
    copy[strlen(copy) - 1] = '\0';
    while ((line = strsep(&rest, "\n"))) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            check_head(&f, line, false);
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            check_head(&f, line, true);
        } else {
            assert_true(*f.type);
            check_sample(&f, line);
        }
        assert_true(n < LINES_MAX);
        lines[n++] = line;
    }
    check_unique(lines, n);
    free(lines);
    free(copy);
}

/* --- asking --------------------------------------------------------------------------------- */

char *scrape(const struct web *w)
{
    struct web_answer a;
    web_request(w, "GET", "/metrics", "", "", &a);
    assert_int_equal(a.status, 200);
    assert_contains(a.head, "Content-Type: text/plain; version=0.0.4");
    scrape_check(a.body);
    char *page = strdup(a.body);
    web_clear(&a);
    return page;
}

double scrape_value(const char *page, const char *line)
{
    size_t n = strlen(line);
    for (const char *at = page; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, line, n) == 0 && at[n] == ' ') {
            return strtod(at + n, NULL);
        }
    }
    return -1;
}

/* Until its number is in this range. */
static void await_between(const struct web *w, const char *line, double least, double most,
                          int64_t limit_ms)
{
    for (int64_t until_ms = patience_end_ms(limit_ms);;) {
        char *page = scrape(w);
        double value = scrape_value(page, line);
        if (value >= least && value <= most) {
            free(page);
            return;
        }
        if (now_ms() >= until_ms) {
            fail_msg("%s is not %g:\n%s", line, least, page);
        }
        free(page);
        (void)poll(NULL, 0, AGAIN_MS);
    }
}

void scrape_await(const struct web *w, const char *line, double value, int64_t limit_ms)
{
    await_between(w, line, value, value, limit_ms);
}

void scrape_await_least(const struct web *w, const char *line, double least, int64_t limit_ms)
{
    await_between(w, line, least, INFINITY, limit_ms);
}

void scrape_await_probe(const struct web *w, const char *path, int status, const char *part,
                        int64_t limit_ms)
{
    for (int64_t until_ms = patience_end_ms(limit_ms);;) {
        struct web_answer a;
        web_request(w, "GET", path, "", "", &a);
        bool as_wanted = a.status == status && strstr(a.body, part);
        if (!as_wanted && now_ms() >= until_ms) {
            fail_msg("%s: %d %s, and not %d %s", path, a.status, a.body, status, part);
        }
        web_clear(&a);
        if (as_wanted) {
            return;
        }
        (void)poll(NULL, 0, AGAIN_MS);
    }
}
