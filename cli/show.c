/* `tenon show ID`: all about one task, and why it waits. */
#include "cli/command.h"
#include "cli/filter.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/db.h"
#include "core/schema.h"

enum { NAME, TEXT }; /* the columns of show.sql */

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
                              "committed, or its history is over",
                              id);
}

bool show_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    const char *id = options_arg(o, 0);
    bool ok = id_check(id, f) &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_HOT, "tenon show", &db, f) &&
              schema_check(db, f) && show(db, id, option_flag(o, OPTION_JSON), f);
    db_close(db);
    return ok;
}
