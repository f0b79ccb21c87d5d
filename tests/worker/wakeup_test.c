/* label: e2e */
/* timeout: 180 */
/* measures: yes */
/* only: all */
/* Who is woken by what: a wake-up reaches those who can run its task, databases that share a
 * virtual host do not take each other's, and without RabbitMQ a NOTIFY does it. It compares times,
 * and so it runs alone. */
#include "tests/support/working.h"

#include "core/base/now.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum {
    ROUNDS = 40,
    OTHERS = 7,
    SLOWER_MAX = 3,
    SLACK_US = 1000,
    PROMPT_MS = 5000,  /* ROUNDS tasks */
    PROMPT_US = 50000, /* half of them each */
    TRIES = 3,
    MANY_MS = 60000
};

static const char *const no_env[] = {NULL};
static const char *const rabbitmq_away[] = {"AMQP_URL=amqp://127.0.0.1:1/", NULL};

static struct process *worker_of(struct fixture *fx, const char *kind, const char *const *env)
{
    char h[256], format[64];
    (void)snprintf(format, sizeof format, "%s=pool:exec %%s 1", kind);
    return tenon_spawn(fx,
                       (const char *const[]){"worker", "--slots", "1", "--handler",
                                             handler(h, format, "pool"), NULL},
                       env);
}

static struct process *leader(struct fixture *fx, const char *const *env)
{
    struct process *p = tenon_spawn(fx, (const char *const[]){"cleaner", NULL}, env);
    process_await_line(p, "event=leader", LIMIT_MS);
    return p;
}

/* So many tasks, each enqueued when the one before it is done. */
static void one_by_one(PGconn *conn, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t id = sql_int(conn, "SELECT tenon.enqueue('a')");
        sql_await(conn, LIMIT_MS,
                  "SELECT count(*) = 1, count(*) FROM tenon.history WHERE id = %lld",
                  (long long)id);
    }
}

/* Half of the last `n` tasks started within so many microseconds after their enqueue. */
static int64_t median_us(PGconn *conn, int n)
{
    return sql_int(conn,
                   "SELECT (extract(epoch FROM percentile_cont(0.5) WITHIN GROUP (ORDER BY took))"
                   " * 1000000)::bigint FROM (SELECT start_time - created_at AS took FROM"
                   " tenon.history ORDER BY id DESC LIMIT %d) t",
                   n);
}

static void test_workers_of_other_kinds_take_nothing(void **state)
{
    struct fixture *fx = *state;
    struct process *others[OTHERS], *cleaner = leader(fx, no_env), *p = worker_of(fx, "a", no_env);
    process_await_line(p, "event=broker_up", LIMIT_MS);
    one_by_one(fx->conn, 2 * ROUNDS);
    int64_t alone_us = median_us(fx->conn, ROUNDS);
    for (int i = 0; i < OTHERS; i++) {
        others[i] = worker_of(fx, "b", no_env);
        process_await_line(others[i], "event=broker_up", LIMIT_MS);
    }
    one_by_one(fx->conn, ROUNDS);
    int64_t among_us = median_us(fx->conn, ROUNDS);
    print_message("half of the tasks start within %lld us, and beside %d workers of another kind "
                  "within %lld us\n",
                  (long long)alone_us, OTHERS, (long long)among_us);
    assert_in_range(among_us, 0, patience_loaded_ms(SLOWER_MAX * alone_us + SLACK_US));
    for (int i = 0; i < OTHERS; i++) {
        end_well(others[i]);
    }
    end_well(p);
    end_well(cleaner);
}

