/* label: e2e */
/* timeout: 300 */
/* long: 450 */
/* only: all */
/* examples/order.py, and the same with the clients for Python and Node: whatever is killed and
 * whenever, PostgreSQL too, each step has its effect in the database once, and an order goes on
 * when its payment's signal comes, or its time is over. With the clients half as many orders and
 * kills, unless TEST_LONG=1. */
#include "tests/support/load.h"
#include "tests/support/servers.h"
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ORDERS = 40,
    KILLS = 10,
    EACH = ORDERS / KILLS,
    PAID = 3 /* every third is not */,
    SLOTS = 2
};
enum { CRASHES = 2 /* of the kills, of PostgreSQL: what runs then may fail */ };
enum { ENVIRONMENT_MS = 120000 }; /* its packages may have to be installed */

/* A handler: what runs in examples/, with the client's environment in $env. */
struct handler_of {
    const char *environment; /* the script that makes it, or NULL */
    const char *command;
    int in_flight;
    int kills; /* EACH orders for each; unless TEST_LONG=1 */
};

static const struct handler_of PLAIN = {NULL, "exec /usr/bin/python3 order.py", 1, KILLS};
static const struct handler_of PYTHON = {
    "script/python-env", "exec \"$env/bin/python\" -m tenon order_client --concurrency 3", 3,
    KILLS / 2};
/* Node looks for packages beside the module */
static const struct handler_of NODE = {
    "script/node-env",
    "exec node \"$env/node_modules/tenon-tasks/bin/tenon-node.js\" --concurrency 3"
    " \"$dir/order_client.mjs\"",
    3, KILLS / 2};

static int kills_of(const struct handler_of *handler)
{
    return load_is_long() ? KILLS : handler->kills;
}

/* The client's environment: its folder, or nothing. free() */
static char *environment_of(struct fixture *fx, const struct handler_of *handler)
{
    char script[700];
    if (!handler->environment) {
        return strdup("");
    }
    (void)snprintf(script, sizeof script,
                   "cd '%s' && env=$(%s) && ln -s \"$env/node_modules\" %s/ &&"
                   " cp examples/order_client.mjs %s/ && printf %%s \"$env\"",
                   repository, handler->environment, fx->dir, fx->dir);
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    assert_int_equal(process_wait(p, ENVIRONMENT_MS), 0);
    return file_text(p->out);
}

static struct process *start_worker(struct fixture *fx, const struct handler_of *handler,
                                    const char *environment)
{
    char h[1400], prices[300];
    (void)snprintf(h, sizeof h, "order=pool:env='%s'; dir=%s; cd '%s/examples' && %s", environment,
                   fx->dir, repository, handler->command);
    (void)snprintf(prices, sizeof prices, "PRICES=%s/prices", fx->dir);
    const char *const args[] = {"worker",     "--slots",      "2", "--handler", h,
                                "--pass-env", "DATABASE_URL", NULL};
    const char *const env[] = {prices, NULL};
    return tenon_spawn(fx, args, env);
}

/* What is killed here is no poison. */
static void recover(struct fixture *fx)
{
    recover_at_once(fx);
    test_sql(fx, "UPDATE tenon.task SET crashes = 0 WHERE crashes > 0");
}

static void pay(struct fixture *fx, int order)
{
    char name[32];
    (void)snprintf(name, sizeof name, "payment:%d", order);
    free(TENON_RUN(fx, 0, "signal", name, "--payload", "{\"amount\": 30}"));
}

static size_t prices_asked(struct fixture *fx)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/prices", fx->dir);
    char *text = file_text(path);
    size_t n = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++) {
        n++;
    }
    free(text);
    return n;
}

static void enqueue_orders(struct fixture *fx, int orders)
{
    test_sql(fx, "CREATE TABLE order_effect (\"order\" bigint, what text)");
    for (int i = 1; i <= orders; i++) {
        test_sql(fx,
                 "SELECT tenon.enqueue('order', '{\"order\": %d, \"wait_ms\": %d}',"
                 " retry => 'constant(0.01 s)')",
                 i, i % PAID ? 86400000 : 300);
    }
}

