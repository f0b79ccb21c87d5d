/* label: e2e */
/* timeout: 200 */
/* tenon intake: what a message becomes, and what becomes of one that cannot be a task. */
#include "tests/support/scrape.h"
#include "tests/support/working.h"

#include <signal.h>

#define TASKS_ARE(n) "SELECT count(*) = " #n " FROM tenon.task"

/* A virtual host has only those queues that a fixture knows; these are ours. */
static const char *const queues[] = {"orders", "dead", "order.paid"};

static struct broker *open_queues(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        broker_remove_queue(b, queues[i]);
    }
    broker_make_typed(b, "dead", "classic", NULL);
    broker_make_typed(b, "orders", "classic", "dead");
    broker_make_typed(b, "order.paid", "classic", "dead");
    return b;
}

static void close_queues(struct broker *b)
{
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        broker_remove_queue(b, queues[i]);
    }
    broker_close(b);
}

static struct process *ready(struct process *p)
{
    process_await_line(p, "event=intake_ready", LIMIT_MS);
    return p;
}

#define INTAKE(fx, ...) ready(TENON((fx), "intake", "--http", "127.0.0.1:0", __VA_ARGS__))

static amqp_basic_properties_t with_id(const char *id)
{
    return (amqp_basic_properties_t){._flags = AMQP_BASIC_MESSAGE_ID_FLAG,
                                     .message_id = amqp_cstring_bytes(id)};
}

static void send_text(struct broker *b, const char *id, const char *body)
{
    amqp_basic_properties_t p = with_id(id);
    broker_send(b, "orders", body, strlen(body), &p);
}

static void assert_text(char *got, const char *want)
{
    assert_string_equal(got, want);
    free(got);
}

/* --- what a message becomes ------------------------------------------------------------------- */

static void test_a_message_is_one_task(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    struct process *intake = INTAKE(fx, "--from", "orders", "--kind", "take", "--queue", "shop",
                                    "--priority", "7");
    send_text(b, "1", " {\"n\": 1}\n");
    send_text(b, "2", "\"\xc3\xa4 \\\" \\\\\"");
    send_text(b, "1", "{\"n\": 1}");
    broker_send_end(b);
    test_await(fx, LIMIT_MS, TASKS_ARE(2));
    assert_text(test_sql_text(fx, "SELECT string_agg(kind || queue || priority || payload, ' '"
                                  " ORDER BY id) FROM tenon.task"),
                "takeshop7{\"n\": 1} takeshop7\"\xc3\xa4 \\\" \\\\\"");
    struct web web = scrape_at(intake);
    scrape_await(&web, "tenon_intake_messages_total{queue=\"orders\",result=\"repeated\"}", 1,
                 LIMIT_MS);
    scrape_await(&web, "tenon_intake_messages_total{queue=\"orders\",result=\"taken\"}", 2,
                 LIMIT_MS);
    scrape_await_probe(&web, "/ready", 200, "it consumes", LIMIT_MS);
    scrape_await(&web, "tenon_intake_up{queue=\"orders\"}", 1, LIMIT_MS);
    scrape_await(&web, "tenon_intake_broker_up{queue=\"orders\"}", 1, LIMIT_MS);
    scrape_await(&web, "tenon_intake_waiting{queue=\"orders\"}", 0, LIMIT_MS);
    scrape_await_least(&web, "tenon_intake_prefetch{queue=\"orders\"}", 32, LIMIT_MS);
    scrape_await_least(&web, "tenon_intake_commits_total{queue=\"orders\"}", 1, LIMIT_MS);
    end_well(intake);
    assert_int_equal(broker_ready(b, "orders"), 0);
    assert_true(process_lines(intake, "event=intake_stats queue=orders taken=2 repeated=1") == 1);
    close_queues(b);
}

static amqp_table_entry_t text_entry(const char *key, const char *text)
{
    return (amqp_table_entry_t){.key = amqp_cstring_bytes(key),
                                .value = {.kind = AMQP_FIELD_KIND_UTF8,
                                          .value.bytes = amqp_cstring_bytes(text)}};
}

static void send_headers(struct broker *b, const char *id, amqp_table_entry_t *entries, int n)
{
    amqp_basic_properties_t p = with_id(id);
    p._flags |= AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG;
    p.headers = (amqp_table_t){.num_entries = n, .entries = entries};
    p.type = amqp_cstring_bytes("order.made");
    p.timestamp = 1700000000;
    broker_send(b, "orders", "[1, 2]", 6, &p);
    broker_send_end(b);
}