/* Who consumes, declares: what producers name makes no queue, and keeps nobody from starting. */
static void test_a_thousand_names_make_no_queue(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = leader(fx, no_env), *p = worker_of(fx, "a", no_env);
    process_await_line(p, "event=broker_up", LIMIT_MS);
    one_by_one(fx->conn, 1);
    /* other tests may have left some in this virtual host */
    broker_ctl("list_queues --quiet --no-table-headers --vhost %s name | sort >%s/before;"
               " grep -qx tenon.default/a %s/before",
               fx->vhost, fx->dir, fx->dir);
    test_sql(fx, "SELECT tenon.enqueue('odd', queue => 'q' || i), tenon.enqueue('a') FROM"
                 " generate_series(1, 1000) i");
    await_done(fx, 1001);
    broker_ctl("list_queues --quiet --no-table-headers --vhost %s name | sort | cmp - %s/before",
               fx->vhost, fx->dir);
    assert_int_equal(test_sql_int(fx, "SELECT count(DISTINCT queue) FROM tenon.ready"), 1000);
    end_well(p);
    end_well(cleaner);
}

/* A worker of the kinds k0 to k99 on so many queues, q0 and so on. */
static struct process *worker_of_many(struct fixture *fx, int n_queues)
{
    char queues[100] = "q0", path[250];
    (void)snprintf(path, sizeof path, "%s/handlers.conf", fx->dir);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs("handler \"k0", file);
    for (int i = 1; i < 100; i++) {
        (void)fprintf(file, ",k%d", i);
    }
    (void)fputs("\" { command = {true} }\n", file);
    assert_int_equal(fclose(file), 0);
    for (int i = 1; i < n_queues; i++) {
        size_t len = strlen(queues);
        (void)snprintf(queues + len, sizeof queues - len, ",q%d", i);
    }
    return TENON(fx, "worker", "--queues", queues, "--handlers", path);
}

static void test_a_thousand_pairs(void **state)
{
    struct fixture *fx = *state;
    int64_t start_ms = now_ms();
    struct process *p = worker_of_many(fx, 10);
    process_await_line(p, "event=broker_up", MANY_MS);
    print_message("a thousand queues are there after %lld ms\n", (long long)(now_ms() - start_ms));
    struct broker *b = broker_open(fx->amqp_url);
    assert_int_equal(broker_depth(b, "q0/k0"), 0);
    assert_int_equal(broker_depth(b, "q9/k99"), 0);
    broker_close(b);
    end_well(p);
}

static void test_too_many_pairs(void **state)
{
    struct process *p = worker_of_many(*state, 11);
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    assert_int_equal(process_lines(p, "serves 1100 pairs of a queue and a kind, and at most 1000"),
                     1);
}

/* --- two databases, one virtual host ---------------------------------------------------------- */

struct second {
    char name[80], url[600], env[700];
    const char *all[2];
    PGconn *conn;
};

/* Another database with tenon in it; its exchange is called "other". */
static void second_open(struct fixture *fx, struct second *s)
{
    (void)snprintf(s->name, sizeof s->name, "%s_2", fx->database);
    sql_run(fx->maintenance, "CREATE DATABASE %s", s->name);
    url_with_path(fx->database_url, s->name, s->url, sizeof s->url);
    (void)snprintf(s->env, sizeof s->env, "DATABASE_URL=%s", s->url);
    s->all[0] = s->env;
    s->all[1] = NULL;
    const char *const setup[] = {"setup", NULL};
    assert_int_equal(process_wait(tenon_spawn(fx, setup, s->all), LIMIT_MS), 0);
    s->conn = sql_connect(s->url);
    sql_run(s->conn, "UPDATE tenon.setting SET exchange = 'other'");
    assert_int_equal(process_wait(tenon_spawn(fx, setup, s->all), LIMIT_MS), 0);
}

static void second_close(struct fixture *fx, struct second *s)
{
    PQfinish(s->conn);
    sql_run(fx->maintenance, "DROP DATABASE %s", s->name);
}

