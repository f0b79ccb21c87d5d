/* label: e2e */
/* timeout: 120 */
/* only: all */
/* Migrations: what they make of the databases that releases left, what older and newer programs do
 * with a schema that is not theirs, and locks that setup does not get. tenon_next and
 * tenon_breaking have one migration more than this program, setup/next.sql. */
#include "core/db/schema.h"
#include "tests/support/release.h"
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>

enum { GIVE_UP_MS = 6000 };

static int64_t version(struct fixture *fx)
{
    return test_sql_int(fx, "SELECT max(version) FROM tenon.migration");
}

static int ours(void)
{
    return schema_migrations[schema_migrations_n - 1].version;
}

/* --- the databases of releases --- */

/* Columns, constraints, indexes, triggers, functions and views, one a line; free(). Not those of
 * partitions, which come and go. */
static char *schema_text(struct fixture *fx)
{
    return test_sql_text(
        fx,
        "SELECT string_agg(line, E'\\n' ORDER BY line COLLATE \"C\") FROM ("
        "WITH r AS (SELECT * FROM pg_class WHERE relnamespace = 'tenon'::regnamespace AND NOT"
        " relispartition)"
        "SELECT format('%%s.%%s %%s %%s %%s', relname, attname, format_type(atttypid, atttypmod),"
        " attnotnull, pg_get_expr(adbin, adrelid)) FROM r JOIN pg_attribute a ON attrelid = r.oid"
        " AND attnum > 0 AND NOT attisdropped LEFT JOIN pg_attrdef ON adrelid = r.oid AND adnum ="
        " attnum WHERE relkind <> 'i' "
        "UNION ALL SELECT format('%%s %%s %%s', relname, conname, pg_get_constraintdef(c.oid)) FROM"
        " r JOIN pg_constraint c ON conrelid = r.oid "
        "UNION ALL SELECT pg_get_indexdef(oid) FROM r WHERE relkind IN ('i', 'I') "
        "UNION ALL SELECT pg_get_triggerdef(t.oid) FROM r JOIN pg_trigger t ON tgrelid = r.oid "
        "UNION ALL SELECT pg_get_viewdef(oid) FROM r WHERE relkind = 'v' "
        "UNION ALL SELECT format('%%s %%s', relname, reloptions) FROM r "
        "UNION ALL SELECT format('%%s %%s', oid::regprocedure, md5(pg_get_functiondef(oid))) FROM"
        " pg_proc WHERE pronamespace = 'tenon'::regnamespace) l (line)");
}

/* A line that is in `a` and not in `b`; NULL: there is none. */
static char *line_only_in(char *a, const char *b)
{
    char *line;
    while ((line = strsep(&a, "\n"))) {
        if (!strstr(b, line)) {
            return line;
        }
    }
    return NULL;
}

/* After an upgrade nothing is missing, and nothing that the version does not have is left. */
static void test_an_upgraded_schema_is_as_a_fresh_one(void **state)
{
    struct fixture *fx = *state;
    static char releases[RELEASES_MAX][RELEASE_PATH_BYTES];
    test_sql(fx, "SET client_min_messages = warning; DROP SCHEMA tenon CASCADE");
    free(TENON_RUN(fx, 0, "setup"));
    size_t n = releases_find(releases);
    for (size_t i = 0; i < n; i++) {
        char *fresh = schema_text(fx);
        release_restore(fx, releases[i]);
        free(TENON_RUN(fx, 0, "setup"));
        assert_int_equal(version(fx), ours());
        char *upgraded = schema_text(fx);
        if (strcmp(fresh, upgraded) != 0) {
            char *left = strdup(upgraded);
            fail_msg("%s, upgraded: it lacks\n%s\nand has\n%s", releases[i],
                     line_only_in(fresh, upgraded), line_only_in(left, fresh));
        }
        free(fresh);
        free(upgraded);
    }
}

/* --- locks --- */

