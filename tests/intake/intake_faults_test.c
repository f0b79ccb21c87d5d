/* label: fault */
/* timeout: 300 */
/* long: 400 */
/* tenon intake: whatever dies or is cut, each message becomes one task. */
#include "tests/support/load.h"
#include "tests/support/proxy.h"
#include "tests/support/scrape.h"
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>

enum { EACH = 2000, KILLS = 8 };

static struct broker *open_queue(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    broker_remove_queue(b, "in");
    broker_make_typed(b, "in", "classic", NULL);
    return b;
}

static void close_queue(struct broker *b)
{
    broker_remove_queue(b, "in");
    broker_close(b);
}

/* Bodies and ids are numbers. */
static void send_numbers(struct broker *b, int from, int to)
{
    for (int i = from; i <= to; i++) {
        char body[16];
        int bytes = snprintf(body, sizeof body, "%d", i);
        amqp_basic_properties_t p = {._flags = AMQP_BASIC_MESSAGE_ID_FLAG,
                                     .message_id = {.len = (size_t)bytes, .bytes = body}};
        broker_send(b, "in", body, (size_t)bytes, &p);
    }
    broker_send_end(b);
}

static struct process *start(struct fixture *fx, const char *const *env)
{
    return tenon_spawn(fx,
                       (const char *const[]){"intake", "--from", "in", "--kind", "k", "--http",
                                             "127.0.0.1:0", NULL},
                       env);
}

static void await_numbers(struct fixture *fx, int n)
{
    test_await(fx, 3 * LIMIT_MS, "SELECT count(DISTINCT payload) >= %d FROM tenon.task", n);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), n);
}

/* All of it is acknowledged: with nobody to consume it, nothing is left. */
static void assert_empty(struct broker *b, struct process *p)
{
    end_well(p);
    assert_int_equal(broker_ready(b, "in"), 0);
}

/* --- kill -9 ---------------------------------------------------------------------------------- */

static void strike(struct fixture *fx, struct broker *b, const char *point, int nth, int from)
{
    char armed[64], log[300];
    (void)snprintf(armed, sizeof armed, "TENON_POINT=%s:%d:kill", point, nth);
    (void)snprintf(log, sizeof log, "TENON_POINT_LOG=%s/%s", fx->dir, point);
    struct process *p = start(fx, (const char *const[]){armed, log, NULL});
    send_numbers(b, from, from + EACH - 1);
    assert_int_equal(process_wait(p, LIMIT_MS), 128 + SIGKILL);
    int64_t left = broker_ready(b, "in");
    p = start(fx, NULL);
    await_numbers(fx, from + EACH - 1);
    print_message("%s: %lld came again or were left\n", point, (long long)left);
    assert_empty(b, p);
}

static void test_killed_at_each_point(void **state)
{
    static const char *const points[] = {"intake_arrived", "intake_committed",
                                         "intake_acknowledged"};
    struct fixture *fx = *state;
    struct broker *b = open_queue(fx);
    for (int i = 0; i < 3; i++) {
        strike(fx, b, points[i], i + 1, 1 + i * EACH);
    }
    close_queue(b);
}

static void test_killed_again_and_again(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queue(fx);
    int kills = load_is_long() ? 10 * KILLS : KILLS;
    for (int i = 0; i < kills; i++) {
        struct process *p = start(fx, NULL);
        send_numbers(b, 1 + i * EACH, (i + 1) * EACH);
        test_await(fx, LIMIT_MS, "SELECT count(*) > %d FROM tenon.task", i * EACH + i * 100);
        process_kill(p);
    }
    struct process *p = start(fx, NULL);
    await_numbers(fx, kills * EACH);
    assert_empty(b, p);
    close_queue(b);
}

static void test_two_intakes_on_one_queue(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queue(fx);
    struct process *first = start(fx, NULL), *second = start(fx, NULL);
    process_await_line(first, "event=intake_ready", LIMIT_MS);
    process_await_line(second, "event=intake_ready", LIMIT_MS);
    send_numbers(b, 1, EACH);
    send_numbers(b, 1, EACH); /* the same at both of them, at the same time */
    await_numbers(fx, EACH);
    process_kill(first);
    send_numbers(b, EACH + 1, 2 * EACH);
    await_numbers(fx, 2 * EACH);
    assert_empty(b, second);
    close_queue(b);
}

/* --- PostgreSQL ------------------------------------------------------------------------------- */

static struct process *start_by(struct fixture *fx, const char *option, const struct proxy *proxy)
{
    return TENON(fx, "intake", "--from", "in", "--kind", "k", "--http", "127.0.0.1:0", option,
                 proxy->url);
}

