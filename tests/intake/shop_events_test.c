/* label: fault */
/* timeout: 300 */
/* long: 900 */
/* only: all */
/* examples/shop_events: three services with a database each, which talk by events over a private
 * RabbitMQ. All their processes are killed again and again, and RabbitMQ restarts: each event has
 * its effect exactly once. With TEST_LONG there are 10,000 orders. */
#include "tests/support/load.h"
#include "tests/support/servers.h"
#include "tests/support/working.h"

#include <libgen.h>
#include <stdio.h>
#include <sys/stat.h>

enum { ORDERS, PAYMENTS, SHIPPING, SERVICES };
enum { WORKER, INTAKE, PROGRAMS };
enum { ROUNDS = 6, SEED = 17, SETTLED_MS = 120000 };

static const char *const service_words[] = {"orders", "payments", "shipping"};
static const char *const program_words[] = {"worker", "intake"};

static struct shop {
    struct fixture *fx;
    char url[SERVICES][512];
    PGconn *conn[SERVICES];
    struct process *running[SERVICES][PROGRAMS];
    char path[4096];
} shop;

/* --- the services ----------------------------------------------------------------------------- */

static struct process *spawn(int service, const char *verb)
{
    char program[512], url[560];
    (void)snprintf(program, sizeof program, "%s/examples/shop_events/service", repository);
    (void)snprintf(url, sizeof url, "DATABASE_URL=%s", shop.url[service]);
    return process_spawn(shop.fx,
                         (const char *const[]){program, service_words[service], verb, NULL},
                         (const char *const[]){url, shop.path, NULL});
}

static void start(int service, int program)
{
    shop.running[service][program] = spawn(service, program_words[program]);
}

/* The fixture's database is that of the orders. */
static void make_database(int service)
{
    struct fixture *fx = shop.fx;
    char name[100];
    (void)snprintf(name, sizeof name, "%s_%s", fx->database, service_words[service]);
    if (service == ORDERS) {
        (void)snprintf(shop.url[service], sizeof shop.url[service], "%s", fx->database_url);
    } else {
        sql_run(fx->maintenance, "CREATE DATABASE %s TEMPLATE template0", name);
        url_with_path(fx->database_url, name, shop.url[service], sizeof shop.url[service]);
    }
    shop.conn[service] = sql_connect(shop.url[service]);
    assert_int_equal(process_wait(spawn(service, "setup"), LIMIT_MS), 0);
}

/* With the fixture's virtual host. */
static void import_definitions(struct fixture *fx)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/examples/shop_events/definitions.json", repository);
    char *text = file_text(path), *at = text, *slash;
    (void)snprintf(path, sizeof path, "%s/definitions.json", fx->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (; (slash = strstr(at, "\"/\"")); at = slash + 3) {
        (void)fprintf(file, "%.*s\"%s\"", (int)(slash - at), at, fx->vhost);
    }
    (void)fputs(at, file);
    assert_int_equal(fclose(file), 0);
    free(text);
    assert_int_equal(chmod(fx->dir, 0711), 0); /* RabbitMQ has another user */
    broker_ctl("import_definitions %s", path);
}

static int open_shop(void **state)
{
    void *fixture = NULL;
    char program[512];
    server_open("rabbitmq");
    if (fixture_setup(&fixture) != 0) {
        return -1;
    }
    *state = shop.fx = fixture;
    (void)snprintf(program, sizeof program, "%s", tenon_program);
    (void)snprintf(shop.path, sizeof shop.path, "PATH=%s:%s", dirname(program), test_env("PATH"));
    import_definitions(shop.fx);
    for (int service = 0; service < SERVICES; service++) {
        make_database(service);
    }
    return 0;
}

static int close_shop(void **state)
{
    processes_end(shop.fx);
    for (int service = 0; service < SERVICES; service++) {
        PQfinish(shop.conn[service]);
        if (service != ORDERS) {
            sql_run(shop.fx->maintenance, "DROP DATABASE IF EXISTS %s_%s WITH (FORCE)",
                    shop.fx->database, service_words[service]);
        }
    }
    int result = fixture_teardown(state);
    server_close();
    return result;
}

/* --- the orders ------------------------------------------------------------------------------- */

static void place(int from, int to)
{
    sql_run(shop.conn[ORDERS],
            "DO $$ BEGIN FOR i IN %d..%d LOOP PERFORM place_order(i, 9.90); COMMIT; END LOOP;"
            " END $$",
            from, to);
}

static void assert_once(int service, const char *table, const char *column, int n)
{
    assert_true(sql_bool(shop.conn[service],
                         "SELECT count(*) = %d AND count(DISTINCT %s) = %d FROM %s", n, column, n,
                         table));
}

/* Nothing is on its way any more: no task, no event to publish, none in a queue. */
static void await_rest(void)
{
    struct broker *b = broker_open(shop.fx->amqp_url);
    for (int service = 0; service < SERVICES; service++) {
        while (broker_ready(b, service_words[service]) > 0) {
            sql_await(shop.conn[service], SETTLED_MS, "SELECT true");
        }
        sql_await(shop.conn[service], SETTLED_MS,
                  "SELECT NOT EXISTS (SELECT FROM tenon.task) AND NOT EXISTS (SELECT FROM"
                  " tenon.message)");
    }
    assert_int_equal(broker_ready(b, "shop.dead"), 0);
    broker_close(b);
}

static void assert_effects(int n)
{
    sql_await(shop.conn[ORDERS], SETTLED_MS,
              "SELECT count(*) FILTER (WHERE state = 'shipped') = %d AND"
              " (SELECT count(*) >= %d FROM order_event), count(*) FILTER (WHERE state = 'placed'),"
              " count(*) FILTER (WHERE state = 'paid') FROM orders",
              n, 2 * n);
    await_rest();
    assert_once(ORDERS, "order_event", "(id, event)", 2 * n);
    assert_once(PAYMENTS, "payment", "\"order\"", n);
    assert_once(SHIPPING, "parcel", "\"order\"", n);
    assert_true(sql_bool(shop.conn[PAYMENTS], "SELECT balance = %d * 9.90 FROM account", n));
    assert_true(sql_bool(shop.conn[SHIPPING], "SELECT pieces = 1000000 - %d FROM stock", n));
}

/* One process after the other is killed, and starts again. */
static void kill_all_in_turn(unsigned *seed)
{
    for (int i = 0; i < SERVICES * PROGRAMS; i++) {
        int service = rand_r(seed) % SERVICES, program = rand_r(seed) % PROGRAMS;
        process_kill(shop.running[service][program]);
        start(service, program);
    }
}

static void test_each_event_has_its_effect_once(void **state)
{
    int n = load_is_long() ? 10000 : 2000, each = n / ROUNDS;
    unsigned seed = SEED;
    (void)state;
    for (int service = 0; service < SERVICES; service++) {
        for (int program = 0; program < PROGRAMS; program++) {
            start(service, program);
        }
    }
    for (int i = 0; i < ROUNDS; i++) {
        place(i * each + 1, (i + 1) * each);
        sql_await(shop.conn[ORDERS], SETTLED_MS,
                  "SELECT count(*) > %d FROM orders WHERE state <> 'placed'", i * each + each / 4);
        if (i == ROUNDS / 2) {
            server_do("restart");
        }
        kill_all_in_turn(&seed);
    }
    assert_effects(ROUNDS * each);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_event_has_its_effect_once, open_shop, close_shop),
    };
    return RUN_GROUP(tests);
}
