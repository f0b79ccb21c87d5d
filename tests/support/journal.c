#include "tests/support/journal.h"

#include "core/base/now.h"
#include "tests/support/process.h"

#include <poll.h>
#include <stdio.h>

enum { POLL_MS = 5 };

static void add_start(struct journal *j, size_t *cap, const struct journal_run *run)
{
    if (j->n == *cap) {
        *cap = *cap ? *cap * 2 : 64;
        j->runs = realloc(j->runs, *cap * sizeof *j->runs);
    }
    j->runs[j->n++] = *run;
}

static void add_end(struct journal *j, const struct journal_run *end, const char *line)
{
    for (size_t i = j->n; i-- > 0;) {
        struct journal_run *run = &j->runs[i];
        if (run->id == end->id && run->claims == end->claims && run->pid == end->pid &&
            run->end_ns == 0) {
            run->end_ns = end->start_ns;
            return;
        }
    }
    fail_msg("the journal has an end without a start: %s", line);
}

static void add_line(struct journal *j, size_t *cap, const char *line)
{
    struct journal_run run = {0};
    long long id, ns;
    char word[8];
    int used = 0;
    if (sscanf(line, "%lld %d %d %5s %lld%n", &id, &run.claims, &run.pid, word, &ns, &used) != 5 ||
        line[used]) {
        fail_msg("the journal has a line that is none: %s", line);
    }
    run.id = id;
    run.start_ns = ns;
    if (strcmp(word, "start") == 0) {
        add_start(j, cap, &run);
    } else {
        add_end(j, &run, line);
    }
}

void journal_read(const struct fixture *fx, struct journal *ret)
{
    *ret = (struct journal){0};
    size_t cap = 0;
    char *text = file_text(fx->journal), *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) {
        /* the last piece has no newline: nothing, or a line that is just being written */
        if (rest) {
            add_line(ret, &cap, line);
        }
    }
    free(text);
}

void journal_clear(struct journal *j)
{
    free(j->runs);
    *j = (struct journal){0};
}

size_t journal_runs(const struct journal *j, int64_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n; i++) {
        n += j->runs[i].id == id ? 1 : 0;
    }
    return n;
}

size_t journal_ended(const struct journal *j, int64_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n; i++) {
        n += j->runs[i].id == id && j->runs[i].end_ns ? 1 : 0;
    }
    return n;
}

static int by_id_and_start(const void *a, const void *b)
{
    const struct journal_run *x = a, *y = b;
    if (x->id != y->id) {
        return x->id < y->id ? -1 : 1;
    }
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static struct journal_run *sorted(const struct journal *j)
{
    struct journal_run *runs = malloc((j->n + 1) * sizeof *runs);
    if (j->n > 0) {
        memcpy(runs, j->runs, j->n * sizeof *runs);
        qsort(runs, j->n, sizeof *runs, by_id_and_start);
    }
    return runs;
}

size_t journal_tasks(const struct journal *j)
{
    struct journal_run *runs = sorted(j);
    size_t n = 0;
    for (size_t i = 0; i < j->n; i++) {
        n += i == 0 || runs[i].id != runs[i - 1].id ? 1 : 0;
    }
    free(runs);
    return n;
}

size_t journal_overlaps(const struct journal *j)
{
    struct journal_run *runs = sorted(j);
    size_t n = 0;
    for (size_t i = 0; i < j->n; i++) {
        for (size_t k = i + 1;
             k < j->n && runs[k].id == runs[i].id && runs[k].start_ns < runs[i].end_ns; k++) {
            n++;
        }
    }
    free(runs);
    return n;
}

size_t journal_most_at_once(const struct journal *j, int pid)
{
    size_t most = 0;
    for (size_t i = 0; i < j->n; i++) {
        size_t n = 0;
        int64_t at = j->runs[i].start_ns;
        for (size_t k = 0; k < j->n; k++) {
            const struct journal_run *run = &j->runs[k];
            bool counts = pid <= 0 || run->pid == pid;
            n += counts && run->start_ns <= at && (run->end_ns > at || k == i) ? 1 : 0;
        }
        most = n > most && (pid <= 0 || j->runs[i].pid == pid) ? n : most;
    }
    return most;
}

static void copy_run(PGconn *conn, const struct journal_run *run)
{
    char line[120], end[24] = "\\N";
    if (run->end_ns) {
        (void)snprintf(end, sizeof end, "%lld", (long long)run->end_ns / 1000);
    }
    int n = snprintf(line, sizeof line, "%lld\t%d\t%lld\t%s\n", (long long)run->id, run->claims,
                     (long long)run->start_ns / 1000, end);
    assert_int_equal(PQputCopyData(conn, line, n), 1);
}

void journal_store(const struct fixture *fx, const struct journal *j)
{
    test_sql(fx, "CREATE TABLE run (id bigint, claims integer, start_us bigint, end_us bigint)");
    PQclear(PQexec(fx->conn, "COPY run FROM STDIN"));
    for (size_t i = 0; i < j->n; i++) {
        copy_run(fx->conn, &j->runs[i]);
    }
    assert_int_equal(PQputCopyEnd(fx->conn, NULL), 1);
    for (PGresult *r; (r = PQgetResult(fx->conn));) {
        assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
        PQclear(r);
    }
}

static void await(const struct fixture *fx, size_t want, bool ended, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    for (;;) {
        bool late = now_ms() >= deadline_ms;
        struct journal j;
        size_t n = 0;
        journal_read(fx, &j);
        for (size_t i = 0; i < j.n; i++) {
            n += !ended || j.runs[i].end_ns ? 1 : 0;
        }
        journal_clear(&j);
        if (n >= want) {
            return;
        }
        if (late) {
            fail_msg("%zu runs %s within %lld ms, not %zu", n, ended ? "ended" : "started",
                     (long long)limit_ms, want);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

void journal_await_ended(const struct fixture *fx, size_t n, int64_t limit_ms)
{
    await(fx, n, true, limit_ms);
}

void journal_await_started(const struct fixture *fx, size_t n, int64_t limit_ms)
{
    await(fx, n, false, limit_ms);
}
