/* `tenon sync FILE`: applies what an application says about its queues, kinds, limits and
 * schedules. */
#include "cli/command.h"
#include "cli/statements.h"
#include "core/base/file.h"
#include "core/db/db.h"
#include "core/db/schema.h"

#include <stdio.h>

enum { DESCRIPTION_BYTES_MAX = 16 << 20 };

enum { WHAT, NAME, ACT, JSON };

static void print_changes(const struct rows *rows, bool json, bool dry_run)
{
    size_t n = rows_count(rows);
    (void)fputs(json ? "{\"changes\": [" : "", stdout);
    for (size_t i = 0; i < n; i++) {
        if (json) {
            (void)printf("%s\n  %s", i > 0 ? "," : "", rows_text(rows, i, JSON));
        } else {
            (void)printf("%s %s %s%s\n", rows_text(rows, i, WHAT), rows_text(rows, i, NAME),
                         dry_run ? "would be " : "", rows_text(rows, i, ACT));
        }
    }
    (void)fputs(json ? "]}\n" : n > 0 ? "" : "no changes\n", stdout);
}

/* In a transaction, which a dry run rolls back. */
static bool sync(struct db *db, const struct options *o, const char *text, struct fault *f)
{
    bool dry_run = option_flag(o, OPTION_DRY_RUN);
    struct rows *rows = NULL;
    bool ok = db_script(db, "BEGIN", f) && db_exec(db, &sql_sync, &text, 1, &rows, f) &&
              db_script(db, dry_run ? "ROLLBACK" : "COMMIT", f);
    if (ok) {
        print_changes(rows, option_flag(o, OPTION_JSON), dry_run);
    } else if (f->code == FAULT_ROW) {
        f->code = FAULT_REFUSED; /* what the database refuses is what the file says */
    }
    rows_free(rows);
    return ok || fault_add(f, "could not sync %.100s", options_arg(o, 0));
}

bool sync_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    struct buf text;
    bool ok = file_read(options_arg(o, 0), "description", DESCRIPTION_BYTES_MAX, &text, f) &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN, "tenon sync", &db, f) &&
              schema_check(db, f) && sync(db, o, buf_text(&text), f);
    db_close(db);
    buf_clear(&text);
    return ok;
}
