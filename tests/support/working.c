#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

const char *handler(char text[256], const char *format, const char *name)
{
    char path[192], quoted[200];
    handler_path(name, path, sizeof path);
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", path);
    (void)snprintf(text, 256, format, quoted);
    return text;
}

struct process *pool_worker(struct fixture *fx, const char *slots, const char *in_flight)
{
    char h[256], format[64];
    (void)snprintf(format, sizeof format, "a=pool:exec %%s %s", in_flight);
    return TENON(fx, "worker", "--slots", slots, "--handler", handler(h, format, "pool"),
                 "--log-level", "debug");
}

void publish(struct fixture *fx, int64_t id)
{
    char body[24];
    struct broker *b = broker_open(fx->amqp_url);
    int n = snprintf(body, sizeof body, "%lld", (long long)id);
    broker_publish(b, "default/a", body, (size_t)n);
    broker_close(b);
}

void declare(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    broker_declare_exchange(b);
    broker_declare(b, "default/a");
    broker_close(b);
}

void await_done(struct fixture *fx, int64_t n)
{
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = %lld, count(*) FROM tenon.tasks WHERE state = 'done'",
               (long long)n);
}

void recover_at_once(struct fixture *fx)
{
    /* a session that is still there could claim after it, which the leader finds in a minute */
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = 0, count(*) FROM pg_stat_activity"
               " WHERE datname = current_database() AND application_name LIKE 'tenon worker%%'");
    test_sql(fx, "UPDATE tenon.worker SET state = 'dead', ended_at = now() WHERE ended_at IS NULL");
    test_sql(fx,
             "SELECT tenon.recover(array_agg(id), array_agg(claim_key), array_agg('crashed'::text),"
             " array_agg('its worker was killed'::text)) FROM tenon.task"
             " WHERE start_time IS NOT NULL HAVING count(*) > 0");
}

void end_well(struct process *p)
{
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
}

void assert_each_ran_once(struct fixture *fx, size_t tasks)
{
    struct journal j;
    journal_read(fx, &j);
    assert_int_equal(journal_tasks(&j), tasks);
    assert_int_equal(j.n, tasks);
    journal_clear(&j);
}