static void test_envelope_and_trace(void **state)
{
    static const char trace[] = "00-00000000000000000000000000000001-0000000000000001-01";
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    struct process *intake = INTAKE(fx, "--from", "orders", "--kind", "take", "--envelope",
                                    "--on-invalid", "keep");
    amqp_table_entry_t deep = {.key = amqp_cstring_bytes("deep"),
                               .value = {.kind = AMQP_FIELD_KIND_TABLE}};
    amqp_table_entry_t real = {.key = amqp_cstring_bytes("real"),
                               .value = {.kind = AMQP_FIELD_KIND_F64, .value.f64 = 0.5}};
    deep.value.value.table = (amqp_table_t){.num_entries = 1, .entries = &real};
    amqp_table_entry_t entries[] = {text_entry("traceparent", trace), text_entry("bad", "\xff\""),
                                    deep};
    send_headers(b, "1", entries, 3);
    test_await(fx, LIMIT_MS, TASKS_ARE(1));
    assert_text(test_sql_text(fx, "SELECT payload - 'headers' FROM tenon.task"),
                "{\"body\": [1, 2], \"type\": \"order.made\", \"queue\": \"orders\", \"exchange\":"
                " \"\", \"timestamp\": 1700000000, \"message_id\": \"1\", \"routing_key\":"
                " \"orders\"}");
    assert_true(test_sql_bool(fx,
                              "SELECT trace = '%s' AND payload->'headers' = '{\"traceparent\":"
                              " \"%s\", \"bad\": \"\xef\xbf\xbd\\\"\", \"deep\": {\"real\": 0.5}}'"
                              " FROM tenon.task",
                              trace, trace));
    entries[0] = text_entry("traceparent", "nonsense");
    send_headers(b, "2", entries, 1);
    test_await(fx, LIMIT_MS, TASKS_ARE(2));
    assert_true(test_sql_bool(fx, "SELECT trace IS NULL FROM tenon.task ORDER BY id DESC LIMIT 1"));
    send_text(b, "3", "no \xff");
    broker_send_end(b);
    test_await(fx, LIMIT_MS, TASKS_ARE(3));
    assert_true(test_sql_bool(
        fx, "SELECT payload @> '{\"body\": null, \"base64\": \"bm8g/w==\"}' AND payload->>'problem'"
            " LIKE '%%not JSON%%' FROM tenon.task ORDER BY id DESC LIMIT 1"));
    end_well(intake);
    close_queues(b);
}

/* --- kinds ------------------------------------------------------------------------------------ */

static void send_type(struct broker *b, const char *type)
{
    amqp_basic_properties_t p = {._flags = AMQP_BASIC_TYPE_FLAG, .type = amqp_cstring_bytes(type)};
    broker_send(b, "orders", "1", 1, type ? &p : NULL);
    broker_send_end(b);
}

static void assert_kinds(struct fixture *fx, const char *want)
{
    assert_text(test_sql_text(fx, "SELECT string_agg(kind, ' ' ORDER BY kind) FROM tenon.task"),
                want);
}

static void test_kinds_that_messages_choose(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    struct process *intake = INTAKE(fx, "--from", "orders", "--kind-from", "type", "--allow-kinds",
                                    "order.*,refund");
    send_type(b, "order.made");
    send_type(b, "refund");
    send_type(b, "refunds");
    send_type(b, "order.\xc3\xa4");
    send_type(b, "delete_all");
    broker_send(b, "orders", "1", 1, NULL);
    broker_send_end(b);
    while (broker_ready(b, "dead") < 4) {
        test_await(fx, LIMIT_MS, "SELECT true");
    }
    test_await(fx, LIMIT_MS, TASKS_ARE(2));
    assert_kinds(fx, "order.made refund");
    process_await_line(intake, "event=message_rejected queue=orders", LIMIT_MS);
    end_well(intake);
    intake = INTAKE(fx, "--from", "order.paid", "--kind-from", "routing-key", "--allow-kinds", "*");
    broker_send(b, "order.paid", "1", 1, NULL);
    broker_send_end(b);
    test_await(fx, LIMIT_MS, TASKS_ARE(3));
    assert_kinds(fx, "order.made order.paid refund");
    end_well(intake);
    close_queues(b);
}

