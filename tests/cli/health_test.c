/* label: e2e */
/* `tenon health`: what a container's health check sees of a worker and a cleaner. */
#include "tests/support/scrape.h"
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define FREE_PORT "--http=127.0.0.1:0"

/* Its exit code, and a part of its one line. */
static void health(struct fixture *fx, const struct web *w, const char *flag, int code,
                   const char *part)
{
    char address[64];
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", w->port);
    struct process *p = TENON(fx, "health", "--http", address, flag);
    assert_int_equal(process_wait(p, LIMIT_MS), code);
    char *text = file_text(code == 0 ? p->out : p->log);
    assert_contains(text, part);
    free(text);
}

static void test_a_worker(void **state)
{
    struct fixture *fx = *state;
    struct process *p = TENON(fx, "worker", FREE_PORT, "--slots", "1", "--handler",
                              "a=exec sleep 600");
    struct web w = scrape_at(p);
    scrape_await_probe(&w, "/ready", 200, "it consumes from RabbitMQ", LIMIT_MS);
    health(fx, &w, NULL, 0, "it consumes from RabbitMQ\n");
    health(fx, &w, "--live", 0, "moves");
    process_signal(p, SIGSTOP);
    health(fx, &w, NULL, 1, "tenon health: no answer from http://127.0.0.1:");
    process_signal(p, SIGCONT);
    health(fx, &w, NULL, 0, "it consumes");
    test_sql(fx, "SELECT tenon.enqueue('a')");
    scrape_await(&w, "tenon_worker_slots{state=\"busy\"}", 1, LIMIT_MS);
    process_signal(p, SIGTERM);
    scrape_await_probe(&w, "/ready", 503, "it drains", LIMIT_MS);
    health(fx, &w, NULL, 1, "tenon health: it drains");
    health(fx, &w, "--live", 0, "moves");
    process_signal(p, SIGTERM); /* at once */
    (void)process_wait(p, LIMIT_MS);
    health(fx, &w, NULL, 1, "tenon health: no answer from");
}

static void test_without_an_address(void **state)
{
    struct fixture *fx = *state;
    struct process *p = TENON(fx, "health");
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    char *text = file_text(p->log);
    assert_contains(text, "no address: give --http or TENON_HTTP");
    free(text);
}

static void test_a_cleaner(void **state)
{
    struct fixture *fx = *state;
    struct process *p = TENON(fx, "cleaner", FREE_PORT);
    struct web w = scrape_at(p);
    scrape_await_probe(&w, "/ready", 200, "", LIMIT_MS);
    health(fx, &w, NULL, 0, "it leads");
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_worker),
        WITH_SERVERS(test_a_cleaner),
        WITH_DATABASE(test_without_an_address),
    };
    return RUN_GROUP(tests);
}
