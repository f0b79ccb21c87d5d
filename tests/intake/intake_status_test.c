/* label: e2e */
/* timeout: 200 */
/* What tenon status and tenon doctor know of tenon intake: the rows that it writes. */
#include "tests/support/proxy.h"
#include "tests/support/scrape.h"
#include "tests/support/working.h"

#include <signal.h>

#define ROWS_ARE(n) "SELECT count(*) = " #n " FROM tenon.intake"

static const char *const queues[] = {"orders", "refunds"};

static struct broker *open_queues(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    broker_remove_queue(b, queues[0]);
    broker_remove_queue(b, queues[1]);
    broker_make_typed(b, queues[0], "classic", NULL);
    return b;
}

static void close_queues(struct broker *b)
{
    broker_remove_queue(b, queues[0]);
    broker_remove_queue(b, queues[1]);
    broker_close(b);
}

static struct process *start(struct fixture *fx, const char *option, const char *value)
{
    struct process *p = TENON(fx, "intake", "--from", "orders", "--kind", "k", option, value);
    process_await_line(p, "event=intake_ready", LIMIT_MS);
    return p;
}

static void send_text(struct broker *b, const char *id, const char *body)
{
    amqp_basic_properties_t p = {._flags = AMQP_BASIC_MESSAGE_ID_FLAG,
                                 .message_id = amqp_cstring_bytes(id ? id : "")};
    broker_send(b, "orders", body, strlen(body), id ? &p : NULL);
    broker_send_end(b);
}

static void assert_doctor(struct fixture *fx, const char *words)
{
    char *out = TENON_RUN(fx, 1, "doctor", "--amqp-url", "none");
    assert_contains(out, words);
    free(out);
}

static void test_rows_come_and_go(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    struct process *p = TENON(fx, "intake", "--from", "orders", "--from", "refunds", "--kind", "k");
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = 2 FROM tenon.intake WHERE pid = %d AND queue = 'refunds' AND"
               " error LIKE '%%NOT_FOUND%%' OR queue = 'orders' AND error IS NULL",
               (int)p->pid);
    send_text(b, "1", "{}");
    send_text(b, "2", "{}");
    send_text(b, "1", "{}");
    send_text(b, "3", "no");
    send_text(b, NULL, "{}");
    test_await(fx, LIMIT_MS,
               "SELECT (taken, repeated, rejected, kept, unkeyed) = (3, 1, 1, 0, 1) AND error IS"
               " NULL FROM tenon.intake WHERE queue = 'orders'");
    char *out = TENON_RUN(fx, 0, "status");
    assert_contains(out, "\nINTAKE   HOST");
    assert_contains(out, "NOT_FOUND - no queue 'refunds'");
    free(out);
    test_sql(fx, "UPDATE tenon.intake SET error_since = error_since - interval '31 s'");
    assert_doctor(fx, "has taken no messages from refunds since ");
    assert_doctor(fx, "tenon intake has rejected a message of the queue orders, the last at ");
    assert_doctor(fx, "a message of the queue orders became a task without a key");
    broker_make_typed(b, "refunds", "classic", NULL);
    process_await_line(p, "event=intake_ready", LIMIT_MS);
    test_await(fx, LIMIT_MS,
               "SELECT bool_and(error IS NULL AND error_since IS NULL)"
               " FROM tenon.intake");
    end_well(p);
    test_await(fx, LIMIT_MS, ROWS_ARE(0));
    close_queues(b);
}

static void test_a_killed_one_is_silent(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    struct process *first = start(fx, "--priority", "4"), *second = start(fx, "--priority", "4");
    test_await(fx, LIMIT_MS, ROWS_ARE(2));
    end_well(second); /* takes its own row with it */
    assert_true(test_sql_bool(fx, "SELECT string_agg(pid::text, ' ') = '%d' FROM tenon.intake",
                              (int)first->pid));
    process_kill(first);
    test_sql(fx, "UPDATE tenon.intake SET seen_at = clock_timestamp() - interval '3601 s'");
    char *out = TENON_RUN(fx, 0, "status");
    assert_contains(out, "  silent for 36");
    free(out);
    assert_doctor(fx, "which takes messages from orders, has not reported for 01:0");
    struct process *third = start(fx, "--priority", "4");
    test_await(fx, LIMIT_MS, "SELECT string_agg(pid::text, ' ') = '%d' FROM tenon.intake",
               (int)third->pid);
    end_well(third);
    close_queues(b);
}

static void test_the_database_goes_and_comes(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    struct proxy proxy;
    proxy_open(&proxy, fx->database_url);
    struct process *p = start(fx, "--database-url", proxy.url);
    test_await(fx, LIMIT_MS, ROWS_ARE(1));
    proxy_door(&proxy, PROXY_RESETS);
    proxy_break(&proxy, PROXY_RESET);
    test_sql(fx, "DELETE FROM tenon.intake");
    process_await_line(p, "event=intake_note_failed", LIMIT_MS);
    test_await(fx, LIMIT_MS, ROWS_ARE(0));
    proxy_door(&proxy, PROXY_SERVES);
    test_await(fx, LIMIT_MS, ROWS_ARE(1));
    proxy_break(&proxy, PROXY_RESET); /* the session is lost just before the end */
    end_well(p);
    test_await(fx, LIMIT_MS, ROWS_ARE(0));
    proxy_close(&proxy);
    close_queues(b);
}

/* It neither delays the program nor keeps it from its end. */
static void test_the_database_hangs(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    struct proxy proxy;
    proxy_open(&proxy, fx->database_url);
    struct process *p = start(fx, "--database-url", proxy.url);
    test_await(fx, LIMIT_MS, ROWS_ARE(1));
    proxy_stall(&proxy, PROXY_TO_CLIENT, true);
    broker_remove_queue(b, "orders"); /* so that it has something to say at once */
    process_await_line(p, "event=intake_down", LIMIT_MS);
    test_await(fx, LIMIT_MS, "SELECT error IS NOT NULL FROM tenon.intake");
    end_well(p);
    assert_int_equal(process_lines(p, "event=intake_stopped code=0"), 1);
    proxy_close(&proxy);
    close_queues(b);
}

/* Messages are taken all the same, and the log says why there are no rows. */
static void test_without_the_right(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    char url[600], role[80];
    (void)snprintf(role, sizeof role, "%s_in", fx->database);
    test_sql(fx,
             "CREATE ROLE %1$s LOGIN PASSWORD 'p'; SELECT tenon.grant_intake('%1$s');"
             " REVOKE EXECUTE ON FUNCTION tenon.intake_note FROM %1$s",
             role);
    (void)snprintf(url, sizeof url, "postgresql://%s:p%s", role, strchr(fx->database_url, '@'));
    struct process *p = start(fx, "--database-url", url);
    process_await_line(p, "event=intake_note_failed", LIMIT_MS);
    assert_int_equal(process_lines(p, "--grant-intake"), 1);
    send_text(b, "1", "{}");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1 FROM tenon.task");
    end_well(p);
    test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role, role);
    close_queues(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_rows_come_and_go),
        WITH_SERVERS(test_a_killed_one_is_silent),
        WITH_SERVERS(test_the_database_goes_and_comes),
        WITH_SERVERS(test_the_database_hangs),
        WITH_SERVERS(test_without_the_right),
    };
    return RUN_GROUP(tests);
}
