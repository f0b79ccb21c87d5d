/* `tenon logs ID`: the lines that handlers logged while the task ran. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "cli/tasks/filter.h"
#include "core/db/db.h"
#include "core/db/schema.h"

#include <poll.h>
#include <stdlib.h>

#define LINES_READ "1000" /* at once */

enum { FOLLOW_EVERY_MS = 1000, LOGS_LINE_BYTES_MAX = 64 << 10 };

enum { ID, AT, ATTEMPT, LEVEL, MESSAGE, FIELDS, AS_JSON }; /* the columns of logs.sql */
enum { IS_THERE, IS_OVER };                                /* of logs_task.sql */

struct logs {
    struct db *db;
    const char *task;
    bool json;
    char level[16];
    char last[24]; /* the last line that was printed */
};

static void print_line(const struct rows *r, size_t i)
{
    struct buf b;
    buf_init(&b, LOGS_LINE_BYTES_MAX);
    put_safe(&b, rows_text(r, i, MESSAGE));
    if (!rows_is_null(r, i, FIELDS)) {
        buf_put_text(&b, "  ");
        put_safe(&b, rows_text(r, i, FIELDS));
    }
    (void)printf("%s  attempt %s  %-7s  %s\n", rows_text(r, i, AT), rows_text(r, i, ATTEMPT),
                 rows_text(r, i, LEVEL), buf_text(&b));
    buf_clear(&b);
}

/* All that came since. */
static bool print_new(struct logs *l, struct fault *f)
{
    size_t n;
    do {
        struct rows *rows = NULL;
        const char *const params[] = {l->task, l->last, l->level, LINES_READ};
        if (!db_exec(l->db, &sql_logs, params, 4, &rows, f)) {
            return fault_add(f, "could not read the log lines of task %s", l->task);
        }
        n = rows_count(rows);
        for (size_t i = 0; i < n; i++) {
            if (l->json) {
                (void)puts(rows_text(rows, i, AS_JSON));
            } else {
                print_line(rows, i);
            }
        }
        if (n > 0) {
            (void)snprintf(l->last, sizeof l->last, "%s", rows_text(rows, n - 1, ID));
        }
        rows_free(rows);
    } while (n == strtoul(LINES_READ, NULL, 10));
    return true;
}

/* A task whose history is gone may have lines. */
static bool look_at_task(struct logs *l, bool *ret_over, struct fault *f)
{
    struct rows *rows = NULL;
    const char *const params[] = {l->task};
    if (!db_exec(l->db, &sql_logs_task, params, 1, &rows, f)) {
        return fault_add(f, "could not read task %s", l->task);
    }
    bool there = rows_bool(rows, 0, IS_THERE);
    *ret_over = !there || rows_bool(rows, 0, IS_OVER);
    rows_free(rows);
    return there || *l->last != '0' || fault_set(f, FAULT_ABSENT, "there is no task %s", l->task);
}

/* The task is asked for first: what is read after its end is all. It ends when nobody reads on. */
static bool print_all(struct logs *l, bool follow, struct fault *f)
{
    bool over = true;
    do {
        if ((follow && !look_at_task(l, &over, f)) || !print_new(l, f)) {
            return false;
        }
        if (!over) {
            if (fflush(stdout) != 0) {
                return true;
            }
            (void)poll(NULL, 0, FOLLOW_EVERY_MS);
        }
    } while (!over);
    return look_at_task(l, &over, f);
}

bool logs_run(const struct options *o, struct fault *f)
{
    struct logs l = {.task = options_arg(o, 0), .json = option_flag(o, OPTION_JSON), .last = "0"};
    (void)snprintf(l.level, sizeof l.level, "%lld", (long long)option_int(o, OPTION_LEVEL));
    bool ok = id_check(l.task, f) &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_HOT | DB_ANY, "tenon logs", &l.db,
                      f) &&
              schema_check(l.db, f) && print_all(&l, option_flag(o, OPTION_FOLLOW), f);
    db_close(l.db);
    return ok;
}
