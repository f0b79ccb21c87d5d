/* label: sql */
/* tenon.why: for each state that a task can be in, one sentence that says it, and what to do. */
#include "tests/support/held.h"

#include "worker/statements.h"

#include <stdio.h>

struct situation {
    const char *name;
    const char *sql;         /* makes it so, of task %1$lld; NULL = nothing */
    const char *ends;        /* how its claim ends, if it was claimed; NULL = it was not */
    const char *code, *says; /* parts, separated by '|' */
};

/* The task wants to start at `at` under the limit `name`, as one of `keys`, with `n` of a higher
 * priority before it. */
#define LIMITED_BY(name, limit, keys, more, n, at, also)                                           \
    "SELECT tenon.set_limit('" name "', " limit ");"                                               \
    "SELECT tenon.enqueue('a'" more ", priority => 9) FROM generate_series(1, " n ");"             \
    "UPDATE tenon.task SET run_at = 'infinity', wanted_at = " at ", limit_keys = '{" keys "}'"     \
    " WHERE id = %1$lld; SELECT tenon.queue_limits('{%1$lld}'); SELECT tenon.settle();"            \
    "SELECT " also

/* One task holds the limit, and one is before it. */
#define LIMITED(at, also)                                                                          \
    LIMITED_BY("t", "max_running => 1", "t:1", ", limit_keys => '{t:1}'", "2", at, also)

#define NO_CLEANER "SELECT pg_advisory_unlock_all();"

