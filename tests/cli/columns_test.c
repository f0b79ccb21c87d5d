/* label: e2e */
/* What the commands print fits the columns that there are: nothing is wider, long names and errors
 * are cut or wrapped, and no character is cut in half. In a pipe without COLUMNS all is there. */
#include "core/base/text.h"
#include "tests/support/process.h"

#include <stdlib.h>
#include <string.h>

enum { KINDS = 40, LIMIT_MS = 30000 };

static void fill(struct fixture *fx)
{
    test_sql(fx,
             "INSERT INTO tenon.worker (host, pid, slots, queues, kinds)"
             " SELECT 'a-host-with-a-long-name.example.org', 17 + w, 16,"
             " '{default,mail,a_queue_with_a_rather_long_name}',"
             " (SELECT array_agg('kind_of_some_length_' || i) FROM generate_series(1, %d) i)"
             " FROM generate_series(1, 3) w",
             KINDS);
    test_sql(fx, "SELECT tenon.enqueue('a_kind_with_a_very_long_name_that_says_what_it_does',"
                 " queue => 'a_queue_with_a_rather_long_name'),"
                 " tenon.pause('mail', why => 'the provider is down, and promised to say more at"
                 " noon; see the channel of the incident')");
    test_sql(
        fx, "INSERT INTO tenon.intake (queue, host, pid, is_stream, version, started_at, seen_at,"
            " taken, repeated, rejected, kept, unkeyed, error, error_since) SELECT"
            " 'a.queue.of.rabbitmq.with.a.long.name.\u00e4', 'a-host-with-a-long-name.example.org',"
            " 4194300 + i, false, '1', now(), now() - i * interval '20 h', 123456789012, 12345678,"
            " 12345678, 0, 1, repeat('no queue \u00e4 ', 40), now() - interval '1 h'"
            " FROM generate_series(0, 1) i");
    test_sql(fx,
             "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims,"
             " failures, crashes, max_attempts, priority, reason, queue, kind, payload,"
             " last_error, error_class) SELECT now(), nextval('tenon.task_id_seq'), now(),"
             " now(), 1000, 1, 1, 0, 1, 4, 'failures', 'mail', 'm', jsonb_build_object('to',"
             " repeat('\u00e4nn@example.org ', 20), 'one', repeat('\u00fc', 300)),"
             " E'Boom: \u00e4 ' || repeat('\u00f6\u00fc', 100) || E'\\n  at line 17\\n', 'Boom'");
    test_sql(fx,
             "SELECT tenon.set_limit('a_limit_with_a_name_that_is_long_\u00e4:' || repeat('k', 60),"
             " max_running => 3, max_starts => 1000, per => '1 day', strict => true,"
             " until => '2100-01-01 UTC'),"
             " tenon.set_schedule('a-schedule-with-a-long-name-of-many-words',"
             " '0,15,30,45 8-18 * * mon,tue,wed,thu,fri', kind => 'a_kind_with_a_long_name',"
             " zone => 'America/Argentina/Buenos_Aires'),"
             " tenon.publish('an.exchange.with.a.long.name', repeat('orders.created.', 5),"
             " '{}', order_key => 'an order key of some length: ' || repeat('\u00e4', 60))");
    test_sql(fx, "UPDATE tenon.schedule SET last_at = '2026-11-28 08:00:00 UTC', last_task = 4711;"
                 "UPDATE tenon.message SET failed_at = now(), error = 'NO_ROUTE: no queue is bound'"
                 " || repeat(' \u00f6\u00fc', 60)");
}

/* The columns of its widest line. */
static int widest(const char *text)
{
    int most = 0, n = 0;
    for (; *text; text++) {
        n = *text == '\n' ? 0 : n + ((*text & 0xC0) != 0x80);
        most = n > most ? n : most;
    }
    return most;
}

static char *printed(struct fixture *fx, const char *const *args, const char *columns)
{
    struct process *p = tenon_spawn(fx, args, (const char *const[]){columns, NULL});
    (void)process_wait(p, LIMIT_MS); /* the doctor ends with 1 */
    char *out = file_text(p->out);
    assert_true(text_is_utf8(out));
    return out;
}
#define PRINTED(fx, columns, ...) printed((fx), (const char *const[]){__VA_ARGS__, NULL}, (columns))

