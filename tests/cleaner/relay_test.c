/* label: e2e */
/* timeout: 300 */
/* Messages of tenon.publish, by way of the relay of the cleaner, in RabbitMQ's queues: what
 * arrives, in which order, what is refused; and whatever dies, nothing is lost. */
#include "tests/support/outbox.h"
#include "tests/support/proxy.h"
#include "tests/support/scrape.h"
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>

enum { PRODUCERS = 50, EACH = 20, KILLS = 10, KILLED_MESSAGES = 5000 };

/* The leader holds the sleeper's lock, and has asked nothing for a while. */
#define SLEEPS                                                                                     \
    "SELECT EXISTS (SELECT FROM tenon.lock k JOIN tenon.setting ON key = sleeper_key "             \
    "JOIN pg_stat_activity a USING (pid) "                                                         \
    "WHERE counts AND clock_timestamp() - a.state_change > interval '400 ms')"

#define STATE_IS "SELECT (SELECT state FROM tenon.outbox WHERE id = %lld) = '%s'"

static struct process *start(struct fixture *fx, struct broker **ret)
{
    *ret = outbox_open(fx);
    struct process *cleaner = TENON(fx, "cleaner", "--http", "127.0.0.1:0");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    return cleaner;
}

/* Bodies of all that is in the queue, with a blank behind each; free(). */
static char *bodies(struct broker *b, const char *queue)
{
    amqp_message_t m;
    char *all = calloc(1, 1 << 20);
    size_t n = 0;
    while (broker_get(b, queue, &m)) {
        assert_in_range(n + m.body.len + 2, 1, 1 << 20);
        memcpy(all + n, m.body.bytes, m.body.len);
        n += m.body.len;
        all[n++] = ' ';
        amqp_destroy_message(&m);
    }
    return all;
}

static void assert_bodies(struct broker *b, const char *queue, const char *want)
{
    char *got = bodies(b, queue);
    assert_string_equal(got, want);
    free(got);
}

/* Takes one message alone from the queue. */
static void assert_next(struct broker *b, const char *queue, const char *want)
{
    amqp_message_t m;
    assert_true(broker_get(b, queue, &m));
    assert_int_equal(m.body.len, strlen(want));
    assert_memory_equal(m.body.bytes, want, m.body.len);
    amqp_destroy_message(&m);
}

static int64_t publish_to(struct fixture *fx, const char *queue, const char *body,
                          const char *arguments)
{
    return test_sql_int(fx, "SELECT tenon.publish('', '%s', '%s'::text%s)", queue, body, arguments);
}

/* --- what arrives ----------------------------------------------------------------------------- */

static void test_a_commit_publishes_and_a_rollback_never(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *cleaner = start(fx, &b);
    test_sql(fx, "BEGIN");
    (void)publish_to(fx, "q", "never", "");
    test_sql(fx, "ROLLBACK; BEGIN");
    (void)publish_to(fx, "q", "a", "");
    test_sql(fx, "SAVEPOINT s");
    (void)publish_to(fx, "q", "never", "");
    test_sql(fx, "ROLLBACK TO s; COMMIT");
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    (void)publish_to(fx, "q", "b", "");
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_bodies(b, "q", "a b ");
    end_well(cleaner);
    outbox_close(b);
}

static const amqp_field_value_t *header(const amqp_message_t *m, const char *name)
{
    const amqp_table_t *t = &m->properties.headers;
    for (int i = 0; i < t->num_entries; i++) {
        if (t->entries[i].key.len == strlen(name) &&
            memcmp(t->entries[i].key.bytes, name, strlen(name)) == 0) {
            return &t->entries[i].value;
        }
    }
    fail_msg("there is no header %s", name);
    return NULL;
}

static void assert_properties(const amqp_basic_properties_t *p)
{
    assert_int_equal(p->delivery_mode, 2);
    outbox_assert_text(p->message_id, "id-1");
    outbox_assert_text(p->content_type, "application/json");
    outbox_assert_text(p->type, "order.paid");
    outbox_assert_text(p->app_id, "shop");
    outbox_assert_text(p->correlation_id, "c");
    outbox_assert_text(p->reply_to, "r");
    outbox_assert_text(p->content_encoding, "utf-8");
    assert_int_equal(p->priority, 7);
    assert_true(p->_flags & AMQP_BASIC_EXPIRATION_FLAG);
    assert_true(p->_flags & AMQP_BASIC_TIMESTAMP_FLAG);
}

