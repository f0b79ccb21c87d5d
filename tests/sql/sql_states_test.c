/* label: sql */
/* The table of a task's life (core/tasks/task.c) against every statement that changes a task:
 * each is run from each state, and what happened must be what the table says, no more and no
 * less. */
#include "tests/support/partitions.h"
#include "tests/support/polls.h"

#include "cleaner/statements.h"
#include "core/tasks/task.h"
#include "worker/statements.h"

#include <stdio.h>

struct doing {
    const char *name;
    const char *act;    /* in the table; NULL = it must never change a state */
    const char *was;    /* what a task that runs is made to be before, SET's words */
    enum task_state to; /* of the table's rows for `act`, the one that this doing takes */
    void (*run)(struct fixture *fx, const struct held *c);
    const char *reason, *delay_ms; /* for do_requeue */
    int crashes;                   /* of one that runs: it runs alone, after so many */
};

static const struct doing *doing; /* the one that is being done */

static void array_of(char *text, size_t size, int64_t n)
{
    (void)snprintf(text, size, "{%lld}", (long long)n);
}

/* A new worker, as a worker that finds the task; its claim, if it gets one, does not matter. */
static void do_claim(struct fixture *fx, const struct held *c)
{
    struct held mine;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    (void)held_take(fx, worker, c->id, &mine);
}

static void do_poll(struct fixture *fx, const struct held *c)
{
    char worker[UUID_BYTES];
    (void)c;
    worker_make(fx, worker);
    PQclear(poll_run(fx->conn, worker, "{default}", "{a,b,mail}", "100"));
}

static void do_finish(struct fixture *fx, const struct held *c)
{
    (void)held_finish(fx, &sql_finish, c, "{}");
}

static void do_finish_unlocked(struct fixture *fx, const struct held *c)
{
    (void)held_finish(fx, &sql_finish_unlocked, c, "{}");
}

/* It raises where the claim is not valid; that is for other tests. */
static void do_finish_function(struct fixture *fx, const struct held *c)
{
    char text[HELD_TEXT_BYTES];
    held_text(c, text);
    test_sql(fx,
             "DO $$ BEGIN PERFORM tenon.finish('%s');"
             " EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL; END $$",
             text);
}

static void do_finish_many(struct fixture *fx, const struct held *c)
{
    char text[HELD_TEXT_BYTES];
    held_text(c, text);
    test_sql(fx, "SELECT tenon.finish_many('{%s}', skip_lost => true)", text);
}

static void do_wait_signal(struct fixture *fx, const struct held *c)
{
    char text[HELD_TEXT_BYTES];
    held_text(c, text);
    test_sql(fx,
             "DO $$ BEGIN PERFORM tenon.wait_signal('%s', 's');"
             " EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL; END $$",
             text);
}

static void do_requeue(struct fixture *fx, const struct held *c)
{
    free(held_requeue(fx, c, doing->reason, "x", doing->delay_ms));
}

static void do_cancel(struct fixture *fx, const struct held *c)
{
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)c->id);
}

/* Its start_before comes. */
static void do_settle(struct fixture *fx, const struct held *c)
{
    test_sql(fx,
             "UPDATE tenon.task SET start_before = now() WHERE id = %lld;"
             "SELECT tenon.settle()",
             (long long)c->id);
}

/* Its dead_keep is over. */
static void do_purge(struct fixture *fx, const struct held *c)
{
    test_sql(fx,
             "UPDATE tenon.dead SET dead_at = dead_at - interval '91 days' WHERE id = %lld;"
             "SELECT tenon.purge(10)",
             (long long)c->id);
}

/* What an operator does, to this task only. */
static void do_retry(struct fixture *fx, const struct held *c)
{
    test_sql(fx, "SELECT tenon.retry_where('{\"ids\": %lld}')", (long long)c->id);
}

static void do_retry_limited(struct fixture *fx, const struct held *c)
{
    test_sql(fx,
             "UPDATE tenon.dead SET limit_keys = '{x}' WHERE id = %lld;"
             "UPDATE tenon.history SET limit_keys = '{x}' WHERE id = %lld",
             (long long)c->id, (long long)c->id);
    do_retry(fx, c);
}

