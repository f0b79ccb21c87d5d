/* label: e2e */
/* timeout: 240 */
/* The cleaner on real servers: what it publishes, whom it declares dead, what it survives. */
#include "cleaner/decide/verdict.h"
#include "tests/support/broker.h"
#include "tests/support/fixture.h"
#include "tests/support/process.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/now.h"

enum { LIMIT_MS = 15000, LATE_MS = 200, DEAD_LIMIT_MS = 40000 };

static const char mail[] = "default/mail";

static void await_depth(struct broker *b, const char *queue, int64_t depth, int64_t limit_ms)
{
    int64_t until_ms = patience_end_ms(limit_ms), seen;
    while ((seen = broker_depth(b, queue)) != depth) {
        if (now_ms() >= until_ms) {
            fail_msg("tenon.%s holds %lld ids, not %lld", queue, (long long)seen, (long long)depth);
        }
        (void)poll(NULL, 0, 2);
    }
}

/* A cleaner that leads, and somebody who serves its wake-ups. */
static struct process *start(struct fixture *fx, struct broker **ret)
{
    struct process *p = TENON(fx, "cleaner");
    process_await_line(p, "event=leader", LIMIT_MS);
    if (ret) {
        *ret = broker_open(fx->amqp_url);
        broker_spy(*ret, mail, mail);
    }
    return p;
}

static void stop(struct process *p)
{
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, 5000), 0);
}

/* The leader sleeps: it holds the sleeper's lock. */
static const char asleep[] =
    "SELECT EXISTS (SELECT FROM tenon.lock JOIN tenon.setting ON key = sleeper_key WHERE counts)";

static int64_t enqueue(struct fixture *fx, const char *more)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('mail', '{}'%s)", more);
}

/* A worker's row; its lock is held on fx->conn when `lives`. */
static char *add_worker(struct fixture *fx, bool lives)
{
    char *id = test_sql_text(fx, "INSERT INTO tenon.worker (host, pid, slots, queues, kinds)"
                                 " VALUES ('here', 17, 4, '{default}', '{mail}') RETURNING id");
    if (lives) {
        test_sql(fx, "SELECT pg_advisory_lock(lock_key) FROM tenon.worker WHERE id = '%s'", id);
    }
    return id;
}

static const char nobody[] = "00000000-0000-4000-8000-000000000001";

static void claim(struct fixture *fx, int64_t task, const char *worker)
{
    test_sql(
        fx,
        "UPDATE tenon.task SET start_time = clock_timestamp(), claim_key = id, worker_id = '%s',"
        " claims = claims + 1 WHERE id = %lld",
        worker, (long long)task);
}

/* --- wake-ups -------------------------------------------------------------------------------- */

static void test_fresh_rows_are_published(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *p = start(fx, &b);
    for (int i = 1; i <= 20; i++) {
        (void)enqueue(fx, "");
    }
    await_depth(b, mail, 20, LIMIT_MS);
    broker_spy(b, "bulk/mail", "bulk/mail");
    test_sql(fx, "SELECT tenon.enqueue_many('mail', array_fill('{}'::jsonb, ARRAY[2500]), 'bulk')");
    await_depth(b, "bulk/mail", 2500, LIMIT_MS);
    assert_int_equal(broker_depth(b, mail), 20);
    stop(p);
    broker_close(b);
}

static void test_a_sleeping_leader_is_woken(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *p = start(fx, &b);
    int64_t best_ms = INT64_MAX;
    for (int i = 1; i <= 5; i++) {
        test_await(fx, LIMIT_MS, "%s", asleep);
        int64_t begin_ms = now_ms();
        (void)enqueue(fx, "");
        await_depth(b, mail, i, LIMIT_MS);
        int64_t took_ms = now_ms() - begin_ms;
        best_ms = took_ms < best_ms ? took_ms : best_ms;
    }
    /* without a NOTIFY the leader's tick would take half a second on average, five times */
    assert_in_range(best_ms, 0, patience_loaded_ms(100));
    stop(p);
    broker_close(b);
}

static void test_a_row_without_notify_is_found_by_the_tick(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *p = start(fx, &b);
    test_await(fx, LIMIT_MS, "%s", asleep);
    (void)enqueue(fx, ", notify => false");
    await_depth(b, mail, 1, LIMIT_MS);
    stop(p);
    broker_close(b);
}