static void test_what_a_message_has(void **state)
{
    static const char trace[] = "00-00000000000000000000000000000001-0000000000000001-01";
    struct fixture *fx = *state;
    struct broker *b;
    amqp_message_t m;
    struct process *cleaner = start(fx, &b);
    int64_t id = test_sql_int(
        fx,
        "SELECT tenon.publish('', 'q', '{\"n\": 1}'::jsonb, message_id => 'id-1', headers =>"
        " '{\"s\": \"t\", \"n\": 5, \"d\": 0.5, \"b\": true, \"z\": null, \"o\": {\"x\": [1]}}',"
        " expires => '1 h', trace => '%s', properties => '{\"type\": \"order.paid\","
        " \"app_id\": \"shop\", \"correlation_id\": \"c\", \"reply_to\": \"r\","
        " \"content_encoding\": \"utf-8\", \"priority\": 7}')",
        trace);
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_true(broker_get(b, "q", &m));
    outbox_assert_text(m.body, "{\"n\": 1}");
    assert_properties(&m.properties);
    outbox_assert_text(header(&m, "s")->value.bytes, "t");
    assert_int_equal(header(&m, "n")->value.i64, 5);
    assert_true(header(&m, "d")->value.f64 == 0.5);
    assert_true(header(&m, "b")->value.boolean);
    assert_int_equal(header(&m, "z")->kind, AMQP_FIELD_KIND_VOID);
    assert_int_equal(header(&m, "o")->value.table.num_entries, 1);
    outbox_assert_text(header(&m, "traceparent")->value.bytes, trace);
    assert_int_equal(header(&m, "tenon-id")->value.i64, id);
    amqp_destroy_message(&m);
    test_sql(fx, "SELECT tenon.publish('', 'q', '\\x00ff'::bytea), tenon.publish('', 'q', 'ä')");
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_true(broker_get(b, "q", &m));
    assert_memory_equal(m.body.bytes, "\0\xff", 2);
    outbox_assert_text(m.properties.content_type, "application/octet-stream");
    assert_int_equal(m.properties.message_id.len, 36);
    amqp_destroy_message(&m);
    assert_true(broker_get(b, "q", &m));
    outbox_assert_text(m.body, "ä");
    outbox_assert_text(m.properties.content_type, "text/plain");
    amqp_destroy_message(&m);
    end_well(cleaner);
    outbox_close(b);
}

/* --- order ------------------------------------------------------------------------------------ */

static void test_a_key_arrives_in_the_order_of_commits(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    PGconn *conns[PRODUCERS]; /* all at once, and few keys */
    struct process *cleaner = start(fx, &b);
    outbox_counters(fx);
    for (int i = 0; i < PRODUCERS; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "CALL produce(%d)", EACH);
        conns[i] = sql_connect(fx->database_url);
        assert_true(PQsendQuery(conns[i], text));
    }
    for (int i = 0; i < PRODUCERS; i++) {
        PGresult *r = PQgetResult(conns[i]);
        assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
        PQclear(r);
        PQfinish(conns[i]);
    }
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_int_equal(test_sql_int(fx, "SELECT sum(n) FROM counter"), PRODUCERS * EACH);
    assert_int_equal(outbox_assert_order(fx, b), 0);
    end_well(cleaner);
    outbox_close(b);
}