/* As a retry leaves it. */
static void do_undo(struct fixture *fx, const struct held *c)
{
    test_sql(fx,
             "UPDATE tenon.task SET undo = jsonb_build_object('claims', claims, 'dead_at', now(),"
             " 'reason', 'failures', 'failures', 1, 'crashes', 0, 'run_at', now()) WHERE id = %lld;"
             "SELECT tenon.undo_retry_where('{\"ids\": %lld}')",
             (long long)c->id, (long long)c->id);
}

static void do_cancel_where(struct fixture *fx, const struct held *c)
{
    test_sql(fx, "SELECT tenon.cancel_where('{\"ids\": %lld}')", (long long)c->id);
}

static void do_delete(struct fixture *fx, const struct held *c)
{
    test_sql(fx, "SELECT tenon.delete_where('{\"ids\": %lld}')", (long long)c->id);
}

static void do_run_now(struct fixture *fx, const struct held *c)
{
    test_sql(fx, "SELECT tenon.run_now_where('{\"ids\": %lld}')", (long long)c->id);
}

static void set_run_at(struct fixture *fx, const struct held *c, const char *run_at)
{
    test_sql(fx, "SELECT tenon.set_where('{\"ids\": %lld}', jsonb_build_object('run_at', %s))",
             (long long)c->id, run_at);
}

static void do_set_now(struct fixture *fx, const struct held *c)
{
    set_run_at(fx, c, "now()");
}

static void do_set_ahead(struct fixture *fx, const struct held *c)
{
    set_run_at(fx, c, "now() + interval '1 h'");
}

/* Only a ready one has limits: they keep one blocked until its time has come. */
static void do_set_ahead_limited(struct fixture *fx, const struct held *c)
{
    test_sql(fx,
             "UPDATE tenon.task SET limit_keys = '{x}'"
             " WHERE id = %lld AND start_time IS NULL AND run_at <= now()",
             (long long)c->id);
    do_set_ahead(fx, c);
}

static void do_set_priority(struct fixture *fx, const struct held *c)
{
    test_sql(fx, "SELECT tenon.set_where('{\"ids\": %lld}', '{\"priority\": 9}')",
             (long long)c->id);
}

static void do_unblock(struct fixture *fx, const struct held *c)
{
    test_sql(fx, "SELECT tenon.unblock('{%lld}')", (long long)c->id);
}

/* It has a run_at ahead. */
static void do_unblock_ahead(struct fixture *fx, const struct held *c)
{
    test_sql(fx,
             "UPDATE tenon.task SET wanted_at = now() + interval '1 h' WHERE id = %lld AND"
             " wanted_at IS NOT NULL",
             (long long)c->id);
    do_unblock(fx, c);
}

/* Time goes by: for the task, everything is two hours ago. */
static void do_time(struct fixture *fx, const struct held *c)
{
    test_sql(fx,
             "UPDATE tenon.task SET run_at = run_at - interval '2 h',"
             " created_at = created_at - interval '2 h',"
             " start_time = start_time - interval '2 h' WHERE id = %lld",
             (long long)c->id);
}

static void do_due(struct fixture *fx, const struct held *c)
{
    (void)c;
    const char *const params[] = {"0", "1000"};
    PQclear(statement_run(fx->conn, &sql_due, params, 2));
}

static void recover(struct fixture *fx)
{
    const char *const params[] = {"(0,0)", "(1000,0)", "10 s", "1000"};
    PQclear(statement_run(fx->conn, &sql_recover, params, 4));
}

static void do_recover(struct fixture *fx, const struct held *c)
{
    test_sql(fx, "UPDATE tenon.worker SET state = 'dead', ended_at = now() WHERE id = '%s'",
             c->worker);
    recover(fx);
}

/* What is blocked is a suspect. */
static void do_claim_alone(struct fixture *fx, const struct held *c)
{
    struct held ignored;
    test_sql(fx, "UPDATE tenon.task SET wanted_at = NULL, crashes = 2 WHERE run_at = 'infinity';"
                 "INSERT INTO tenon.suspect SELECT id, 2, 0, true, now() FROM tenon.task"
                 " WHERE run_at = 'infinity'");
    (void)held_take_alone(fx, c->worker, c->id, &ignored);
}

static void do_orphans(struct fixture *fx, const struct held *c)
{
    test_sql(fx, "UPDATE tenon.worker SET state = 'left', ended_at = now() WHERE id = '%s'",
             c->worker);
    recover(fx);
}