/* Of a kind that nobody handles, so that no poll comes before the cleaner. */
static void check_wakeups(struct fixture *fx, const struct second *s)
{
    struct broker *b = broker_open(fx->amqp_url);
    int64_t until_ms = patience_end_ms(LIMIT_MS);
    broker_spy(b, "spy", "default/seen");
    broker_spy_on(b, "other", "other-spy", "default/seen");
    for (int i = 0; i < ROUNDS; i++) {
        test_sql(fx, "SELECT tenon.enqueue('seen')");
        sql_run(s->conn, "SELECT tenon.enqueue('seen'), tenon.enqueue('seen')");
    }
    /* all that there are have arrived, and so none went astray */
    while (broker_depth(b, "spy") + broker_depth(b, "other-spy") < ROUNDS + 2 * ROUNDS) {
        assert_true(now_ms() < until_ms);
        (void)poll(NULL, 0, 5);
    }
    assert_int_equal(broker_depth(b, "spy"), ROUNDS);
    assert_int_equal(broker_depth(b, "other-spy"), 2 * ROUNDS);
    broker_delete_queue(b, "spy");
    broker_delete_queue(b, "other-spy");
    broker_close(b);
}

/* Both count their tasks from 1: a worker that got the other's wake-ups would find tasks. */
static void test_two_databases_on_one_virtual_host(void **state)
{
    struct fixture *fx = *state;
    struct second s;
    second_open(fx, &s);
    struct process *p[] = {leader(fx, no_env), leader(fx, s.all), worker_of(fx, "a", no_env),
                           worker_of(fx, "a", s.all)};
    check_wakeups(fx, &s);
    process_await_line(p[2], "event=broker_up", LIMIT_MS);
    process_await_line(p[3], "event=broker_up", LIMIT_MS);
    one_by_one(fx->conn, ROUNDS);
    one_by_one(s.conn, ROUNDS);
    int64_t first_us = median_us(fx->conn, ROUNDS), other_us = median_us(s.conn, ROUNDS);
    print_message("half of the tasks start within %lld us in one database, %lld us in the other\n",
                  (long long)first_us, (long long)other_us);
    assert_in_range(first_us, 0, SLOWER_MAX * other_us + SLACK_US);
    assert_in_range(other_us, 0, SLOWER_MAX * first_us + SLACK_US);
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        end_well(p[i]);
    }
    second_close(fx, &s);
}

/* --- without RabbitMQ ------------------------------------------------------------------------- */

/* What the workers are told by NOTIFY from now on, one after the other, separated by bars. */
static char *await_notices(PGconn *conn, const char *last)
{
    static char all[1000];
    int64_t until_ms = patience_end_ms(LIMIT_MS);
    all[0] = '\0';
    while (!strstr(all, last)) {
        PGnotify *n = PQconsumeInput(conn) ? PQnotifies(conn) : NULL;
        if (n) {
            size_t len = strlen(all);
            (void)snprintf(all + len, sizeof all - len, "%s|", n->extra);
            PQfreemem(n);
        } else if (now_ms() >= until_ms) {
            fail_msg("no NOTIFY says %s, but %s", last, all);
        } else {
            struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
            (void)poll(&fd, 1, 100);
        }
    }
    return all;
}

/* One NOTIFY for many rows, and the words of none but those that are ready and not announced. */
static void check_notices(struct fixture *fx)
{
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "LISTEN tenon_wakeup");
    test_sql(fx, "BEGIN; SELECT tenon.enqueue_many('mail', array_fill('{}'::jsonb, ARRAY[900]));"
                 "SELECT tenon.enqueue('sms', queue => 'bulk');"
                 "SELECT tenon.enqueue('hidden', announced => true); COMMIT");
    char *all = await_notices(conn, "bulk/sms");
    assert_contains(all, "default/mail");
    assert_null(strstr(all, "hidden"));
    assert_null(strstr(strstr(all, "default/mail") + 1, "default/mail"));
    test_sql(fx, "SELECT tenon.enqueue('mail', delay => '300 ms')");
    (void)await_notices(conn, "default/mail");
    PQfinish(conn);
}

static void test_workers_are_notified_without_a_broker(void **state)
{
    struct fixture *fx = *state;
    struct process *p = leader(fx, no_env); /* AMQP_URL is none */
    check_notices(fx);
    end_well(p);
}