static const struct situation situations[] = {
    {"scheduled", "UPDATE tenon.task SET run_at = now() + interval '1 h' WHERE id = %1$lld", NULL,
     "not_due", "It is due at |(in |tenon run-now %1$lld"},
    {"blocked",
     "UPDATE tenon.task SET run_at = 'infinity', wanted_at = now(), delayed = false;"
     "INSERT INTO tenon.flow_task (id, flow) VALUES (7, 7), (%1$lld, 7);"
     "INSERT INTO tenon.flow_wait SELECT %1$lld, 6 + i, 'wait' FROM generate_series(1, 5) i",
     NULL, "waits_for_parents",
     "It waits for 5 parents: 7 (gone), 8 (gone), 9 (gone) and others|nothing; tenon flow"},
    {"blocked, by nothing known",
     "UPDATE tenon.task SET run_at = 'infinity', wanted_at = now(), delayed = false;"
     "DELETE FROM tenon.flow_wait",
     NULL, "blocked",
     "no parent, limit or signal is recorded|a cleaner unblocks it within a second."},
    {"waits for a limit", LIMITED("now()", "1 = 1"), NULL, "limit",
     "It waits for the limit t:1 (1 at once, 1 taken), behind 1 task.|tenon limit show "
     "t:1; to release more: "
     "tenon limit set t --max-running 2."},
    {"waits for a limit with a number of its own",
     "SELECT tenon.set_limit('t:1', max_running => 1, max_starts => 9, per => '1.5 s', weight"
     " => 2);" LIMITED("now()", "1 = 1"),
     NULL, "limit",
     "(1 at once, 1 taken, 9 per 00:00:01.5)|tenon limit set t:1 --max-running 2 --max-starts "
     "9/1500ms --weight 2."},
    {"waits for a limit, and nobody lets it go", NO_CLEANER LIMITED("now()", "1 = 1"), NULL,
     "limit", "behind 1 task. No cleaner leads, and |What to do: start one: tenon cleaner"},
    {"waits for a limit that is held by a task without a worker",
     LIMITED_BY("t", "max_running => 1", "t:1", ", limit_keys => '{t:1}'", "2", "now()",
                "1 = 1; UPDATE tenon.task SET kind = 'x' WHERE wanted_at IS NULL"),
     NULL, "limit",
     ", behind 1 task. Of task |: No living worker handles the kind x in |start one: tenon worker "
     "--queues default --handler 'x=...'"},
    {"waits for a limit that is paused",
     LIMITED("now()", "tenon.pause_limit('t', 'they asked') IS NULL"), NULL, "limit_paused",
     "the limit t:1 (it is paused by |: they asked)|tenon limit resume t."},
    {"waits for a limit that is paused, held by a task without a worker",
     LIMITED("now()", "tenon.pause_limit('t') IS NULL; UPDATE tenon.task SET kind = 'x' WHERE"
                      " wanted_at IS NULL"),
     NULL, "limit_paused", "(it is paused by |tenon limit resume t."},
    {"waits for a rate",
     LIMITED_BY("t", "max_starts => 5, per => '1 min'", "t:1", ", limit_keys => '{t:1}'", "6",
                "now()", "1 = 1"),
     NULL, "limit",
     "It waits for the limit t:1 (5 per 00:01:00), behind 1 task.|tenon limit set t --max-starts "
     "10/60s."},
    {"waits for its turn",
     LIMITED_BY("t", "fair => true", "t:1", ", limit_keys => '{t:1}'", "30", "now()", "1 = 1"),
     NULL, "limit",
     "It waits for the limit t:1 (fair to all t keys), behind 2 tasks.|limit show t:1"},
    {"waits for the limit of its kind",
     LIMITED_BY("kind/a", "max_running => 1, max_starts => 5, per => '1 h'", "kind/a", "", "2",
                "now()", "1 = 1"),
     NULL, "limit",
     "the limit kind/a (1 at once, 1 taken, 5 per 01:00:00), behind 1 |limit set kind/a "
     "--max-running 2 "
     "--max-starts 5/3600s."},
    {"waits for the limit of its queue",
     LIMITED_BY("queue/default", "max_running => 2", "queue/default", "", "3", "now()", "1 = 1"),
     NULL, "limit",
     "the limit queue/default (2 at once, 2 taken), behind 1 task.|limit show "
     "queue/default"},
    {"waits for its time, then for a limit", LIMITED("now() + interval '1 h'", "1 = 1"), NULL,
     "not_due", "It is due at |and waits for the limit t:1 then|tenon set %1$lld --run-at now"},
    {"waits for its time after a failure, then for a limit",
     LIMITED("now() + interval '1 h'", "1 = 1; UPDATE tenon.task SET failures = 1,"
                                       " last_error = 'oops' WHERE wanted_at IS NOT NULL"),
     NULL, "not_due", "for the limit t:1 then. It has failed before (1 of 25): oops."},
    {"retrying", NULL, "failed", "not_due", "due at |after failure 1 of 25: oops|tenon run-now"},
    {"after a crash",
     "UPDATE tenon.task SET crashes = 1, last_error = 'worker x died', run_at = now() + '1 h'"
     " WHERE id = %1$lld",
     NULL, "not_due", "It is due at |, after a crash: worker x died|tenon run-now %1$lld"},
    {"in a copy", "UPDATE tenon.home SET database = 1", NULL, "copied",
     "No worker claims tasks here: the schema tenon was copied to this database|tenon adopt"},
    {"queue paused", "SELECT tenon.pause('default', why => 'mail is down')", NULL, "queue_paused",
     "The queue default is paused by |since |: mail is down|tenon resume default"},
    {"kind paused", "SELECT tenon.pause(kind => 'a')", NULL, "kind_paused",
     "The kind a is paused by |tenon resume --kind a"},
    {"everything paused", "SELECT tenon.pause(everything => true)", NULL, "everything_paused",
     "Everything is paused by |tenon resume --all"},
    {"no worker at all", "UPDATE tenon.worker SET ended_at = now(), state = 'left'", NULL,
     "no_worker",
     "No living worker handles the kind a in the queue default|no worker is alive|start one"},
    {"no worker for the kind", "UPDATE tenon.worker SET kinds = '{b}'", NULL, "no_worker",
     "kind a in the queue default|the living workers serve default/b|--handler 'a="},
    {"no worker but one that is draining", "UPDATE tenon.worker SET state = 'draining'", NULL,
     "no_worker", "the living workers serve default/a,b,mail (draining)|start"},
    {"no worker for the queue", "UPDATE tenon.worker SET queues = '{mail}'", NULL, "no_worker",
     "the living workers serve mail/"},
    {"backing off", "UPDATE tenon.worker SET backing_off = 'a,b: no such file'", NULL,
     "handler_backs_off", "handler of the kind a does not start|no such file|fix the handler"},
    {"starting",
     "UPDATE tenon.worker SET starting = 'a,b: ' || floor(extract(epoch FROM clock_timestamp()) *"
     " 1000 - 12000) || ' importing shop: 5%%'",
     NULL, "handler_starting",
     "It waits for a child of its handler, which has been starting for 12 s: importing shop:"
     " 5%%, on worker |start_limit"},
    {"claimed, and starting",
     "UPDATE tenon.worker SET starting = 'a,b: ' || floor(extract(epoch FROM clock_timestamp()) *"
     " 1000 - 12000) || ' ';"
     "UPDATE tenon.task SET start_time = now(), claim_key = id,"
     " worker_id = (SELECT id FROM tenon.worker) WHERE id = %1$lld",
     NULL, "handler_starting", "It does not run yet: |been starting there for 12 s."},
    {"another handler starts", "UPDATE tenon.worker SET starting = 'b: 0 x'", NULL, "no_free_slot",
     "It has been ready since "},
    {"waiting", NULL, NULL, "no_free_slot",
     "It has been ready since |behind 0 tasks, 0 of them with a higher priority.|nothing, if it "
     "starts"},
    {"behind tasks that free slots do not help",
     "SELECT tenon.enqueue('x', priority => 9), tenon.enqueue('mail', priority => 9);"
     "SELECT tenon.pause(kind => 'mail');"
     "SELECT tenon.enqueue('b', priority => 9), tenon.enqueue('a')",
     NULL, "no_free_slot",
     "behind 1 task, 1 of them with a higher|workers, or tenon set %1$lld --prio"},
    {"all slots are taken",
     "UPDATE tenon.worker SET slots = 2; SELECT tenon.enqueue('b') FROM generate_series(1, 2);"
     "UPDATE tenon.task SET start_time = now(), claim_key = id,"
     " worker_id = (SELECT id FROM tenon.worker)"
     " WHERE id > %1$lld",
     NULL, "no_free_slot",
     "behind 0 tasks, |priority; the workers that serve it run 2 tasks in 2 slots. What "
     "to do: add slots or workers."},
    {"behind others",
     "SELECT tenon.enqueue('a', priority => 9) FROM generate_series(1, 3);"
     "UPDATE tenon.task SET priority = 0 WHERE id = %1$lld",
     NULL, "no_free_slot", "behind 3 tasks, 3 of them with a higher priority|--priority 9"},
    {"waits for a signal", NULL, "wait_signal", "waits_for_signal",
     "It is blocked: it waits for the signal s, until |(in |tenon signal 's' sends it"},
    {"running", NULL, "", "running", "It runs on host, pid 1, claimed |must end by |tenon cancel"},
    {"running, and another run waits",
     "UPDATE tenon.task SET unique_key = 'k' WHERE id = %1$lld;"
     "SELECT tenon.enqueue('a', unique_key => 'k', on_conflict => 'replace')",
     "", "running", "It runs on |Another run under its unique key k waits for its end, since |"},
    {"running, and other runs wait, which cannot be one",
     "UPDATE tenon.task SET unique_key = 'k' WHERE id = %1$lld;"
     "SELECT tenon.enqueue('a', unique_key => 'k'); SELECT tenon.settle();"
     "UPDATE tenon.again SET enqueued_by = 'other';"
     "UPDATE tenon.setting SET cancel_own_only = true;"
     "SELECT tenon.enqueue('a', unique_key => 'k'); SELECT tenon.settle();"
     "UPDATE tenon.setting SET cancel_own_only = false",
     "", "running", "2 other runs under its unique key k wait for its end, the first since |"},
    {"running on a worker that is gone", "UPDATE tenon.worker SET ended_at = now(), state = 'dead'",
     "", "running", "that worker is gone"},
    {"running on a worker that is gone, and nobody sees it",
     NO_CLEANER "UPDATE tenon.worker SET ended_at = now(), state = 'dead'", "", "running",
     "within a minute, but none leads; start one: tenon cleaner."},
    {"dead: its handler", NULL, "dead", "ended", "Dead since |can never work: oops|tenon retry"},
    {"dead: failures", "UPDATE tenon.task SET failures = 24", "failed", "ended",
     "failed 25 times (max_attempts 25): oops"},
    {"dead: its only attempt", "UPDATE tenon.task SET max_attempts = 1", "failed", "ended",
     "failed once (max_attempts 1): oops"},
    {"dead: crashes",
     "UPDATE tenon.task SET crashes = 2; INSERT INTO tenon.suspect SELECT id, 2,"
     " tenon.progress_mark(t), true, now(), claims FROM tenon.task t",
     "crashed", "ended", "crashed 3 times, the last time without other tasks in its worker"},
    {"dead: timeout", "INSERT INTO tenon.kind (name, on_timeout) VALUES ('a', 'dead')", "timed_out",
     "ended", "it ran past its timeout"},
    {"done", NULL, "done", "ended", "It ended well at "},
    {"cancelled", "SELECT tenon.cancel(%1$lld)", NULL, "ended", "It was cancelled by "},
    {"expired, not noticed yet", "UPDATE tenon.task SET start_before = now()", NULL, "ended",
     "It has expired: it did not start before |moves it to the history within a second."},
    {"expired", "UPDATE tenon.task SET start_before = now(); SELECT tenon.settle()", NULL, "ended",
     "It expired: it was not started before "},
    {"absent", "DELETE FROM tenon.task WHERE id = %1$lld", NULL, "absent",
     "There is no task %1$lld: it was never enqueued, its transaction has not committed"},
};