/* For everything but a task that runs too long: its timeout lies in the past. */
static void do_expired(struct fixture *fx, const struct held *c)
{
    (void)c;
    recover(fx);
}

static void do_overrun(struct fixture *fx, const struct held *c)
{
    test_sql(fx, "INSERT INTO tenon.kind (name, on_timeout) VALUES ('a', 'dead')");
    do_expired(fx, c);
    test_sql(fx, "DELETE FROM tenon.kind");
}

/* The history goes with its partition. */
static void do_forget(struct fixture *fx, const struct held *c)
{
    (void)c;
    partition_begun(fx, "history", "9 days");
    assert_true(test_sql_bool(fx, "SELECT tenon.drop_history() IS NOT NULL"));
}

static void do_verify(struct fixture *fx, const struct held *c)
{
    char ids[32], keys[32], claims[32];
    array_of(ids, sizeof ids, c->id);
    array_of(keys, sizeof keys, c->key);
    array_of(claims, sizeof claims, c->claims);
    const char *const params[] = {c->worker, ids, keys, claims};
    PQclear(statement_run(fx->conn, &sql_verify, params, 4));
    PQclear(statement_run(fx->conn, &sql_own, params, 1));
}

#define REQUEUE(word, delay) .run = do_requeue, .reason = (word), .delay_ms = (delay)
#define LATE "start_time = start_time - interval '2 h', timeout_ms = 1000"

static const struct doing doings[] = {
    {"claim.sql", "claim", NULL, TASK_RUNNING, .run = do_claim},
    {"poll.sql", "claim", NULL, TASK_RUNNING, .run = do_poll},
    {"finish.sql", "finish", NULL, TASK_DONE, .run = do_finish},
    {"finish_unlocked.sql", "finish", NULL, TASK_DONE, .run = do_finish_unlocked},
    {"tenon.finish", "finish", NULL, TASK_DONE, .run = do_finish_function},
    {"tenon.finish_many", "finish", NULL, TASK_DONE, .run = do_finish_many},
    {"failed", "fail", NULL, TASK_RETRYING, REQUEUE("failed", NULL)},
    {"failed, the last", "fail", "failures = max_attempts - 1", TASK_DEAD, REQUEUE("failed", NULL)},
    {"snooze", "snooze", NULL, TASK_SCHEDULED, REQUEUE("snooze", "60000")},
    {"snooze, failed before", "snooze", "failures = 1", TASK_RETRYING, REQUEUE("snooze", "60000")},
    {"snooze, crashed before", "snooze", "crashes = 1", TASK_RETRYING, REQUEUE("snooze", "60000")},
    {"outcome wait_signal", "wait_signal", NULL, TASK_BLOCKED, REQUEUE("wait_signal", "60000")},
    {"tenon.wait_signal", "wait_in_transaction", NULL, TASK_BLOCKED, .run = do_wait_signal},
    {"released", "release", NULL, TASK_READY, REQUEUE("released", NULL)},
    {"released, failed before", "release", "failures = 3", TASK_READY, REQUEUE("released", NULL)},
    {"failed, with limits", "block", "limit_keys = '{x}'", TASK_BLOCKED, REQUEUE("failed", NULL)},
    {"released, with limits", "block", "limit_keys = '{x}'", TASK_BLOCKED,
     REQUEUE("released", NULL)},
    {"crashed", "crash", NULL, TASK_READY, REQUEUE("crashed", NULL)},
    {"crashed, the second", "suspect", NULL, TASK_BLOCKED, REQUEUE("crashed", NULL), .crashes = 1},
    {"crashed, the third", "crash", NULL, TASK_DEAD, REQUEUE("crashed", NULL), .crashes = 2},
    {"claim_alone.sql", "claim_alone", NULL, TASK_RUNNING, .run = do_claim_alone},
    {"recover.sql, dead", "crash", NULL, TASK_READY, .run = do_recover},
    {"recover.sql, dead, the third", "crash", NULL, TASK_DEAD, .run = do_recover, .crashes = 2},
    {"recover.sql, dead and late", "crash", LATE, TASK_READY, .run = do_recover},
    {"recover.sql, left", "crash", NULL, TASK_READY, .run = do_orphans},
    {"timed_out", "time_out", NULL, TASK_RETRYING, REQUEUE("timed_out", NULL)},
    {"timed_out, the last", "time_out", "failures = max_attempts - 1", TASK_DEAD,
     REQUEUE("timed_out", NULL)},
    {"recover.sql, late", "time_out", LATE, TASK_RETRYING, .run = do_expired},
    {"recover.sql, late, the last", "time_out", LATE ", max_attempts = 1", TASK_DEAD,
     .run = do_expired},
    {"recover.sql, in time", NULL, NULL, TASK_NONE, .run = do_expired},
    {"recover.sql, on_timeout dead", "time_out", LATE, TASK_DEAD, .run = do_overrun},
    {"dead", "give_up", NULL, TASK_DEAD, REQUEUE("dead", NULL)},
    {"tenon.cancel", "cancel", NULL, TASK_CANCELLED, .run = do_cancel},
    {"tenon.cancel_where", "cancel", NULL, TASK_CANCELLED, .run = do_cancel_where},
    {"tenon.retry_where", "retry", NULL, TASK_READY, .run = do_retry},
    {"tenon.retry_where, with limits", "retry", NULL, TASK_BLOCKED, .run = do_retry_limited},
    {"tenon.undo_retry_where", "undo", NULL, TASK_DEAD, .run = do_undo},
    {"tenon.delete_where", "delete", NULL, TASK_NONE, .run = do_delete},
    {"tenon.run_now_where", "run_now", NULL, TASK_READY, .run = do_run_now},
    {"tenon.set_where, run_at now", "run_now", NULL, TASK_READY, .run = do_set_now},
    {"tenon.set_where, run_at ahead", "put_off", NULL, TASK_SCHEDULED, .run = do_set_ahead},
    {"tenon.set_where, run_at ahead, with limits", "put_off", NULL, TASK_BLOCKED,
     .run = do_set_ahead_limited},
    {"tenon.set_where, priority", NULL, NULL, TASK_NONE, .run = do_set_priority},
    {"tenon.unblock", "unblock", NULL, TASK_READY, .run = do_unblock},
    {"tenon.unblock, run_at ahead", "unblock", NULL, TASK_SCHEDULED, .run = do_unblock_ahead},
    {"time", "due", NULL, TASK_READY, .run = do_time},
    {"due.sql", NULL, NULL, TASK_NONE, .run = do_due},
    {"verify.sql, own.sql", NULL, NULL, TASK_NONE, .run = do_verify},
    {"tenon.settle", "expire", NULL, TASK_EXPIRED, .run = do_settle},
    {"tenon.purge", "purge", NULL, TASK_NONE, .run = do_purge},
    {"history", "forget", NULL, TASK_NONE, .run = do_forget},
};
enum { DOINGS = sizeof doings / sizeof *doings };

