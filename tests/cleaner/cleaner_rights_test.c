/* label: e2e */
/* A cleaner whose RabbitMQ user may do too little says so. */
#include "tests/support/broker.h"
#include "tests/support/fixture.h"
#include "tests/support/process.h"

#include "core/base/now.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum { LIMIT_MS = 15000, STOP_MS = 5000 };

/* A cleaner whose user has these rights: configure, write, read. */
static struct process *cleaner_with(struct fixture *fx, const char *rights)
{
    char env[600];
    const char *const args[] = {"cleaner", NULL};
    const char *const all[] = {env, NULL};
    broker_ctl("delete_user cleaner-%s || true", fx->vhost); /* of a run that failed */
    broker_ctl("add_user cleaner-%s word", fx->vhost);
    broker_ctl("set_permissions --vhost %s cleaner-%s %s", fx->vhost, fx->vhost, rights);
    (void)snprintf(env, sizeof env, "AMQP_URL=amqp://cleaner-%s:word@%s", fx->vhost,
                   strchr(fx->amqp_url, '@') + 1);
    return tenon_spawn(fx, args, all);
}

static void stop(struct fixture *fx, struct process *p)
{
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, STOP_MS), 0);
    broker_ctl("delete_user cleaner-%s", fx->vhost);
}

/* What setup prints for a cleaner is enough. */
static void test_it_may_do_what_it_must(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    broker_spy(b, "default/mail", "default/mail");
    struct process *p = cleaner_with(fx, "'^tenon$' '^tenon$' '^$'");
    process_await_line(p, "event=broker_up", LIMIT_MS);
    process_await_line(p, "event=leader", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('mail')");
    for (int64_t until_ms = patience_end_ms(LIMIT_MS); broker_depth(b, "default/mail") < 1;) {
        assert_true(now_ms() < until_ms);
        (void)poll(NULL, 0, 5);
    }
    stop(fx, p);
    assert_int_equal(process_lines(p, "event=broker_down"), 0);
    broker_close(b);
}

static void test_it_may_do_nothing(void **state)
{
    struct fixture *fx = *state;
    struct process *p = cleaner_with(fx, "'^$' '^$' '^$'");
    process_await_line(p, "could not declare the exchange", LIMIT_MS);
    assert_int_equal(process_lines(p, "event=broker_down"), 1);
    stop(fx, p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_it_may_do_what_it_must),
        WITH_SERVERS(test_it_may_do_nothing),
    };
    return RUN_GROUP(tests);
}
