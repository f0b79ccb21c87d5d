/* label: e2e */
/* timeout: 300 */
/* long: 300 */
/* only: all */
/* Each page of docs/tutorials is followed as a reader would, from an empty directory to the end:
 * every block runs, and prints what the page shows (tests/support/tutorial.py). Pages run in lanes,
 * each a process. A language that is not there is skipped, but Python and Node never are. The long
 * variant is the same, for script/nightly, which lets it skip none. */
#include "tests/support/lanes.h"
#include "tests/support/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 3, PAGE_MS = 280000, SKIPPED = 77 };

static int follow(struct fixture *fx, const char *name, char **out)
{
    char command[1200];
    int programs = (int)(strrchr(tenon_program, '/') - tenon_program);
    (void)snprintf(command, sizeof command,
                   "mkdir %s/reader && cd %s/reader &&"
                   " exec python3 -B '%s/tests/support/tutorial.py' '%s' '%.*s' %s",
                   fx->dir, fx->dir, repository, repository, programs, tenon_program, name);
    struct process *p = process_spawn(fx, (const char *const[]){"sh", "-c", command, NULL}, NULL);
    int status = process_wait(p, PAGE_MS);
    *out = file_text(p->out);
    if (status != 0 && status != SKIPPED) {
        fail_msg("%s: exit code %d: %s%s", name, status, *out, file_text(p->log));
    }
    return status;
}

/* From a database without the schema: the page makes it. */
static void read_page(void **state, const char *name, bool may_miss)
{
    struct fixture *fx = *state;
    char *out, why[300];
    test_sql(fx, "DROP SCHEMA tenon CASCADE");
    int status = follow(fx, name, &out);
    sql_run(fx->maintenance, "DROP DATABASE IF EXISTS %s_test", fx->database);
    (void)snprintf(why, sizeof why, "%.*s", (int)strcspn(out, "\n"), out);
    if (status != SKIPPED) {
        print_message("%s", out);
    }
    free(out);
    if (status == SKIPPED && !may_miss) {
        fail_msg("docs/tutorials/%s.md: %s", name, why);
    }
    if (status == SKIPPED) {
        skip_missing("docs/tutorials/%s.md: %s", name, why);
    }
}

static void test_fastapi(void **state)
{
    read_page(state, "fastapi", false);
}

static void test_django(void **state)
{
    read_page(state, "django", true); /* wants Python 3.12 */
}

static void test_express(void **state)
{
    read_page(state, "express", false);
}

static void test_go(void **state)
{
    read_page(state, "go", true);
}

static void test_rails(void **state)
{
    read_page(state, "rails", true);
}

int main(void)
{
    static const struct CMUnitTest first[] = {WITH_SERVERS(test_express), WITH_SERVERS(test_rails)};
    static const struct CMUnitTest second[] = {WITH_SERVERS(test_fastapi), WITH_SERVERS(test_go)};
    static const struct CMUnitTest third[] = {WITH_SERVERS(test_django)};
    switch (lanes_number()) {
    case 0:
        return RUN_GROUP(first);
    case 1:
        return RUN_GROUP(second);
    case 2:
        return RUN_GROUP(third);
    default:
        return lanes_run(LANES);
    }
}