static void test_a_kind_from_a_header(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    struct process *intake = INTAKE(fx, "--from", "orders", "--kind-from", "header:event",
                                    "--allow-kinds", "a,b", "--kind", "other");
    amqp_table_entry_t entry = text_entry("event", "a");
    send_headers(b, "1", &entry, 1);
    entry = text_entry("event", "c");
    send_headers(b, "2", &entry, 1);
    send_text(b, "3", "1");
    broker_send_end(b);
    test_await(fx, LIMIT_MS, TASKS_ARE(3));
    assert_kinds(fx, "a other other");
    end_well(intake);
    close_queues(b);
}

/* --- keys ------------------------------------------------------------------------------------- */

static void test_keys(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    struct process *intake = INTAKE(fx, "--from", "orders", "--kind", "k", "--key-from",
                                    "header:event-id");
    amqp_table_entry_t e = text_entry("event-id", "e1");
    send_headers(b, "1", &e, 1);
    send_headers(b, "2", &e, 1); /* the same */
    e.value = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I64, .value.i64 = 17};
    send_headers(b, "1", &e, 1);
    e.value = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_BYTES,
                                   .value.bytes = {.len = 3, .bytes = (char[]){"\0\1\2"}}};
    send_headers(b, "1", &e, 1);
    e.value.value.bytes.bytes = (char[]){"\0\1\3"};
    send_headers(b, "1", &e, 1);
    test_await(fx, LIMIT_MS, TASKS_ARE(4));
    assert_true(test_sql_bool(fx, "SELECT count(*) FILTER (WHERE message_id IN ('e1', '17')) = 2"
                                  " AND count(*) FILTER (WHERE message_id LIKE 'sha256:%%') = 2"
                                  " FROM tenon.seen WHERE consumer = 'intake:orders'"));
    send_headers(b, "1", NULL, 0); /* without a key: at least once */
    send_headers(b, "1", NULL, 0);
    test_await(fx, LIMIT_MS, TASKS_ARE(6));
    struct web web = scrape_at(intake);
    scrape_await(&web, "tenon_intake_unkeyed_total{queue=\"orders\"}", 2, LIMIT_MS);
    end_well(intake);
    intake = INTAKE(fx, "--from", "orders", "--kind", "k", "--key-from", "body");
    send_text(b, "x", "{\"same\": 1}");
    send_text(b, "y", "{\"same\": 1}");
    send_text(b, "x", "{\"same\": 2}");
    broker_send_end(b);
    test_await(fx, LIMIT_MS, TASKS_ARE(8));
    end_well(intake);
    close_queues(b);
}

/* --- what cannot be a task -------------------------------------------------------------------- */

static const char *const poison[] = {
    "", "no", "{\"a\": 1", "{\"a\": \"\\u0000\"}", "{\"a\": \"\xff\"}", "NaN", "{} {}",
};
enum { POISON = sizeof poison / sizeof *poison };

static void send_poison(struct broker *b)
{
    char *large = calloc(1, 5000);
    memset(large, '1', 5000);
    for (size_t i = 0; i < POISON; i++) {
        send_text(b, (const char[]){(char)('a' + i), '\0'}, poison[i]);
    }
    send_text(b, "good", "{}");
    amqp_basic_properties_t p = with_id("large");
    broker_send(b, "orders", large, 2000, &p);
    broker_send(b, "orders", large, 5000, &p);
    broker_send_end(b);
    free(large);
}

static void test_poison_goes_to_the_dead_letters(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    test_sql(fx, "SELECT tenon.set_settings('{\"payload_bytes_max\": 1000}')");
    struct process *intake = INTAKE(fx, "--from", "orders", "--kind", "k");
    send_poison(b);
    test_await(fx, LIMIT_MS, TASKS_ARE(1));
    struct web web = scrape_at(intake);
    scrape_await(&web, "tenon_intake_messages_total{queue=\"orders\",result=\"rejected\"}",
                 POISON + 2, LIMIT_MS);
    while (broker_ready(b, "dead") < POISON + 2) {
        test_await(fx, LIMIT_MS, "SELECT true");
    }
    amqp_message_t m;
    assert_true(broker_get(b, "dead", &m));
    assert_int_equal(m.body.len, 0);
    amqp_destroy_message(&m);
    assert_true(broker_get(b, "dead", &m));
    assert_memory_equal(m.body.bytes, "no", 2);
    amqp_destroy_message(&m);
    assert_true(process_lines(intake, "event=message_rejected") == POISON + 2);
    assert_true(process_lines(intake, "message_id=d routing_key=orders") == 1);
    /* what was rejected is not remembered: mended, it may come back */
    send_text(b, "b", "1");
    broker_send_end(b);
    test_await(fx, LIMIT_MS, TASKS_ARE(2));
    end_well(intake);
    close_queues(b);
}