/* The transaction of the lower ids began to write later than the one that committed first, so
 * that a snapshot's xmax does not cover it. Its rows are asked for until it is over. */
static void test_ids_that_commit_in_another_order(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *p = start(fx, &b);
    PGconn *first = sql_connect(fx->database_url), *late = sql_connect(fx->database_url);
    int64_t published = 1;
    sql_run(first, "BEGIN; SELECT pg_current_xact_id()");
    sql_run(late, "BEGIN; SELECT tenon.enqueue('mail'); SELECT tenon.enqueue('mail')");
    int64_t begin_ms = now_ms();
    sql_run(first, "SELECT tenon.enqueue('mail'); COMMIT");
    await_depth(b, mail, published, LIMIT_MS);
    while (now_ms() - begin_ms < LATE_MS) {
        (void)enqueue(fx, "");
        await_depth(b, mail, ++published, LIMIT_MS);
    }
    sql_run(late, "COMMIT");
    await_depth(b, mail, published + 2, LIMIT_MS);
    assert_took_between(begin_ms, LATE_MS, 1900);
    PQfinish(first);
    PQfinish(late);
    stop(p);
    broker_close(b);
}

static void test_what_is_not_ready_is_not_published(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    test_sql(fx, "SELECT tenon.pause('still')");
    struct process *p = start(fx, &b);
    broker_spy(b, "last/mail", "last/mail");
    broker_spy(b, "still/mail", "still/mail");
    (void)enqueue(fx, ", announced => true");
    (void)enqueue(fx, ", delay => '1 hour'");
    (void)enqueue(fx, ", queue => 'still'");
    (void)enqueue(fx, ", queue => 'last'");
    await_depth(b, "last/mail", 1, LIMIT_MS);
    assert_int_equal(broker_depth(b, mail), 0);
    assert_int_equal(broker_depth(b, "still/mail"), 0);
    stop(p);
    broker_close(b);
}

static void test_due_rows_are_published(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *p = start(fx, &b);
    int64_t begin_ms = now_ms();
    (void)enqueue(fx, ", delay => '700 ms'");
    await_depth(b, mail, 1, LIMIT_MS);
    assert_took_between(begin_ms, 690, 3000);
    stop(p);
    broker_close(b);
}

static void test_many_due_rows_at_one_moment(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *p = start(fx, &b);
    int64_t begin_ms = now_ms();
    test_sql(fx, "SELECT tenon.enqueue_many('mail', array_fill('{}'::jsonb, ARRAY[1700]),"
                 " delay => '1 s')");
    await_depth(b, mail, 1700, LIMIT_MS);
    assert_took_between(begin_ms, 990, 2900);
    stop(p);
    broker_close(b);
}

/* --- recovery -------------------------------------------------------------------------------- */

static void test_a_dead_worker_is_declared_dead_once(void **state)
{
    struct fixture *fx = *state;
    char *dead = add_worker(fx, false), *alive = add_worker(fx, true);
    int64_t lost = enqueue(fx, ""), kept = enqueue(fx, ", announced => true");
    claim(fx, lost, dead);
    claim(fx, kept, alive);
    struct broker *b;
    int64_t begin_ms = now_ms();
    struct process *one = start(fx, &b), *two = TENON(fx, "cleaner");
    test_await(fx, DEAD_LIMIT_MS,
               "SELECT state = 'dead' AND ended_at IS NOT NULL, state FROM tenon.worker"
               " WHERE id = '%s'",
               dead);
    /* the session had to be old */
    assert_took_between(begin_ms, VERDICT_PATIENCE_MS, DEAD_LIMIT_MS);
    await_depth(b, mail, 1, LIMIT_MS);
    char expected[128];
    (void)snprintf(expected, sizeof expected, "worker %s on here pid 17 died", dead);
    char *error = test_sql_text(fx, "SELECT last_error FROM tenon.task WHERE id = %lld",
                                (long long)lost);
    assert_string_equal(error, expected);
    assert_true(test_sql_bool(fx,
                              "SELECT start_time IS NULL AND crashes = 1 AND failures = 0"
                              " AND claims = 1 FROM tenon.task WHERE id = %lld",
                              (long long)lost));
    assert_true(test_sql_bool(fx,
                              "SELECT w.state = 'alive' AND t.start_time IS NOT NULL FROM"
                              " tenon.worker w, tenon.task t WHERE w.id = '%s' AND t.id = %lld",
                              alive, (long long)kept));
    stop(one);
    stop(two);
    assert_int_equal(process_lines(one, "event=worker_dead") +
                         process_lines(two, "event=worker_dead"),
                     1);
    free(error);
    free(dead);
    free(alive);
    broker_close(b);
}