static bool happened[100]; /* by the rows of task_acts */

/* A task that is claimed (and requeued, unless it shall run), with the claim it had or has. */
static void make_claimed(struct fixture *fx, enum task_state state, struct held *c)
{
    held_new(fx, c);
    if (state == TASK_RETRYING) {
        free(held_requeue(fx, c, "failed", "x", NULL));
    } else if (state == TASK_DEAD) {
        free(held_requeue(fx, c, "dead", "x", NULL));
    } else if (state == TASK_DONE) {
        assert_true(held_finish(fx, &sql_finish, c, "{}"));
    }
}

static void make(struct fixture *fx, enum task_state state, struct held *c)
{
    *c = (struct held){.id = 999999999, .claims = 1, .key = 1};
    worker_make(fx, c->worker);
    switch (state) {
    case TASK_RUNNING:
    case TASK_RETRYING:
    case TASK_DEAD:
    case TASK_DONE:
        make_claimed(fx, state, c);
        break;
    case TASK_SCHEDULED:
        c->id = test_sql_int(fx, "SELECT tenon.enqueue('a', delay => '1 h')");
        break;
    case TASK_BLOCKED:
    case TASK_READY:
    case TASK_CANCELLED:
    case TASK_EXPIRED:
        c->id = test_sql_int(fx, "SELECT tenon.enqueue('a')");
        break;
    case TASK_STATE_COUNT:
        break;
    }
    if (state == TASK_BLOCKED) {
        test_sql(fx, "UPDATE tenon.task SET run_at = 'infinity', wanted_at = run_at");
    } else if (state == TASK_CANCELLED) {
        test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)c->id);
    } else if (state == TASK_EXPIRED) {
        do_settle(fx, c);
    } else if (state == TASK_RUNNING && doing->crashes > 0) {
        held_alone(fx, c, doing->crashes);
    } else if (state == TASK_RUNNING && doing->was) {
        test_sql(fx, "UPDATE tenon.task SET %s WHERE id = %lld", doing->was, (long long)c->id);
    }
}

