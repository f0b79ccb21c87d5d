/* `tenon status --watch`: a line a second, with rates of the last moments. */
#include "cli/command.h"
#include "cli/statements.h"
#include "core/base/now.h"
#include "core/db/db.h"
#include "core/db/schema.h"

#include <poll.h>
#include <string.h>

#define COUNTED_MAX "10000" /* ready tasks; more are as the leading cleaner counted them */
#define QUEUES_MAX "100"

enum {
    EVERY_MS = 1000,
    READINGS =
        10, /* PostgreSQL's counters lag, and come in bursts: rates are over this many seconds */
    HEAD_LINES = 20,
};

/* The columns of status_rates.sql. */
enum { TIME, NOW_MS, COUNTERS, READY = COUNTERS + 4, AT_LEAST, AGE_S, OLDEST_S, WORKERS, SLOTS };
enum { ARRIVED, DONE, FAILED, DEAD, RATES };

struct reading {
    int64_t at_ms, counters[RATES];
};

struct watch {
    bool json;
    struct reading readings[READINGS]; /* in a ring */
    int64_t n;
};

/* Per second, since the oldest reading that is kept; -1: there is none, or nobody counts it. */
static double rate_of(const struct watch *w, const struct rows *r, int counter)
{
    const struct reading *old = &w->readings[w->n < READINGS ? 0 : w->n % READINGS];
    int64_t ms = rows_int(r, 0, NOW_MS) - old->at_ms;
    int64_t n = rows_int(r, 0, COUNTERS + counter) - old->counters[counter];
    if (w->n == 0 || ms <= 0 || rows_is_null(r, 0, COUNTERS + counter)) {
        return -1;
    }
    return n < 0 ? 0 : (double)n * 1000 / (double)ms; /* a partition was dropped, or a reset */
}

static void keep_reading(struct watch *w, const struct rows *r)
{
    struct reading *new = &w->readings[w->n++ % READINGS];
    new->at_ms = rows_int(r, 0, NOW_MS);
    for (int i = 0; i < RATES; i++) {
        new->counters[i] = rows_int(r, 0, COUNTERS + i);
    }
}

static void print_json(const struct watch *w, const struct rows *r)
{
    static const char *const keys[RATES] = {"arrived_per_s", "ended_per_s", "failed_per_s",
                                            "died_per_s"};
    const char *oldest = rows_text(r, 0, OLDEST_S);
    (void)printf("{\"at_ms\": %s", rows_text(r, 0, NOW_MS));
    for (int i = 0; i < RATES; i++) {
        double rate = rate_of(w, r, i);
        if (rate < 0) {
            (void)printf(", \"%s\": null", keys[i]);
        } else {
            (void)printf(", \"%s\": %.1f", keys[i], rate);
        }
    }
    (void)printf(", \"ready\": %s, \"at_least\": %s, \"age_s\": %s, \"oldest_ready_s\": %s, "
                 "\"workers\": %s, \"slots\": %s}\n",
                 rows_text(r, 0, READY), rows_bool(r, 0, AT_LEAST) ? "true" : "false",
                 rows_text(r, 0, AGE_S), oldest ? oldest : "null", rows_text(r, 0, WORKERS),
                 rows_text(r, 0, SLOTS));
}

static void print_line(const struct watch *w, const struct rows *r)
{
    const char *oldest = rows_text(r, 0, OLDEST_S);
    if (w->n % HEAD_LINES == 0) {
        (void)puts("TIME      ARRIVED/S   ENDED/S  FAILED/S    DEAD/S    READY  OLDEST s  WORKERS"
                   "  SLOTS");
    }
    (void)printf("%s ", rows_text(r, 0, TIME));
    for (int i = 0; i < RATES; i++) {
        double rate = rate_of(w, r, i);
        if (rate < 0) {
            (void)printf(" %9s", "-");
        } else {
            (void)printf(" %9.1f", rate);
        }
    }
    (void)printf(" %7s%s %9s %8s %6s", rows_text(r, 0, READY),
                 rows_bool(r, 0, AT_LEAST) ? "+" : " ", oldest ? oldest : "-",
                 rows_text(r, 0, WORKERS), rows_text(r, 0, SLOTS));
    if (rows_int(r, 0, AGE_S) > 0) {
        (void)printf("  READY as of %s s ago", rows_text(r, 0, AGE_S));
    }
    (void)putchar('\n');
}

static bool watch_once(struct watch *w, struct db *db, struct fault *f)
{
    static const char *const params[] = {COUNTED_MAX, QUEUES_MAX};
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_status_rates, params, 2, &rows, f)) {
        return fault_add(f, "could not read the status");
    }
    if (w->json) {
        print_json(w, rows);
    } else {
        print_line(w, rows);
    }
    keep_reading(w, rows);
    rows_free(rows);
    return true;
}

/* Until it is interrupted, or nobody reads on. */
static bool watch(struct watch *w, struct db *db, struct fault *f)
{
    for (int64_t next_ms = now_ms();; next_ms += EVERY_MS) {
        if (!watch_once(w, db, f)) {
            return false;
        }
        if (fflush(stdout) != 0) {
            return true;
        }
        int64_t left_ms = next_ms + EVERY_MS - now_ms();
        (void)poll(NULL, 0, left_ms > 0 ? (int)left_ms : 0);
    }
}

bool watch_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    struct watch w = {.json = option_flag(o, OPTION_JSON)};
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_HOT | DB_ANY, "tenon status", &db,
                      f) &&
              schema_check(db, f) && watch(&w, db, f);
    db_close(db);
    return ok;
}
