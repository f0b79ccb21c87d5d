/* label: e2e */
/* The command tenon enqueue: options, stdin, bad input, a broker that is away. */
#include "tests/support/process.h"
#include "tests/support/producer.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static void test_command(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    char *out = TENON_RUN(fx, 0, "enqueue", "mail", "{\"to\": \"x\"}", "--priority", "9",
                          "--unique-key", "k", "--max-attempts", "2", "--timeout", "90s");
    int64_t id = strtoll(out, NULL, 10);
    free(out);
    assert_true(test_sql_bool(
        fx,
        "SELECT payload->>'to' = 'x' AND priority = 9 AND unique_key = 'k' AND announced"
        " AND max_attempts = 2 AND timeout_ms = 90000 FROM tenon.task WHERE id = %" PRId64,
        id));
    assert_int_equal(broker_depth(b, "default/mail"), 1);
    free(TENON_RUN(fx, 0, "enqueue", "mail", "--delay", "1h"));
    assert_int_equal(broker_depth(b, "default/mail"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE delayed"), 1);
    free(TENON_RUN(fx, 0, "enqueue", "mail", "--queue",
                   "nowhere")); /* nobody serves it: no warning */
    free(TENON_RUN(fx, 0, "enqueue", "mail", "--amqp-url", "none"));
    struct process *p = TENON(fx, "enqueue", "mail", "--amqp-url", "amqp://127.0.0.1:1/");
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    char *log = file_text(p->log);
    assert_contains(log, "is enqueued, but its wake-up did not reach RabbitMQ (");
    free(log);
    free(TENON_RUN(fx, 2, "enqueue", "mail", "{bad"));
    free(TENON_RUN(fx, 2, "enqueue", "ma il"));
    free(TENON_RUN(fx, 2, "enqueue"));
    free(TENON_RUN(fx, 2, "enqueue", "mail", "{}", "--priority", "12"));
    assert_int_equal(tasks(fx), 5);
    tenon_free(t);
    broker_close(b);
}

/* Its options that say what becomes of others under the key, and of the task when time goes by. */
static void test_options_of_a_unique_key(void **state)
{
    struct fixture *fx = *state;
#define MAIL(payload)                                                                              \
    TENON_RUN(fx, 0, "enqueue", "mail", payload, "--unique-key", "k", "--on-conflict", "merge",    \
              "--unique-for", "1h", "--debounce", "1min", "--debounce-max", "90s",                 \
              "--start-before", "2099-01-31 08:00+01", "--retry", "constant(1 min, 1 min, 0 %)")
    char *id = MAIL("{\"a\": 1, \"b\": 1}");
    assert_true(test_sql_bool(
        fx, "SELECT start_before = '2099-01-31 07:00Z' AND retry = 'constant(1 min, 1 min, 0 %%)'"
            " AND run_at - created_at BETWEEN '59 s' AND '61 s' AND (SELECT until - t.created_at"
            " BETWEEN '59 min' AND '61 min' AND h.id = t.id FROM tenon.unique_hold h)"
            " FROM tenon.task t"));
    test_sql(fx, "UPDATE tenon.task SET created_at = created_at - interval '80 s'");
    char *again = MAIL("{\"b\": 2}");
#undef MAIL
    assert_string_equal(again, id);
    assert_true(test_sql_bool(fx, "SELECT payload = '{\"a\": 1, \"b\": 2}' AND"
                                  " run_at - created_at = interval '90 s' FROM tenon.task"));
    free(id);
    free(again);
    free(TENON_RUN(fx, 2, "enqueue", "mail", "{}", "--retry", "often"));
    free(TENON_RUN(fx, 2, "enqueue", "mail", "{}", "--debounce-max", "90s"));
}

/* The program's own words about a payload on stdin. */
static char *from_stdin(struct fixture *fx, const char *printf_args, int code)
{
    char script[200];
    (void)snprintf(script, sizeof script, "printf %s | \"$0\" enqueue mail - 2>&1", printf_args);
    char program[400];
    char self[300];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    for (int up = 0; up < 2; up++) {
        *strrchr(self, '/') = '\0';
    }
    (void)snprintf(program, sizeof program, "%s/tenon", self);
    const char *const argv[] = {"sh", "-c", script, program, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    assert_int_equal(process_wait(p, LIMIT_MS), code);
    return file_text(p->out);
}

static void test_command_reads_stdin(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    char *out = from_stdin(fx, "'{\"n\": 12}'", 0);
    assert_true(
        test_sql_bool(fx, "SELECT payload->>'n' = '12' FROM tenon.task WHERE id = %s", out));
    free(out);
    out = from_stdin(fx, "''", 2);
    assert_contains(out, "empty");
    free(out);
    out = from_stdin(fx, "'1\\0002'", 2);
    assert_contains(out, "payload on stdin holds a NUL byte");
    free(out);
    assert_int_equal(tasks(fx), 1);
    tenon_free(t);
    broker_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_command),
        WITH_DATABASE(test_options_of_a_unique_key),
        WITH_SERVERS(test_command_reads_stdin),
    };
    return RUN_GROUP(tests);
}