/* As far as anybody sees: the fixture's session holds the lock by which one leads. */
static void cleaner_leads(struct fixture *fx)
{
    test_sql(fx, "SELECT pg_advisory_lock(leader_key) FROM tenon.setting");
}

static void make(struct fixture *fx, const struct situation *s, struct held *c)
{
    worker_make(fx, c->worker);
    test_sql(fx, "UPDATE tenon.worker SET host = 'host', pid = 1");
    cleaner_leads(fx);
    c->id = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    if (s->ends) {
        char worker[UUID_BYTES];
        memcpy(worker, c->worker, sizeof worker);
        assert_true(held_take(fx, worker, c->id, c));
    }
    if (s->sql) {
        char sql[900];
        (void)snprintf(sql, sizeof sql, s->sql, (long long)c->id);
        test_sql(fx, "%s", sql);
    }
    if (s->ends && strcmp(s->ends, "done") == 0) {
        assert_true(held_finish(fx, &sql_finish, c, "{}"));
    } else if (s->ends && *s->ends) {
        free(held_requeue(fx, c, s->ends, "oops", NULL));
    }
}

static void check(struct fixture *fx, const struct situation *s)
{
    struct held c;
    char says[400], *rest = says;
    make(fx, s, &c);
    char *code = test_sql_text(fx, "SELECT code FROM tenon.why_of(%lld)", (long long)c.id);
    char *why = test_sql_text(fx, "SELECT tenon.why(%lld)", (long long)c.id);
    (void)snprintf(says, sizeof says, s->says, (long long)c.id);
    if (strcmp(code, s->code) != 0) {
        fail_msg("%s: \"%s\", not \"%s\": %s", s->name, code, s->code, why);
    }
    for (char *part; (part = strsep(&rest, "|"));) {
        assert_contains(why, part);
    }
    free(code);
    free(why);
    test_sql(
        fx,
        "TRUNCATE tenon.task, tenon.dead, tenon.history, tenon.worker, tenon.kind,"
        " tenon.queue, tenon.paused, tenon.again, tenon.limit, tenon.limit_task, tenon.limit_event,"
        " tenon.limit_due, tenon.limit_turn;"
        "SELECT tenon.adopt(),"
        " pg_advisory_unlock_all()");
}