static void assert_each_step_once(struct fixture *fx, const struct handler_of *handler)
{
    int kills = kills_of(handler), orders = kills * EACH;
    assert_int_equal(
        test_sql_int(fx,
                     "SELECT count(*) FROM (SELECT \"order\", string_agg(what, ' ' ORDER BY what)"
                     " AS did FROM order_effect GROUP BY 1) o"
                     " WHERE did = CASE WHEN \"order\" %% %d = 0 THEN 'charge refund reserve'"
                     " ELSE 'charge reserve ship' END",
                     PAID),
        orders);
    assert_true(
        test_sql_bool(fx, "SELECT bool_and(outcome = 'done' AND failures <= %d) FROM tenon.history",
                      CRASHES));
    /* what was recorded by a line is not done again: only a kill between the two may double it */
    print_message("%d orders, %d kills: the price was asked for %zu times\n", orders, kills,
                  prices_asked(fx));
    assert_in_range(prices_asked(fx), orders, orders + SLOTS * handler->in_flight * kills);
}

static void orders_under_kills(struct fixture *fx, const struct handler_of *handler)
{
    struct process *p, *cleaner;
    int paid = 0, kills = kills_of(handler), orders = kills * EACH;
    char *environment = environment_of(fx, handler);
    enqueue_orders(fx, orders);
    cleaner = TENON(fx, "cleaner");
    p = start_worker(fx, handler, environment);
    srand(17);
    for (int k = 1; k <= kills; k++) {
        /* at whatever step the others are when this one is done */
        test_await(fx, LIMIT_MS, "SELECT count(*) >= %d, count(*) FROM order_effect",
                   k * 7 + rand() % 7);
        if (k % 4 == 3) {
            server_crash(fx);
        } else {
            process_kill(p);
            recover(fx);
            p = start_worker(fx, handler, environment);
        }
        for (int upto = k * EACH; paid < upto;) { /* some before they are waited for */
            if (++paid % PAID) {
                pay(fx, paid);
            }
        }
        if (k == kills / 2) {
            process_kill(cleaner);
            cleaner = TENON(fx, "cleaner");
        }
    }
    test_await(fx, LIMIT_MS, "SELECT count(*) = %d, count(*) FROM tenon.history", orders);
    assert_each_step_once(fx, handler);
    end_well(p);
    end_well(cleaner);
    free(environment);
}

static void test_orders_under_kills(void **state)
{
    orders_under_kills(*state, &PLAIN);
}

static void test_orders_of_the_python_client(void **state)
{
    orders_under_kills(*state, &PYTHON);
}

static void test_orders_of_the_node_client(void **state)
{
    orders_under_kills(*state, &NODE);
}

static int start_servers(void **state)
{
    return server_fixture_setup(state, "steps");
}

#define WITH_A_SERVER(test)                                                                        \
    cmocka_unit_test_setup_teardown(test, start_servers, server_fixture_teardown)

/* The words that people read. */
static void test_what_is_said_of_a_task_that_waits(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start_worker(fx, &PLAIN, "");
    test_sql(fx, "SELECT tenon.enqueue('order', '{\"order\": 1}')");
    test_await(fx, LIMIT_MS, "SELECT state = 'blocked', state FROM tenon.tasks");
    process_await_line(p, "event=task_waits_signal", LIMIT_MS);
    char *out = TENON_RUN(fx, 0, "why", "1");
    assert_contains(out, "It is blocked: it waits for the signal payment:1, until ");
    free(out);
    out = TENON_RUN(fx, 0, "show", "1");
    assert_contains(out, "\"price\": {\"shipping\": 5}");
    assert_contains(out, "waits for the signal payment:1");
    free(out);
    out = TENON_RUN(fx, 0, "list", "--state", "blocked");
    assert_contains(out, "order");
    free(out);
    out = TENON_RUN(fx, 0, "signal", "payment:1");
    assert_string_equal(out, "sent\n");
    free(out);
    out = TENON_RUN(fx, 0, "signal", "payment:1");
    assert_contains(out, "was sent already");
    free(out);
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    out = TENON_RUN(fx, 0, "wait", "1");
    assert_contains(out, "{\"id\": 1, \"state\": \"done\", \"result\": {");
    assert_contains(out, "\"end\": \"ship\"");
    free(out);
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_what_is_said_of_a_task_that_waits), /* on the shared server: the first */
        WITH_A_SERVER(test_orders_under_kills),
        WITH_A_SERVER(test_orders_of_the_python_client),
        WITH_A_SERVER(test_orders_of_the_node_client),
    };
    return RUN_GROUP(tests);
}