/* What the table says about this doing from this state; marks the row as one that happened. */
static enum task_state expected(enum task_state from)
{
    bool possible = false;
    for (size_t i = 0; doing->act && i < task_acts_n; i++) {
        if (strcmp(task_acts[i].name, doing->act) == 0 && task_acts[i].from == from) {
            possible = true;
            if (task_acts[i].to == doing->to) {
                happened[i] = true;
                return doing->to;
            }
        }
    }
    if (possible) {
        fail_msg("%s: the table has act %s from %s, but not to %s", doing->name, doing->act,
                 task_state_word(from), task_state_word(doing->to));
    }
    return from;
}

static void check(struct fixture *fx, enum task_state from)
{
    struct held c;
    make(fx, from, &c);
    assert_state(fx, c.id, task_state_word(from));
    doing->run(fx, &c);
    enum task_state want = expected(from);
    char *got = task_state_of(fx, c.id);
    if (strcmp(got, task_state_word(want)) != 0) {
        fail_msg("%s made a task that was \"%s\" into \"%s\"; the table says \"%s\"", doing->name,
                 task_state_word(from), got, task_state_word(want));
    }
    free(got);
    test_sql(fx, "DELETE FROM tenon.task; DELETE FROM tenon.dead; DELETE FROM tenon.history;"
                 "DELETE FROM tenon.suspect; UPDATE tenon.worker SET ended_at = now()");
}

static void mark_enqueue(enum task_state to)
{
    for (size_t i = 0; i < task_acts_n; i++) {
        if (strcmp(task_acts[i].name, "enqueue") == 0 && task_acts[i].to == to) {
            happened[i] = true;
        }
    }
}

static void test_every_doing_from_every_state(void **state)
{
    struct fixture *fx = *state;
    assert_true(task_acts_n <= sizeof happened);
    for (size_t i = 0; i < DOINGS; i++) {
        doing = &doings[i];
        for (int from = 0; from <= TASK_NONE; from++) {
            check(fx, (enum task_state)from);
        }
    }
    /* make() has enqueued both, and looked at their states */
    mark_enqueue(TASK_READY);
    mark_enqueue(TASK_SCHEDULED);
    mark_enqueue(TASK_BLOCKED); /* sql_flow_test does it */
    for (size_t i = 0; i < task_acts_n; i++) {
        if (!happened[i]) {
            fail_msg(
                "the table says that %s takes a task from \"%s\" to \"%s\", and nothing here does",
                task_acts[i].name, task_state_word(task_acts[i].from),
                task_state_word(task_acts[i].to));
        }
    }
}

static void test_words_are_those_of_the_view(void **state)
{
    struct fixture *fx = *state;
    char *view = test_sql_text(
        fx, "SELECT pg_get_viewdef('tenon.tasks') || pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE contypid = 'tenon.outcome'::regtype");
    for (int i = 0; i < TASK_STATE_COUNT; i++) {
        char quoted[32];
        (void)snprintf(quoted, sizeof quoted, "'%s'", task_state_word((enum task_state)i));
        assert_contains(view, quoted);
        assert_true(strlen(task_state_text((enum task_state)i)) > 0);
    }
    free(view);
    assert_string_equal(task_state_word(TASK_NONE), "");
}

static void test_table_has_no_row_twice(void **state)
{
    (void)state;
    for (size_t i = 0; i < task_acts_n; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_false(strcmp(task_acts[i].name, task_acts[k].name) == 0 &&
                         task_acts[i].from == task_acts[k].from &&
                         task_acts[i].to == task_acts[k].to);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_every_doing_from_every_state),
        WITH_DATABASE(test_words_are_those_of_the_view),
        cmocka_unit_test(test_table_has_no_row_twice),
    };
    return RUN_GROUP(tests);
}
