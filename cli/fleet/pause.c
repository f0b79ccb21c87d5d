/* `tenon pause` and `tenon resume`. */
#include "cli/command.h"
#include "cli/statements.h"
#include "core/db/db.h"
#include "core/db/schema.h"
#include "core/options/option_value.h"

struct target {
    const char *queue, *kind; /* both NULL: everything */
};

static bool target_read(const struct options *o, struct target *ret, struct fault *f)
{
    bool all = option_flag(o, OPTION_ALL);
    *ret = (struct target){.queue = options_args(o) > 0 ? options_arg(o, 0) : NULL,
                           .kind = option_text(o, OPTION_KIND)};
    return (ret->queue != NULL) + (ret->kind != NULL) + all == 1 ||
           fault_set(f, FAULT_CONFIG, "give one of: a queue, --kind KIND, --all");
}

static void print_target(const struct target *t, const char *what)
{
    if (t->queue || t->kind) {
        (void)printf("the %s %s %s\n", t->queue ? "queue" : "kind", t->queue ? t->queue : t->kind,
                     what);
    } else {
        (void)printf("everything %s\n", what);
    }
}

/* Warn of a queue that nobody knows, such as "mial", and of a name that means a limit. */
static bool queue_check(struct db *db, const char *queue, struct fault *f)
{
    enum { IS_KNOWN, IS_LIMIT };
    struct rows *rows = NULL;
    char hint[400] = "";
    if (!db_exec(db, &sql_pause_known, &queue, 1, &rows, f)) {
        return false;
    }
    if (rows_bool(rows, 0, IS_LIMIT)) {
        (void)snprintf(hint, sizeof hint, "; to pause a limit: tenon limit pause %.300s", queue);
    }
    if (fits_queue(queue) && !rows_bool(rows, 0, IS_KNOWN)) {
        (void)
            fprintf(stderr,
                    "tenon pause: no task, schedule or worker has the queue %s yet; if the name is "
                    "wrong: tenon resume %s%s\n",
                    queue, queue, hint);
    }
    rows_free(rows);
    return fits_queue(queue) ||
           fault_set(f, FAULT_CONFIG, "the queue \"%.100s\" is not allowed: it must be %s%s", queue,
                     QUEUE_ALLOWED, hint);
}

static bool pause_target(struct db *db, const struct target *t, const char *why, struct fault *f)
{
    const char *const params[] = {t->queue, t->kind, t->queue || t->kind ? "false" : "true", why};
    if (t->queue && !queue_check(db, t->queue, f)) {
        return false;
    }
    if (!db_exec(db, &sql_pause, params, 4, NULL, f)) {
        return fault_add(f, "could not pause");
    }
    print_target(t, "is paused; running tasks continue");
    return true;
}

static bool resume_target(struct db *db, const struct target *t, const char *why, struct fault *f)
{
    const char *const params[] = {t->queue, t->kind, t->queue || t->kind ? "false" : "true", why};
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_pause_resume, params, 4, &rows, f)) {
        return fault_add(f, "could not resume");
    }
    print_target(t, rows_bool(rows, 0, 0) ? "is resumed" : "was not paused");
    rows_free(rows);
    return true;
}

bool pause_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    struct target t;
    bool resumes = options_command(o) == COMMAND_RESUME;
    bool ok = target_read(o, &t, f) &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN, "tenon pause", &db, f) &&
              schema_check(db, f) &&
              (resumes ? resume_target : pause_target)(db, &t, option_text(o, OPTION_WHY), f);
    db_close(db);
    return ok;
}