static void test_a_transaction_that_has_enqueued(void **state)
{
    struct fixture *fx = *state;
    PGconn *application = sql_connect(fx->database_url);
    sql_run(application, "BEGIN; SELECT tenon.enqueue('a')");
    struct process *setup = PROGRAM(fx, TENON_NEXT, "setup");
    /* others wait behind setup, and no longer than it */
    test_await(fx, LIMIT_MS,
               "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation ="
               " 'tenon.setting'::regclass");
    test_sql(fx, "SET statement_timeout = %d; SELECT tenon.enqueue('a')",
             (int)patience_loaded_ms(GIVE_UP_MS));
    program_says(setup, 1,
                 "nothing was changed; end the transaction that uses tables or views of tenon, or "
                 "run setup again later");
    assert_int_equal(version(fx), ours());
    assert_true(test_sql_bool(fx, "SELECT to_regclass('tenon.next_thing') IS NULL"));
    sql_run(application, "COMMIT");
    PQfinish(application);
    program_says(PROGRAM(fx, TENON_NEXT, "setup"), 0, "applied");
    assert_int_equal(version(fx), ours() + 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE next_color = 'none'"),
                     2);
}

/* It holds the last of the migration's locks and asks for the first one: setup gives way, even if
 * its own check for deadlocks is over by then. */
static void test_a_transaction_that_locks_in_another_order(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET deadlock_timeout = 300',"
                 " current_database()); END $$");
    PGconn *application = sql_connect(fx->database_url);
    sql_run(application, "BEGIN; SELECT FROM tenon.task");
    struct process *setup = PROGRAM(fx, TENON_NEXT, "setup");
    while (!process_is_gone(setup) &&
           !test_sql_bool(fx, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation ="
                              " 'tenon.task'::regclass AND waitstart < clock_timestamp() - interval"
                              " '400 ms'")) {
    }
    sql_run(application, "SELECT tenon.enqueue('a')");
    sql_run(application, "COMMIT");
    PQfinish(application);
    program_says(setup, 1, "nothing was changed; end the transaction that uses tables or views");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 1);
    assert_int_equal(version(fx), ours());
}

/* --- programs of another version --- */

/* "worker" and so on with a program; each must end with `code` and say `part`. */
static void every_program_says(struct fixture *fx, const char *program, int code, const char *part)
{
    program_says(PROGRAM(fx, program, "worker", "--handler", "a=true"), code, part);
    program_says(PROGRAM(fx, program, "cleaner"), code, part);
    program_says(PROGRAM(fx, program, "status"), code, part);
    program_says(PROGRAM(fx, program, "enqueue", "a"), code, part);
}

static void test_newer_programs_wait_for_setup(void **state)
{
    struct fixture *fx = *state;
    char part[120];
    (void)snprintf(part, sizeof part,
                   "the schema tenon has version %d and this program needs %d: run tenon setup",
                   ours(), ours() + 1);
    every_program_says(fx, TENON_NEXT, 2, part);
    program_says(PROGRAM(fx, TENON_BREAKING, "setup", "--dry-run"), 0, "-- breaking");
    assert_int_equal(version(fx), ours());
}

/* Those that run go on until they connect again: stop them before. */
static void test_a_breaking_migration(void **state)
{
    struct fixture *fx = *state;
    struct process *running[] = {TENON(fx, "worker", "--handler", "a=true"), TENON(fx, "cleaner")};
    process_await_line(running[0], "event=worker_ready", LIMIT_MS);
    process_await_line(running[1], "event=leader", LIMIT_MS);
    program_says(PROGRAM(fx, TENON_BREAKING, "setup"), 0, "applied");
    test_sql(fx, "SELECT tenon.enqueue('a')");
    await_done(fx, 1);
    char part[120];
    (void)snprintf(part, sizeof part,
                   "the schema tenon has version %d, which programs of version %d cannot use: "
                   "install a newer tenon",
                   ours() + 1, ours());
    test_sql(fx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                 " current_database() AND application_name LIKE 'tenon %%'");
    program_says(running[0], 3, part);
    program_says(running[1], 3, part);
    every_program_says(fx, tenon_program, 3, part);
    program_says(TENON(fx, "setup"), 3, part);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    struct process *next = PROGRAM(fx, TENON_BREAKING, "worker", "--handler", "a=true");
    await_done(fx, 2);
    end_well(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_an_upgraded_schema_is_as_a_fresh_one),
        WITH_DATABASE(test_a_transaction_that_has_enqueued),
        WITH_DATABASE(test_a_transaction_that_locks_in_another_order),
        WITH_DATABASE(test_newer_programs_wait_for_setup),
        WITH_DATABASE(test_a_breaking_migration),
    };
    return RUN_GROUP(tests);
}