/* The first of the key is not committed when others are, with higher ids. */
static void test_a_late_commit_is_sent(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *cleaner = start(fx, &b);
    PGconn *late = sql_connect(fx->database_url), *old = sql_connect(fx->database_url);
    sql_run(old, "BEGIN; CREATE TABLE public.old (n integer)");
    sql_run(late, "BEGIN");
    sql_run(late, "SELECT tenon.publish('', 'q', 'late'::text)");
    (void)publish_to(fx, "q", "early", "");
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_bodies(b, "q", "early ");
    sql_run(late, "COMMIT");
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_bodies(b, "q", "late ");
    sql_run(old, "COMMIT");
    PQfinish(late);
    PQfinish(old);
    end_well(cleaner);
    outbox_close(b);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void test_what_no_queue_gets_holds_its_key_only(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *cleaner = start(fx, &b);
    int64_t first = publish_to(fx, "nowhere", "1", ", order_key => 'a'");
    test_await(fx, LIMIT_MS, STATE_IS, (long long)first, "refused");
    int64_t second = publish_to(fx, "q", "2", ", order_key => 'a'");
    (void)publish_to(fx, "q", "3", ", order_key => 'b'");
    (void)publish_to(fx, "q", "4", "");
    test_await(fx, LIMIT_MS, STATE_IS, (long long)second, "held");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 2 FROM tenon.outbox");
    char *got = bodies(b, "q");
    assert_contains(got, "3 ");
    assert_contains(got, "4 ");
    assert_null(strchr(got, '2'));
    free(got);
    struct web w = scrape_at(cleaner);
    scrape_await(&w, "tenon_outbox_refused", 1, LIMIT_MS);
    scrape_await(&w, "tenon_outbox_waiting", 1, LIMIT_MS);
    scrape_await(&w, "tenon_outbox_oldest_seconds", 0, LIMIT_MS);
    assert_true(test_sql_bool(fx, "SELECT error LIKE 'no queue got it%%' AND retry_at IS NULL AND"
                                  " tries = 1 FROM tenon.outbox WHERE state = 'refused'"));
    broker_make_queue(b, "nowhere", 0);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_messages(ARRAY[%lld])", (long long)first),
                     1);
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_bodies(b, "nowhere", "1 ");
    assert_bodies(b, "q", "2 ");
    end_well(cleaner);
    outbox_close(b);
}

static void test_what_is_deleted_lets_the_next_go(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *cleaner = start(fx, &b);
    int64_t first = publish_to(fx, "nowhere", "1", ", order_key => 'a'");
    (void)publish_to(fx, "q", "2", ", order_key => 'a'");
    test_await(fx, LIMIT_MS, STATE_IS, (long long)first, "refused");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.delete_messages(exchange => '')"), 1);
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_bodies(b, "q", "2 ");
    struct web w = scrape_at(cleaner);
    scrape_await(&w, "tenon_messages_sent_total", 1, LIMIT_MS);
    scrape_await(&w, "tenon_messages_refused_total", 1, LIMIT_MS);
    scrape_await(&w, "tenon_messages_expired_total", 1, LIMIT_MS);
    end_well(cleaner);
    process_await_line(cleaner, "event=messages_refused messages=1 exchange=\"\"", LIMIT_MS);
    process_await_line(cleaner, "messages_sent=1 messages_refused=1 messages_expired=1", LIMIT_MS);
    outbox_close(b);
}

static void test_what_has_expired_is_not_sent(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = outbox_open(fx);
    int64_t id = publish_to(fx, "q", "1", ", expires => '1 ms', order_key => 'a'");
    (void)publish_to(fx, "q", "2", ", expires => '1 h', order_key => 'a'");
    test_await(fx, LIMIT_MS, STATE_IS, (long long)id, "expired");
    struct process *cleaner = TENON(fx, "cleaner");
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_bodies(b, "q", "2 ");
    end_well(cleaner);
    outbox_close(b);
}

/* RabbitMQ closes the channel for it, with all that was sent before. */
static void test_a_missing_exchange_stops_nobody_else(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *cleaner = start(fx, &b);
    test_sql(fx, "SELECT tenon.publish(CASE WHEN i %% 25 = 0 THEN 'missing' ELSE '' END, 'q',"
                 " i::text, message_id => i::text) FROM generate_series(1, 100) i");
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = 4 AND bool_and(exchange = 'missing' AND state = 'refused' AND"
               " error LIKE '%%NOT_FOUND%%') FROM tenon.outbox");
    bool seen[101] = {false};
    amqp_message_t m;
    while (broker_get(b, "q", &m)) {
        char text[8] = "";
        memcpy(text, m.body.bytes, m.body.len);
        long i = strtol(text, NULL, 10);
        assert_in_range(i, 1, 100);
        seen[i] = true;
        amqp_destroy_message(&m);
    }
    for (int i = 1; i <= 100; i++) {
        assert_int_equal(seen[i], i % 25 != 0);
    }
    end_well(cleaner);
    outbox_close(b);
}