/* Until the second try to connect has failed, ids are kept for RabbitMQ, and lost. */
static void await_first_notice(struct fixture *fx)
{
    PGconn *conn = sql_connect(fx->database_url);
    int64_t until_ms = patience_end_ms(LIMIT_MS);
    bool any = false;
    sql_run(conn, "LISTEN tenon_wakeup");
    while (!any && now_ms() < until_ms) {
        struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
        test_sql(fx, "SELECT tenon.enqueue('first')");
        (void)poll(&fd, 1, 200);
        PGnotify *n = PQconsumeInput(conn) ? PQnotifies(conn) : NULL;
        any = n != NULL;
        PQfreemem(n);
    }
    assert_true(any);
    PQfinish(conn);
}

static void test_workers_are_notified_while_the_broker_is_away(void **state)
{
    struct fixture *fx = *state;
    struct process *p = leader(fx, rabbitmq_away);
    process_await_line(p, "event=broker_down", LIMIT_MS);
    await_first_notice(fx);
    check_notices(fx);
    end_well(p);
}

/* More words than a NOTIFY can say: it says "anything". */
static void test_a_notice_of_too_many_words(void **state)
{
    struct fixture *fx = *state;
    struct process *p = leader(fx, no_env);
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "LISTEN tenon_wakeup");
    test_sql(fx,
             "SELECT tenon.enqueue(rpad('k' || i || '.', 90, 'x')) FROM generate_series(1, 300) i");
    assert_string_equal(await_notices(conn, "|"), "300|");
    PQfinish(conn);
    end_well(p);
}

/* A request and its answer, again and again: by polls alone each would take half a second. */
static void prompt(struct fixture *fx, const char *const *env, const char *event)
{
    struct process *cleaner = leader(fx, env), *p = worker_of(fx, "a", env);
    process_await_line(p, event, LIMIT_MS);
    process_await_line(cleaner, event[0] == 'w' ? "event=leader" : event, LIMIT_MS);
    one_by_one(fx->conn, 1);
    int64_t half_us = PROMPT_US + 1, took_ms = PROMPT_MS + 1;
    for (int i = 0; i < TRIES && (half_us > PROMPT_US || took_ms > PROMPT_MS); i++) {
        int64_t start_ms = now_ms(); /* again: the machine may have been busy */
        one_by_one(fx->conn, ROUNDS);
        took_ms = now_ms() - start_ms;
        half_us = median_us(fx->conn, ROUNDS);
        print_message("%d tasks in a row took %lld ms, half of them started within %lld us\n",
                      ROUNDS, (long long)took_ms, (long long)half_us);
    }
    assert_in_range(half_us, 0, patience_loaded_ms(PROMPT_US));
    assert_in_range(took_ms, 0, patience_loaded_ms(PROMPT_MS));
    end_well(p);
    end_well(cleaner);
}

static void test_without_rabbitmq(void **state)
{
    prompt(*state, no_env, "worker_ready"); /* AMQP_URL is none */
}

static void test_while_rabbitmq_is_away(void **state)
{
    prompt(*state, rabbitmq_away, "event=broker_down");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_workers_of_other_kinds_take_nothing),
        WITH_SERVERS(test_a_thousand_names_make_no_queue),
        WITH_SERVERS(test_a_thousand_pairs),
        WITH_SERVERS(test_too_many_pairs),
        WITH_SERVERS(test_two_databases_on_one_virtual_host),
        WITH_DATABASE(test_workers_are_notified_without_a_broker),
        WITH_DATABASE(test_workers_are_notified_while_the_broker_is_away),
        WITH_DATABASE(test_a_notice_of_too_many_words),
        WITH_DATABASE(test_without_rabbitmq),
        WITH_DATABASE(test_while_rabbitmq_is_away),
    };
    return RUN_GROUP(tests);
}