static void test_poison_is_kept(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    test_sql(fx, "SELECT tenon.set_settings('{\"payload_bytes_max\": 1000}')");
    struct process *intake = INTAKE(fx, "--from", "orders", "--kind", "k", "--on-invalid", "keep");
    send_poison(b);
    test_await(fx, LIMIT_MS, "SELECT count(*) = %d FROM tenon.task", POISON + 1);
    for (size_t i = 0; i < POISON; i++) {
        char hex[64] = "";
        for (size_t j = 0; poison[i][j]; j++) {
            (void)snprintf(hex + 2 * j, 3, "%02x", (unsigned char)poison[i][j]);
        }
        assert_true(test_sql_bool(fx,
                                  "SELECT count(*) = 1 FROM tenon.task WHERE"
                                  " decode(payload->>'base64', 'base64') = '\\x%s' AND"
                                  " payload->>'problem' <> ''",
                                  hex));
    }
    while (broker_ready(b, "dead") < 2) { /* nothing can keep what is too large */
        test_await(fx, LIMIT_MS, "SELECT true");
    }
    end_well(intake);
    close_queues(b);
}

/* --- options and rights ----------------------------------------------------------------------- */

static void test_options_that_do_not_go_together(void **state)
{
    static const struct {
        const char *const args[8];
        const char *says;
    } table[] = {
        {{"--kind", "k"}, "--from or --from-stream is missing"},
        {{"--from", "q"}, "--kind or --kind-from is missing"},
        {{"--from", "q", "--kind-from", "type"}, "--kind-from requires --allow-kinds"},
        {{"--from", "q", "--kind", "k", "--allow-kinds", "a"},
         "--allow-kinds requires --kind-from"},
        {{"--from", "q", "--kind-from", "type", "--allow-kinds", "a", "--on-invalid", "keep"},
         "--on-invalid keep requires --kind"},
        {{"--from", "q", "--kind", "k", "--amqp-url", "none"}, "needs RabbitMQ"},
        {{"--from", "q", "--from", "q", "--kind", "k"}, "q is given twice"},
        {{"--from", "q", "--from-stream", "q", "--kind", "k"}, "q is given twice"},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *args[10] = {"intake"};
        memcpy(args + 1, table[i].args, sizeof table[i].args);
        struct process *p = tenon_spawn(fx, args, NULL);
        assert_int_equal(process_wait(p, LIMIT_MS), 2);
        assert_true(process_lines(p, table[i].says) == 1);
    }
}

static void test_a_role_of_its_own(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_queues(fx);
    char url[600], role[80], from[160];
    (void)snprintf(role, sizeof role, "%s_in", fx->database);
    test_sql(fx, "CREATE ROLE %s LOGIN PASSWORD 'p'", role);
    const char *at = strchr(fx->database_url, '@');
    (void)snprintf(url, sizeof url, "postgresql://%s:p%s", role, at);
    (void)snprintf(from, sizeof from, "TENON_FROM=orders\norder.paid");
    TENON_SAYS(fx, 2, "", "the owner of the schema grants it: tenon setup --grant-intake ROLE",
               "intake", "--database-url", url, "--from", "orders", "--kind", "k");
    free(TENON_RUN(fx, 0, "setup", "--grant-intake", role));
    struct process *intake =
        tenon_spawn(fx, (const char *const[]){"intake", "--database-url", url, NULL},
                    (const char *const[]){from, "TENON_KIND=k", NULL});
    (void)ready(intake);
    send_text(b, "1", "1");
    broker_send(b, "order.paid", "2", 1, NULL);
    broker_send_end(b);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 2 AND bool_and(enqueued_by = '%s') FROM tenon.task",
               role);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 2 AND bool_and(error IS NULL) FROM tenon.intake");
    end_well(intake);
    test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role, role);
    close_queues(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_message_is_one_task),
        WITH_SERVERS(test_envelope_and_trace),
        WITH_SERVERS(test_kinds_that_messages_choose),
        WITH_SERVERS(test_a_kind_from_a_header),
        WITH_SERVERS(test_keys),
        WITH_SERVERS(test_poison_goes_to_the_dead_letters),
        WITH_SERVERS(test_poison_is_kept),
        WITH_SERVERS(test_options_that_do_not_go_together),
        WITH_SERVERS(test_a_role_of_its_own),
    };
    return RUN_GROUP(tests);
}
