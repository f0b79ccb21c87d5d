/* label: sql */
/* The table of a task's life (core/tasks/task.c) names what does each act, and who: that is
 * there, and they can. tests/sql/sql_states_test.c holds what the acts do. */
#include "tests/support/fixture.h"

#include "cleaner/statements.h"
#include "core/tasks/task.h"
#include "worker/decide/claim.h"
#include "worker/statements.h"

#include <stdio.h>

enum { HOW_BYTES = 200, QUOTED_BYTES = HOW_BYTES + 3 };

static const struct {
    const char *who;
    const struct statement *const *all;
} parts[] = {{"worker", sql_worker_all}, {"cleaner", sql_cleaner_all}};
enum { PARTS = sizeof parts / sizeof *parts };

static const struct task_act *act; /* the one that is checked */

/* "worker/claim.sql" is a statement of the worker, who is one of those that do it. */
static void assert_statement(const char *path)
{
    for (size_t i = 0; i < PARTS; i++) {
        for (const struct statement *const *st = parts[i].all; *st; st++) {
            char name[HOW_BYTES];
            (void)snprintf(name, sizeof name, "%s/%s.sql", parts[i].who, (*st)->name);
            if (strcmp(name, path) == 0) {
                assert_contains(act->who, parts[i].who);
                return;
            }
        }
    }
    fail_msg("%s: there is no statement %s", act->name, path);
}

static void assert_in_schema(struct fixture *fx, const char *name)
{
    if (!test_sql_int(fx,
                      "SELECT count(*) FROM (SELECT proname, pronamespace FROM pg_proc"
                      " UNION SELECT relname, relnamespace FROM pg_class) f (name, space)"
                      " WHERE space = 'tenon'::regnamespace AND 'tenon.' || name = '%s'",
                      name)) {
        fail_msg("%s: there is no %s", act->name, name);
    }
}

/* Does a statement that calls tenon.requeue() or tenon.recover() say this reason? */
static bool says(const struct statement *const *all, const char *reason)
{
    char quoted[QUOTED_BYTES];
    (void)snprintf(quoted, sizeof quoted, "'%s'", reason);
    for (; *all; all++) {
        const char *text = (*all)->text;
        bool requeues = strstr(text, "tenon.requeue(") || strstr(text, "tenon.recover(");
        if (requeues && strstr(text, quoted)) {
            return true;
        }
    }
    return false;
}

static bool decider_gives(const char *reason)
{
    for (int o = OUTCOME_FAILED; o <= OUTCOME_CRASHED; o++) {
        if (strcmp(claim_reason((enum claim_outcome)o), reason) == 0) {
            return true;
        }
    }
    return false;
}

/* Whoever is named gives tenon.requeue() this reason. */
static void assert_reason(const char *reason)
{
    bool given[PARTS] = {decider_gives(reason), says(sql_cleaner_all, reason)};
    for (size_t i = 0; i < PARTS; i++) {
        if (strstr(act->who, parts[i].who) && !given[i]) {
            fail_msg("%s: the %s does not give the reason %s", act->name, parts[i].who, reason);
        }
    }
}

static void check_item(struct fixture *fx, const char *item, const char *before)
{
    size_t len = strlen(item);
    if (len > 4 && strcmp(item + len - 4, ".sql") == 0) {
        assert_statement(item);
    } else if (strcmp(before, "tenon.requeue") == 0) {
        assert_reason(item);
    } else if (strstr(item, "tenon.")) {
        assert_in_schema(fx, strstr(item, "tenon."));
    } else {
        assert_string_equal(item, "no statement");
        assert_string_equal(act->who, "time");
    }
}

static void test_what_does_an_act_is_there(void **state)
{
    struct fixture *fx = *state;
    for (size_t i = 0; i < task_acts_n; i++) {
        char how[HOW_BYTES], *rest = how;
        const char *before = "";
        act = &task_acts[i];
        assert_true(snprintf(how, sizeof how, "%s", act->how) < (int)sizeof how);
        while (rest) {
            char *item = rest, *comma = strstr(rest, ", ");
            rest = comma ? comma + 2 : NULL;
            if (comma) {
                *comma = '\0';
            }
            check_item(fx, item, before);
            before = item;
        }
    }
}

/* No reason that the worker gives is missing in the table. */
static void test_each_reason_is_an_act(void **state)
{
    (void)state;
    for (int o = OUTCOME_FAILED; o <= OUTCOME_CRASHED; o++) {
        char how[HOW_BYTES];
        bool found = false;
        (void)snprintf(how, sizeof how, "tenon.requeue, %s", claim_reason((enum claim_outcome)o));
        for (size_t i = 0; i < task_acts_n; i++) {
            found = found || (strcmp(task_acts[i].how, how) == 0 &&
                              strstr(task_acts[i].who, "worker") != NULL);
        }
        if (!found) {
            fail_msg("the table has no act that the worker does by %s", how);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_what_does_an_act_is_there),
        cmocka_unit_test(test_each_reason_is_an_act),
    };
    return RUN_GROUP(tests);
}