/* A new session has all its patience before it, and once that is over a death is noticed soon. */
static void test_a_broken_session_declares_nobody_dead(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, NULL);
    char *dead = add_worker(fx, false), *later = add_worker(fx, true);
    int64_t begin_ms = now_ms();
    test_sql(fx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                 " WHERE application_name = 'tenon cleaner' AND datname = current_database()");
    process_await_line(p, "event=database_up", LIMIT_MS);
    test_await(fx, DEAD_LIMIT_MS, "SELECT state = 'dead' FROM tenon.worker WHERE id = '%s'", dead);
    assert_took_between(begin_ms, VERDICT_PATIENCE_MS, DEAD_LIMIT_MS);
    assert_int_equal(process_lines(p, "event=database_down"), 1);
    assert_int_equal(process_lines(p, "event=leader_lost"), 1);
    begin_ms = now_ms();
    test_sql(fx, "SELECT pg_advisory_unlock_all()");
    test_await(fx, LIMIT_MS, "SELECT state = 'dead' FROM tenon.worker WHERE id = '%s'", later);
    assert_took_between(begin_ms, VERDICT_CHECK_MS - VERDICT_SLACK_MS, 4000);
    stop(p);
    free(dead);
    free(later);
}

/* When it ran alone (poison_test). */
static void test_the_third_crash_is_the_last(void **state)
{
    struct fixture *fx = *state;
    char *left = add_worker(fx, false);
    int64_t id = enqueue(fx, "");
    claim(fx, id, left);
    test_sql(fx, "UPDATE tenon.task SET crashes = 2");
    test_sql(fx,
             "INSERT INTO tenon.suspect SELECT id, 2, tenon.progress_mark(t), true, now(), claims"
             " FROM tenon.task t");
    test_sql(fx, "UPDATE tenon.worker SET state = 'dead', ended_at = now()");
    struct process *p = start(fx, NULL);
    test_await(fx, LIMIT_MS,
               "SELECT reason = 'crashes' AND crashes = 3 FROM tenon.dead WHERE id = %lld",
               (long long)id);
    stop(p);
    free(left);
}

static void test_orphans_and_deadlines(void **state)
{
    struct fixture *fx = *state;
    char *alive = add_worker(fx, true);
    test_sql(fx, "INSERT INTO tenon.kind (name, on_timeout) VALUES ('once', 'dead')");
    int64_t orphan = enqueue(fx, ", announced => true");
    int64_t late = enqueue(fx, ", announced => true, timeout => '1 minute'");
    int64_t in_time = enqueue(fx, ", announced => true, timeout => '1 hour'");
    int64_t over = test_sql_int(fx, "SELECT tenon.enqueue('once', timeout => '1 minute')");
    claim(fx, late, alive);
    claim(fx, in_time, alive);
    claim(fx, over, alive);
    claim(fx, orphan, nobody);
    test_sql(fx, "UPDATE tenon.task SET start_time = start_time - interval '3 minutes'");
    struct process *p = start(fx, NULL);
    test_await(fx, LIMIT_MS, "SELECT reason = 'timeout' FROM tenon.dead WHERE id = %lld",
               (long long)over);
    test_await(fx, LIMIT_MS,
               "SELECT start_time IS NULL AND failures = 1 AND crashes = 0 AND run_at > now(), t.*"
               " FROM tenon.task t WHERE id = %lld",
               (long long)late);
    test_await(fx, LIMIT_MS,
               "SELECT start_time IS NULL AND crashes = 1 AND failures = 0, t.* FROM tenon.task t"
               " WHERE id = %lld",
               (long long)orphan);
    assert_true(test_sql_bool(fx, "SELECT start_time IS NOT NULL FROM tenon.task WHERE id = %lld",
                              (long long)in_time));
    stop(p);
    free(alive);
}

/* --- what is old ------------------------------------------------------------------------------ */

/* Where something always gets old enough to be deleted, the leader does not delete without a pause:
 * again at once only after a whole batch. The trigger leaves an old row after each deletion. */