static void test_a_full_queue_is_tried_again(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *cleaner = start(fx, &b);
    broker_make_queue(b, "small", 1);
    for (int i = 1; i <= 3; i++) {
        (void)publish_to(fx, "small", i == 1 ? "1" : i == 2 ? "2" : "3", ", order_key => 'a'");
    }
    test_await(fx, LIMIT_MS,
               "SELECT count(*) FILTER (WHERE retry_at IS NOT NULL) = 1 AND"
               " count(*) = 2 FROM tenon.outbox");
    assert_next(b, "small", "1"); /* makes room for the next, which may arrive at once */
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1 FROM tenon.outbox");
    assert_next(b, "small", "2");
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_bodies(b, "small", "3 ");
    end_well(cleaner);
    outbox_close(b);
}

/* --- what dies -------------------------------------------------------------------------------- */

static void test_rabbitmq_goes_and_comes(void **state)
{
    struct fixture *fx = *state;
    struct proxy proxy;
    struct broker *b = outbox_open(fx);
    proxy_open(&proxy, fx->amqp_url);
    struct process *cleaner = TENON(fx, "cleaner", "--amqp-url", proxy.url);
    outbox_counters(fx);
    test_sql(fx, "CALL produce(50)");
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    proxy_door(&proxy, PROXY_RESETS);
    proxy_break(&proxy, PROXY_RESET);
    test_sql(fx, "CALL produce(50)"); /* nobody waits for RabbitMQ */
    test_await(fx, LIMIT_MS, "SELECT count(*) = 50 FROM tenon.outbox");
    proxy_door(&proxy, PROXY_SERVES);
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    for (int bytes = 100; bytes <= 1600; bytes *= 2) {
        proxy_cut_after(&proxy, PROXY_TO_CLIENT, bytes);
        test_sql(fx, "CALL produce(50)");
        test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    }
    print_message("%lld came again\n", (long long)outbox_assert_order(fx, b));
    end_well(cleaner);
    proxy_close(&proxy);
    outbox_close(b);
}

/* The leader would otherwise read fresh rows 500 times a second for as long as RabbitMQ is away. */
static void test_the_leader_sleeps_while_messages_wait(void **state)
{
    struct fixture *fx = *state;
    struct proxy proxy;
    struct broker *b = outbox_open(fx);
    proxy_open(&proxy, fx->amqp_url);
    proxy_door(&proxy, PROXY_RESETS);
    (void)publish_to(fx, "q", "one", "");
    struct process *cleaner = TENON(fx, "cleaner", "--amqp-url", proxy.url);
    test_await(fx, LIMIT_MS, SLEEPS);
    (void)publish_to(fx, "q", "two", "");
    test_await(fx, LIMIT_MS, SLEEPS);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.outbox"), 2);
    proxy_door(&proxy, PROXY_SERVES);
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_bodies(b, "q", "one two ");
    end_well(cleaner);
    proxy_close(&proxy);
    outbox_close(b);
}

static void test_kill_9_loses_nothing(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *cleaner = start(fx, &b);
    outbox_counters(fx);
    process_kill(cleaner);
    test_sql(fx, "CALL produce(%d)", KILLED_MESSAGES);
    for (int i = 1; i <= KILLS; i++) {
        int64_t waits = test_sql_int(fx, "SELECT count(*) FROM tenon.outbox");
        cleaner = TENON(fx, "cleaner");
        test_await(fx, LIMIT_MS, "SELECT count(*) < %lld FROM tenon.outbox",
                   (long long)(waits > 1 ? waits : 1));
        process_kill(cleaner);
    }
    cleaner = TENON(fx, "cleaner");
    test_await(fx, 2 * LIMIT_MS, OUTBOX_EMPTY);
    print_message("%lld came again\n", (long long)outbox_assert_order(fx, b));
    end_well(cleaner);
    outbox_close(b);
}

static void test_another_cleaner_takes_over(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *first = start(fx, &b), *second = TENON(fx, "cleaner");
    process_await_line(second, "event=broker_up", LIMIT_MS);
    outbox_counters(fx);
    test_sql(fx, "CALL produce(100)");
    process_signal(first, SIGSTOP); /* it holds its lock, so nobody else leads */
    test_sql(fx, "CALL produce(100)");
    process_kill(first);
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    (void)outbox_assert_order(fx, b);
    end_well(second);
    outbox_close(b);
}