static void assert_printed(char *out, const char *part)
{
    assert_contains(out, part);
    free(out);
}
#define HAS(part, ...) assert_printed(PRINTED(fx, __VA_ARGS__), (part))

static void test_everything_fits(void **state)
{
    static const char *const commands[][3] = {{"status"},         {"list"},
                                              {"show", "1"},      {"show", "2"},
                                              {"why", "1"},       {"why", "2"},
                                              {"doctor"},         {"dead"},
                                              {"limit", "list"},  {"schedule", "list"},
                                              {"outbox", "list"}, {"audit"}};
    static const struct {
        const char *variable;
        int width;
    } cases[] = {{"COLUMNS=80", 80}, {"COLUMNS=100", 100}};
    struct fixture *fx = *state;
    fill(fx);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) {
            char *out = printed(fx, commands[i], cases[j].variable);
            assert_true(strlen(out) > 0);
            if (widest(out) > cases[j].width) {
                fail_msg("tenon %s is %d wide:\n%s", commands[i][0], widest(out), out);
            }
            free(out);
        }
    }
}

static void test_what_is_left(void **state)
{
    struct fixture *fx = *state;
    fill(fx);
    char *out = PRINTED(fx, "COLUMNS=80", "status");
    assert_contains(out, "\n3 workers serve default, mail, a_queue_with_a_rather_long_name;");
    assert_contains(out, "20 more\n");
    assert_contains(out, "\nthe queue mail is paused by");
    assert_contains(out, "a_queue_w...");
    assert_contains(out, "\na.qu...  a-hos...  4194300  waiting "); /* SINCE is below its row */
    assert_contains(out, "4194300): no queue \u00e4");
    free(out);
    out = PRINTED(fx, "COLUMNS=80", "list");
    assert_contains(out, "\n    Boom: \u00e4 \u00f6\u00fc"); /* below its row */
    assert_null(strstr(out, "LAST ERROR"));
    free(out);
    HAS("\n                 at line 17\n", "COLUMNS=80", "show",
        "2"); /* an error keeps its lines */
    HAS("\n    {\"", "COLUMNS=80", "audit");
    HAS("\n    strict, until 2100-01-01 00:00:00 UTC\n", "COLUMNS=80", "limit", "list");
    HAS("\n    2026-11-28 08:00:00, task 4711\n", "COLUMNS=80", "schedule", "list");
    HAS("\n    NO_ROUTE: no queue is bound", "COLUMNS=80", "outbox", "list");
}

static void test_a_pipe_gets_all(void **state)
{
    static const char *const variables[] = {"COLUMNS", "COLUMNS=", "COLUMNS=7", "COLUMNS=x"};
    struct fixture *fx = *state;
    fill(fx);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        char *out = PRINTED(fx, variables[i], "list");
        assert_contains(out, "a_kind_with_a_very_long_name_that_says_what_it_does");
        assert_contains(out, "  LAST ERROR\n");
        free(out);
    }
    HAS("the channel of the incident", "COLUMNS", "audit");
    HAS("a_limit_with_a_name_that_is_long_\u00e4:kkkkkkkkkkkkkkkkkkkkkkkkk", "COLUMNS", "limit",
        "list");
    char *out = PRINTED(fx, "COLUMNS", "schedule", "list");
    assert_contains(out, "America/Argentina/Buenos_Aires");
    assert_contains(out, "active  2026-11-28 08:00:00, task 4711\n");
    free(out);
    HAS("an order key of some length: \u00e4\u00e4\u00e4\u00e4", "COLUMNS", "outbox", "list");
    HAS("\\n  at line 17", "COLUMNS", "show", "2");
    out = PRINTED(fx, "COLUMNS=80", "show", "2", "--json");
    assert_true(widest(out) > 300);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_everything_fits),
        WITH_DATABASE(test_what_is_left),
        WITH_DATABASE(test_a_pipe_gets_all),
    };
    return RUN_GROUP(tests);
}