static void test_deletes_batches_only_at_once(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    test_sql(fx, "INSERT INTO tenon.limit_start SELECT 's:' || i, now() - interval '1 year', 1"
                 " FROM generate_series(1, 700) i;"
                 "CREATE TABLE public.deletion (at timestamptz);"
                 "CREATE FUNCTION public.leave() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                 " INSERT INTO public.deletion VALUES (now());"
                 " INSERT INTO tenon.limit_start VALUES ('s', now() - interval '1 year', 1);"
                 " RETURN NULL; END $$;"
                 "CREATE TRIGGER leave AFTER DELETE ON tenon.limit_start"
                 " FOR EACH STATEMENT EXECUTE FUNCTION public.leave()");
    struct process *p = start(fx, &b);
    test_await(fx, LIMIT_MS, "SELECT count(*) >= 2, count(*) FROM public.deletion");
    for (int i = 1; i <= 3; i++) { /* that turn and some more are over */
        (void)enqueue(fx, "");
        await_depth(b, mail, i, LIMIT_MS);
    }
    stop(p);
    broker_close(b);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.deletion"), 2);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_start"), 1);
}

/* --- --once, and servers that are away ------------------------------------------------------- */

static void test_once_does_everything(void **state)
{
    struct fixture *fx = *state;
    char *left = add_worker(fx, true);
    test_sql(fx, "UPDATE tenon.worker SET state = 'left', ended_at = now() - interval '8 days'");
    (void)enqueue(fx, "");
    (void)enqueue(fx, ", delay => '1 ms'");
    int64_t lost = enqueue(fx, "");
    claim(fx, lost, left);
    struct broker *b = broker_open(fx->amqp_url);
    broker_spy(b, mail, mail);
    int64_t begin_ms = now_ms();
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    assert_took(begin_ms, 10000); /* nobody seems dead, so nothing to wait for */
    assert_int_equal(broker_depth(b, mail), 3);
    assert_true(
        test_sql_bool(fx, "SELECT crashes = 1 FROM tenon.task WHERE id = %lld", (long long)lost));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.worker"), 0);
    free(TENON_RUN(fx, 0, "cleaner", "--once")); /* what nobody has started, once more */
    assert_int_equal(broker_depth(b, mail), 6);
    broker_close(b);
    free(left);
}

static void test_once_stays_for_a_dead_worker(void **state)
{
    struct fixture *fx = *state;
    char *dead = add_worker(fx, false);
    int64_t lost = enqueue(fx, "");
    claim(fx, lost, dead);
    struct broker *b = broker_open(fx->amqp_url);
    broker_spy(b, mail, mail);
    struct process *p = TENON(fx, "cleaner", "--once");
    assert_int_equal(process_wait(p, DEAD_LIMIT_MS), 0);
    assert_true(test_sql_bool(fx, "SELECT state = 'dead' FROM tenon.worker"));
    assert_int_equal(broker_depth(b, mail), 1);
    broker_close(b);
    free(dead);
}

static void test_once_beside_a_daemon(void **state)
{
    struct fixture *fx = *state;
    struct process *daemon = start(fx, NULL);
    (void)enqueue(fx, "");
    struct process *p = TENON(fx, "cleaner", "--once");
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_int_equal(process_lines(p, "event=leader_is_another"), 1);
    stop(daemon);
}

static void test_once_says_which_server_is_away(void **state)
{
    struct fixture *fx = *state;
    const char *const args[] = {"cleaner", "--once", NULL};
    const char *const no_broker[] = {"AMQP_URL=amqp://guest@127.0.0.1:1/", NULL};
    const char *const no_database[] = {"DATABASE_URL=postgresql://127.0.0.1:1/x", NULL};
    claim(fx, enqueue(fx, ""), nobody);
    struct process *p = tenon_spawn(fx, args, no_broker);
    assert_int_equal(process_wait(p, LIMIT_MS), 1);
    assert_int_equal(process_lines(p, "event=broker_down"), 1);
    assert_true(test_sql_bool(fx, "SELECT start_time IS NULL FROM tenon.task"));
    p = tenon_spawn(fx, args, no_database);
    assert_int_equal(process_wait(p, LIMIT_MS), 1);
    assert_int_equal(process_lines(p, "event=cleaner_failed fault=retry"), 1);
}