/* One that does not know yet that it has lost its lead can do nothing. */
/* The first message of each key, and of what is behind them 8 MB. */
static void test_a_read_of_many_keys_is_bounded(void **state)
{
    struct fixture *fx = *state;
    int64_t token = test_sql_int(fx, "SELECT tenon.relay_begin()");
    test_sql(
        fx, "SELECT tenon.publish('', 'q', repeat('x', CASE i / 30 WHEN 0 THEN 10 ELSE 300000 END),"
            " order_key => 'key ' || i %% 30, notify => false) FROM generate_series(0, 119) i");
    test_sql(fx,
             "CREATE TEMP TABLE got AS SELECT id, order_key, length(body) / 2 AS bytes"
             " FROM tenon.relay_read(%lld, 0, 1000, 30, false, '{}', '{}') OFFSET 1",
             (long long)token);
    assert_int_equal(test_sql_int(fx, "SELECT count(DISTINCT order_key) FROM got"), 30);
    assert_in_range(test_sql_int(fx, "SELECT sum(bytes) FROM got"), 7 << 20, 8 << 20);
    /* of each key a part without a gap, from its first one on */
    assert_true(test_sql_bool(
        fx, "SELECT bool_and(id = first + 30 * (place - 1)) FROM"
            " (SELECT id, min(id) OVER w AS first, row_number() OVER (w ORDER BY id) AS place"
            " FROM got WINDOW w AS (PARTITION BY order_key)) g"));
}

static void test_an_old_token_is_refused(void **state)
{
    struct fixture *fx = *state;
    int64_t old = test_sql_int(fx, "SELECT tenon.relay_begin()");
    int64_t now = test_sql_int(fx, "SELECT tenon.relay_begin()");
    int64_t id = publish_to(fx, "q", "1", "");
    test_sql_fails(fx, "55000", "another session relays",
                   "SELECT tenon.relay_done(%lld, ARRAY[%lld], '{}', '{}')", (long long)old,
                   (long long)id);
    test_sql_fails(fx, "55000", "another session relays",
                   "SELECT tenon.relay_read(%lld, 0, 100, 10, false, '{}', '{}')", (long long)old);
    test_sql(fx, "SELECT tenon.relay_done(%lld, ARRAY[%lld], '{}', '{}')", (long long)now,
             (long long)id);
    assert_true(test_sql_bool(fx, OUTBOX_EMPTY));
}

/* --- kept and replayed ------------------------------------------------------------------------ */

static void test_replay(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct process *cleaner = start(fx, &b);
    (void)publish_to(fx, "q", "0", "");
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    test_sql(fx, "SELECT tenon.set_settings('{\"outbox_keep\": \"1 day\"}')");
    (void)publish_to(fx, "q", "1", ", order_key => 'a', message_id => 'x'");
    (void)publish_to(fx, "q", "2", ", order_key => 'a'");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 2 FROM tenon.message_sent");
    assert_bodies(b, "q", "0 1 2 ");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.replay_messages(now() - interval '1 h')"), 2);
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_bodies(b, "q", "1 2 ");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.message_sent"
                                      " WHERE message_id = 'x'"),
                     2);
    end_well(cleaner);
    outbox_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_commit_publishes_and_a_rollback_never),
        WITH_SERVERS(test_what_a_message_has),
        WITH_SERVERS(test_a_key_arrives_in_the_order_of_commits),
        WITH_SERVERS(test_a_late_commit_is_sent),
        WITH_SERVERS(test_what_no_queue_gets_holds_its_key_only),
        WITH_SERVERS(test_what_is_deleted_lets_the_next_go),
        WITH_SERVERS(test_what_has_expired_is_not_sent),
        WITH_SERVERS(test_a_missing_exchange_stops_nobody_else),
        WITH_SERVERS(test_a_full_queue_is_tried_again),
        WITH_SERVERS(test_rabbitmq_goes_and_comes),
        WITH_SERVERS(test_the_leader_sleeps_while_messages_wait),
        WITH_SERVERS(test_kill_9_loses_nothing),
        WITH_SERVERS(test_another_cleaner_takes_over),
        WITH_DATABASE(test_a_read_of_many_keys_is_bounded),
        WITH_DATABASE(test_an_old_token_is_refused),
        WITH_SERVERS(test_replay),
    };
    return RUN_GROUP(tests);
}
