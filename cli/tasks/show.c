/* `tenon show ID`: all about one task. `tenon why ID`: why it is where it is. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "cli/tasks/filter.h"
#include "core/db/db.h"
#include "core/db/schema.h"

enum { NAME, TEXT };                       /* the columns of show.sql */
enum { SENTENCE, ADVICE, JSON, IS_THERE }; /* of why.sql */

static bool show(struct db *db, const char *id, bool json, struct fault *f)
{
    const char *const params[] = {id};
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_show, params, 1, &rows, f)) {
        return fault_add(f, "could not read task %s", id);
    }
    size_t n = rows_count(rows);
    for (size_t i = 1; i < n && !json; i++) {
        print_pair(rows_text(rows, i, NAME), rows_text(rows, i, TEXT));
    }
    if (n > 0 && json) {
        (void)puts(rows_text(rows, 0, TEXT));
    }
    rows_free(rows);
    return n > 0 || fault_set(f, FAULT_ABSENT,
                              "there is no task %s; it was never enqueued, its transaction has not "
                              "committed, or it ended and its history was deleted",
                              id);
}

static bool why(struct db *db, const char *id, bool json, struct fault *f)
{
    const char *const params[] = {id};
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_why, params, 1, &rows, f)) {
        return fault_add(f, "could not explain the state of task %s", id);
    }
    bool is_there = rows_bool(rows, 0, IS_THERE);
    if (json) {
        (void)puts(rows_text(rows, 0, JSON));
    } else if (is_there) {
        print_pair("why", rows_text(rows, 0, SENTENCE));
        print_pair("what to do", rows_text(rows, 0, ADVICE));
    }
    bool ok = is_there || fault_set(f, FAULT_ABSENT, "%s", rows_text(rows, 0, SENTENCE));
    rows_free(rows);
    return ok;
}

/* Either of them, in a session of its own. */
static bool about(const struct options *o, const char *program,
                  bool (*answer)(struct db *db, const char *id, bool json, struct fault *f),
                  struct fault *f)
{
    struct db *db = NULL;
    const char *id = options_arg(o, 0);
    bool ok = id_check(id, f) &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_READ, program, &db, f) &&
              schema_check(db, f) && answer(db, id, option_flag(o, OPTION_JSON), f);
    db_close(db);
    return ok;
}

bool show_run(const struct options *o, struct fault *f)
{
    return about(o, "tenon show", show, f);
}

bool why_run(const struct options *o, struct fault *f)
{
    return about(o, "tenon why", why, f);
}