static void test_each_state_has_its_sentence(void **state)
{
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof situations / sizeof *situations; i++) {
        check(fx, &situations[i]);
    }
}

/* Not seen before its commit, like everything else. */
static void test_an_open_transaction(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a')");
    assert_true(test_sql_bool(fx, "SELECT code = 'absent' FROM tenon.why_of(1)"));
    sql_run(other, "COMMIT");
    assert_true(test_sql_bool(fx, "SELECT code = 'no_worker' FROM tenon.why_of(1)"));
    PQfinish(other);
}

/* Rows of tables and entries of indexes. */
static int64_t rows_read(PGconn *conn)
{
    return sql_int(conn, "SELECT sum(pg_stat_get_xact_tuples_returned(oid)) FROM pg_class"
                         " WHERE relnamespace = 'tenon'::regnamespace");
}

/* The answer for a task says so, and reads no more rows than that. */
static void says_after(struct fixture *fx, int64_t id, const char *says, int64_t rows)
{
    int64_t before = (test_sql(fx, "BEGIN"), rows_read(fx->conn));
    char *why = test_sql_text(fx, "SELECT tenon.why(%lld)", (long long)id);
    int64_t read = rows_read(fx->conn) - before;
    test_sql(fx, "ROLLBACK");
    assert_contains(why, says);
    if (read > rows) {
        fail_msg("it reads %lld rows and not at most %lld for: %s", (long long)read,
                 (long long)rows, why);
    }
    free(why);
}