static void test_without_a_broker(void **state)
{
    struct fixture *fx = *state;
    claim(fx, enqueue(fx, ""), nobody);
    struct process *p = start(fx, NULL); /* AMQP_URL is none */
    test_await(fx, LIMIT_MS, "SELECT start_time IS NULL FROM tenon.task");
    stop(p);
}

static void test_a_broker_that_is_away_is_logged_once(void **state)
{
    struct fixture *fx = *state;
    const char *const args[] = {"cleaner", NULL};
    const char *const env[] = {"AMQP_URL=amqp://guest@127.0.0.1:1/", NULL};
    struct process *p = tenon_spawn(fx, args, env);
    process_await_line(p, "event=broker_down", LIMIT_MS);
    (void)enqueue(fx, ", delay => '2 s'");
    test_await(fx, LIMIT_MS, "SELECT run_at < clock_timestamp() FROM tenon.task");
    stop(p);
    assert_int_equal(process_lines(p, "event=broker_down"), 1);
}

static void test_the_database_may_come_later(void **state)
{
    struct fixture *fx = *state;
    const char *const args[] = {"cleaner", NULL};
    const char *const env[] = {"DATABASE_URL=postgresql://127.0.0.1:1/x", NULL};
    struct process *p = tenon_spawn(fx, args, env);
    process_await_line(p, "event=database_down", LIMIT_MS);
    stop(p);
}

static void test_what_a_person_must_mend(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "DROP SCHEMA tenon CASCADE");
    struct process *p = TENON(fx, "cleaner");
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    assert_int_equal(process_lines(p, "run tenon setup"), 1);
}

static void test_another_takes_the_lead(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *first = start(fx, &b), *second = TENON(fx, "cleaner");
    process_await_line(second, "event=cleaner_started", LIMIT_MS);
    process_kill(first);
    process_await_line(second, "event=leader", 5000);
    (void)enqueue(fx, "");
    await_depth(b, mail, 1, LIMIT_MS);
    stop(second);
    broker_close(b);
}

/* A server that takes the connection and never says a word. */
static void test_stops_in_time_whatever_hangs(void **state)
{
    struct fixture *fx = *state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(silent, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(silent, 8), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&at, &len), 0);
    char url[64];
    (void)snprintf(url, sizeof url, "DATABASE_URL=postgresql://127.0.0.1:%d/x", ntohs(at.sin_port));
    const char *const args[] = {"cleaner", NULL};
    const char *const env[] = {url, NULL};
    struct process *p = tenon_spawn(fx, args, env);
    int conn = accept4(silent, NULL, NULL, SOCK_CLOEXEC); /* now it waits for an answer */
    assert_true(conn >= 0);
    int64_t begin_ms = now_ms();
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, 5000), 0);
    assert_took(begin_ms, 1500);
    (void)close(conn);
    (void)close(silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_fresh_rows_are_published),
        WITH_SERVERS(test_a_sleeping_leader_is_woken),
        WITH_SERVERS(test_a_row_without_notify_is_found_by_the_tick),
        WITH_SERVERS(test_ids_that_commit_in_another_order),
        WITH_SERVERS(test_what_is_not_ready_is_not_published),
        WITH_SERVERS(test_due_rows_are_published),
        WITH_SERVERS(test_many_due_rows_at_one_moment),
        WITH_SERVERS(test_a_dead_worker_is_declared_dead_once),
        WITH_DATABASE(test_a_broken_session_declares_nobody_dead),
        WITH_DATABASE(test_the_third_crash_is_the_last),
        WITH_DATABASE(test_orphans_and_deadlines),
        WITH_SERVERS(test_deletes_batches_only_at_once),
        WITH_SERVERS(test_once_does_everything),
        WITH_SERVERS(test_once_stays_for_a_dead_worker),
        WITH_SERVERS(test_once_beside_a_daemon),
        WITH_DATABASE(test_once_says_which_server_is_away),
        WITH_DATABASE(test_without_a_broker),
        WITH_DATABASE(test_a_broker_that_is_away_is_logged_once),
        WITH_DATABASE(test_the_database_may_come_later),
        WITH_DATABASE(test_what_a_person_must_mend),
        WITH_SERVERS(test_another_takes_the_lead),
        WITH_DATABASE(test_stops_in_time_whatever_hangs),
    };
    return RUN_GROUP(tests);
}