static void test_postgresql_goes_and_comes(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queue(fx);
    struct proxy proxy;
    proxy_open(&proxy, fx->database_url);
    struct process *p = start_by(fx, "--database-url", &proxy);
    send_numbers(b, 1, EACH);
    await_numbers(fx, EACH);
    proxy_door(&proxy, PROXY_RESETS);
    proxy_break(&proxy, PROXY_RESET);
    send_numbers(b, EACH + 1, 2 * EACH);
    process_await_line(p, "event=intake_waits", LIMIT_MS);
    struct web web = scrape_at(p);
    scrape_await_probe(&web, "/ready", 503, "could not take messages of in", LIMIT_MS);
    scrape_await(&web, "tenon_intake_database_up{queue=\"in\"}", 0, LIMIT_MS);
    proxy_door(&proxy, PROXY_SERVES);
    await_numbers(fx, 2 * EACH);
    scrape_await_probe(&web, "/ready", 200, "it consumes", LIMIT_MS);
    assert_empty(b, p);
    proxy_close(&proxy);
    close_queue(b);
}

/* The answer to a commit is lost, or the statement: what is sent again is recognized. */
static void test_sessions_are_cut_anywhere(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queue(fx);
    struct proxy proxy;
    int n = 0;
    proxy_open(&proxy, fx->database_url);
    struct process *p = start_by(fx, "--database-url", &proxy);
    send_numbers(b, 1, 1);
    await_numbers(fx, 1);
    n = 1;
    for (int bytes = 1; bytes <= 4096; bytes *= 4) {
        for (int way = 0; way <= 1; way++) {
            proxy_cut_after(&proxy, way ? PROXY_TO_CLIENT : PROXY_TO_SERVER, bytes);
            send_numbers(b, n + 1, n + 100);
            await_numbers(fx, n += 100);
        }
    }
    assert_empty(b, p);
    proxy_close(&proxy);
    close_queue(b);
}

/* Another transaction has a message of the piece, for longer than a lock is waited for. */
static void test_a_lock_is_waited_for(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queue(fx);
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; INSERT INTO tenon.seen VALUES ('5', 'intake:in', now())");
    struct process *p = start(fx, NULL);
    send_numbers(b, 1, 10);
    test_await(fx, LIMIT_MS,
               "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name ="
               " 'tenon intake' AND wait_event_type = 'Lock')");
    process_await_line(p, "event=intake_waits", LIMIT_MS); /* a lock that stays is told */
    sql_run(other, "COMMIT");
    await_numbers(fx, 9);
    assert_empty(b, p);
    PQfinish(other);
    close_queue(b);
}

/* The limit of payloads falls while it runs. */
static void test_a_smaller_limit(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queue(fx);
    struct process *p = start(fx, NULL);
    send_numbers(b, 1, 1);
    await_numbers(fx, 1);
    test_sql(fx, "SELECT tenon.set_settings('{\"payload_bytes_max\": 3}')");
    send_numbers(b, 10000, 10000);
    process_await_line(p, "event=message_rejected", LIMIT_MS);
    send_numbers(b, 2, 2);
    await_numbers(fx, 2);
    assert_empty(b, p);
    close_queue(b);
}

/* --- RabbitMQ --------------------------------------------------------------------------------- */

static void test_rabbitmq_is_cut_anywhere(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queue(fx);
    struct proxy proxy;
    int n = 0;
    proxy_open(&proxy, fx->amqp_url);
    struct process *p = start_by(fx, "--amqp-url", &proxy);
    for (int bytes = 1; bytes <= 65536; bytes *= 4) {
        for (int way = 0; way <= 1; way++) {
            send_numbers(b, n + 1, n + 500);
            proxy_cut_after(&proxy, way ? PROXY_TO_CLIENT : PROXY_TO_SERVER, bytes);
            await_numbers(fx, n += 500);
        }
    }
    proxy_door(&proxy, PROXY_RESETS);
    proxy_break(&proxy, PROXY_HALF_OPEN);
    send_numbers(b, n + 1, n + 500);
    proxy_door(&proxy, PROXY_SERVES);
    await_numbers(fx, n + 500);
    assert_empty(b, p);
    proxy_close(&proxy);
    close_queue(b);
}

/* It waits for a queue that is not there yet, and for one that was deleted. */
static void test_the_queue_goes_and_comes(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queue(fx);
    broker_remove_queue(b, "in");
    struct process *p = start(fx, NULL);
    process_await_line(p, "NOT_FOUND", LIMIT_MS);
    struct web web = scrape_at(p);
    scrape_await_probe(&web, "/ready", 503, "NOT_FOUND", LIMIT_MS);
    broker_make_typed(b, "in", "classic", NULL);
    send_numbers(b, 1, 10);
    await_numbers(fx, 10);
    broker_remove_queue(b, "in");
    process_await_line(p, "RabbitMQ cancelled the consumer", LIMIT_MS);
    broker_make_typed(b, "in", "quorum", NULL);
    send_numbers(b, 11, 20);
    await_numbers(fx, 20);
    assert_empty(b, p);
    close_queue(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_killed_at_each_point),      WITH_SERVERS(test_killed_again_and_again),
        WITH_SERVERS(test_two_intakes_on_one_queue),  WITH_SERVERS(test_postgresql_goes_and_comes),
        WITH_SERVERS(test_sessions_are_cut_anywhere), WITH_SERVERS(test_a_lock_is_waited_for),
        WITH_SERVERS(test_a_smaller_limit),           WITH_SERVERS(test_rabbitmq_is_cut_anywhere),
        WITH_SERVERS(test_the_queue_goes_and_comes),
    };
    return RUN_GROUP(tests);
}