/* However long the queue is: what is before it is counted to a bound, and what is behind it, or not
 * due, is not read. */
static void test_a_long_queue(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    int64_t first = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, '{20000}')),"
                 " tenon.enqueue_many('a', array_fill('1'::jsonb, '{20000}'), priority => 9,"
                 " delay => '1 h')");
    int64_t last = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    test_sql(fx, "ANALYZE tenon.task");
    says_after(fx, first, "behind 0 tasks, 0 of them", 1000);
    says_after(fx, last, "behind at least 10000 tasks, 0 of them", 11000);
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, '{5}'), priority => 5)");
    says_after(fx, first, "behind 5 tasks, 5 of them", 1000);
}

static void test_a_long_line(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1);"
                 "SELECT tenon.enqueue('a', limit_keys => '{t:1}'); SELECT tenon.settle()");
    int64_t first = test_sql_int(fx, "SELECT tenon.enqueue('a', limit_keys => '{t:1}')");
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, '{12000}'), limit_keys =>"
                 " '{t:1}')");
    int64_t last = test_sql_int(fx, "SELECT tenon.enqueue('a', limit_keys => '{t:1}')");
    test_sql(fx, "ANALYZE tenon.task, tenon.limit_task");
    says_after(fx, first, "the limit t:1 (1 at once, 1 taken), behind 0 tasks.", 1000);
    says_after(fx, last, "the limit t:1 (1 at once, 1 taken), behind at least 10000 tasks.", 11000);
}

static void assert_why(struct fixture *fx, int64_t id, const char *says, const char *advice)
{
    char *why = test_sql_text(fx, "SELECT tenon.why(%lld)", (long long)id);
    assert_contains(why, says);
    assert_contains(why, advice);
    free(why);
}

/* What it waits for has a reason to wait, too. */
static void test_through_a_parent(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    cleaner_leads(fx);
    test_sql(fx, "SELECT tenon.flow('{\"tasks\": [{\"name\": \"p\", \"kind\": \"x\"},"
                 " {\"name\": \"c\", \"kind\": \"a\", \"depends_on\": [\"p\"]}]}')");
    assert_why(fx, 2,
               "It waits for a parent: 1 (x, ready). Of task 1: No living worker handles the",
               "What to do: start one: tenon worker --queues default --handler 'x=...'.");
    test_sql(fx, "UPDATE tenon.task SET kind = 'b' WHERE id = 1");
    assert_why(fx, 2, "It waits for a parent: 1 (b, ready). What to do: tenon why 1 explains that",
               "tenon flow 1 shows the whole flow.");
    assert_true(held_take(fx, worker, 1, &c));
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    test_sql(fx, "SELECT pg_advisory_unlock_all()");
    assert_why(fx, 2, "It waits for a parent: 1 (b, done). No cleaner leads, and without one",
               "What to do: start one: tenon cleaner; then ask again.");
    test_sql(fx, "SELECT tenon.settle()");
    assert_why(fx, 2, "It has been ready since ", "nothing, if it starts within a second");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_each_state_has_its_sentence),
        WITH_DATABASE(test_an_open_transaction),
        WITH_DATABASE(test_a_long_queue),
        WITH_DATABASE(test_a_long_line),
        WITH_DATABASE(test_through_a_parent),
    };
    return RUN_GROUP(tests);
}
