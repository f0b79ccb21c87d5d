/* `tenon wait`: wait until tasks have ended, and print how, a line for each. */
#include "cli/command.h"
#include "cli/statements.h"
#include "core/base/buf.h"
#include "core/base/now.h"
#include "core/db/db.h"
#include "core/db/schema.h"
#include "include/tenon/tenon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_DONE = 0, WAIT_NOT_DONE = 1, WAIT_NOT_YET = 75 };
enum { LINE_BYTES_MAX = 16 << 20, UNFINISHED_TOLD_MAX = 3 };

static bool read_ids(const struct options *o, tenon_awaited *tasks, size_t n, struct fault *f)
{
    for (size_t i = 0; i < n; i++) {
        char *end;
        const char *text = options_arg(o, i);
        errno = 0;
        tasks[i].id = strtoll(text, &end, 10);
        if (*end || end == text || errno || tasks[i].id < 1) {
            return fault_set(f, FAULT_CONFIG, "\"%.100s\" is not the id of a task", text);
        }
    }
    return true;
}

static void put_text(struct buf *b, const char *key, const char *text)
{
    buf_put_text(b, key);
    buf_put_json_or_null(b, text);
}

static bool print_task(const tenon_awaited *task, struct fault *f)
{
    static const char *const words[] = {"unfinished", "done", "dead", "cancelled", "expired", NULL};
    struct buf b;
    buf_init(&b, LINE_BYTES_MAX);
    buf_put_text(&b, "{\"id\": ");
    buf_put_int(&b, task->id);
    put_text(&b, ", \"state\": ", words[task->state]);
    buf_put_text(&b, ", \"result\": ");
    buf_put_text(&b, task->result ? task->result : "null");
    put_text(&b, ", \"error\": ", task->error);
    buf_put_text(&b, "}");
    bool ok = !b.failed || fault_memory(f);
    if (ok) {
        (void)puts(buf_text(&b));
        (void)fflush(stdout);
    }
    buf_clear(&b);
    return ok;
}

/* Those that have ended, once each: their asked_ms is not needed any more. */
static bool print_ended(tenon_awaited *tasks, size_t n, struct fault *f)
{
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        if (tasks[i].state != TENON_TASK_UNFINISHED && tasks[i].asked_ms >= 0) {
            tasks[i].asked_ms = -1;
            ok = print_task(&tasks[i], f);
        }
    }
    return ok;
}

static size_t count_state(const tenon_awaited *tasks, size_t n, int state)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += tasks[i].state == state;
    }
    return count;
}

static bool wait_for_all(struct db *db, tenon_awaited *tasks, size_t n, int64_t until_ms,
                         struct fault *f)
{
    while (count_state(tasks, n, TENON_TASK_UNFINISHED) > 0) {
        int64_t left = until_ms - now_ms();
        int code = tenon_wait(db_conn(db), tasks, n,
                              left < 0           ? 0
                              : left > INT32_MAX ? -1
                                                 : (int)left);
        if (!print_ended(tasks, n, f)) {
            return false;
        }
        if (code == TENON_NOT_YET) {
            return true;
        }
        if (code != TENON_OK) {
            return fault_set(f, code == TENON_RETRY ? FAULT_RETRY : FAULT_CONFIG,
                             "could not wait: %s", tenon_errmsg());
        }
    }
    return true;
}

/* Its state is asked for: a role that may wait for a task may see that. */
static bool tell_unfinished(struct db *db, int64_t id, struct fault *f)
{
    char text[24];
    const char *const params[] = {text};
    struct rows *rows = NULL;
    (void)snprintf(text, sizeof text, "%" PRId64, id);
    if (!db_exec(db, &sql_wait_state, params, 1, &rows, f)) {
        return fault_add(f, "could not ask for the state of task %s", text);
    }
    const char *state = rows_text(rows, 0, 0);
    (void)fprintf(stderr, "tenon wait: task %s is %s; see: tenon why %s\n", text,
                  state ? state : "not there", text);
    rows_free(rows);
    return true;
}

/* Of many, only a few. */
static bool tell_all_unfinished(struct db *db, const tenon_awaited *tasks, size_t n,
                                struct fault *f)
{
    size_t told = 0, unfinished = count_state(tasks, n, TENON_TASK_UNFINISHED);
    for (size_t i = 0; i < n && told < UNFINISHED_TOLD_MAX; i++) {
        if (tasks[i].state == TENON_TASK_UNFINISHED) {
            told++;
            if (!tell_unfinished(db, tasks[i].id, f)) {
                return false;
            }
        }
    }
    if (told < unfinished) {
        (void)fprintf(stderr, "tenon wait: %zu more have not ended\n", unfinished - told);
    }
    return true;
}

static int exit_code(const tenon_awaited *tasks, size_t n)
{
    return count_state(tasks, n, TENON_TASK_UNFINISHED) > 0 ? WAIT_NOT_YET
           : count_state(tasks, n, TENON_TASK_DONE) == n    ? WAIT_DONE
                                                            : WAIT_NOT_DONE;
}

int wait_main(const struct options *o)
{
    struct fault f = {0};
    struct db *db = NULL;
    size_t n = options_args(o);
    tenon_awaited *tasks = calloc(n, sizeof *tasks);
    int64_t until_ms = option_is_given(o, OPTION_TIMEOUT) ? now_ms() + option_int(o, OPTION_TIMEOUT)
                                                          : INT64_MAX;
    bool ok = (tasks || fault_memory(&f)) && read_ids(o, tasks, n, &f) &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_LEADER | DB_ANY, "tenon wait", &db,
                      &f) &&
              schema_check(db, &f) && wait_for_all(db, tasks, n, until_ms, &f) &&
              tell_all_unfinished(db, tasks, n, &f);
    int code = ok ? exit_code(tasks, n) : fault_exit_code(&f);
    if (!ok) {
        (void)fprintf(stderr, "tenon wait: %s\n", f.text);
    }
    for (size_t i = 0; tasks && i < n; i++) {
        free(tasks[i].result);
        free(tasks[i].error);
    }
    free(tasks);
    db_close(db);
    return code;
}
