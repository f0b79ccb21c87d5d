/* label: e2e */
/* timeout: 200 */
/* tenon intake with streams, whose offset the database keeps, and with quorum queues. */
#include "tests/support/scrape.h"
#include "tests/support/working.h"

enum { MANY = 3000, KILLS = 5, RUSH = 12000 };

#define TASKS_ARE "SELECT count(*) = %d FROM tenon.task"

static struct broker *open_stream(struct fixture *fx, const char *type)
{
    struct broker *b = broker_open(fx->amqp_url);
    broker_remove_queue(b, "events");
    broker_remove_queue(b, "dead");
    broker_make_typed(b, "dead", "classic", NULL);
    broker_make_typed(b, "events", type, strcmp(type, "stream") == 0 ? NULL : "dead");
    return b;
}

static void close_stream(struct broker *b)
{
    broker_remove_queue(b, "events");
    broker_remove_queue(b, "dead");
    broker_close(b);
}

static struct process *start(struct fixture *fx, const char *from, const char *offset)
{
    struct process *p = TENON(fx, "intake", "--http", "127.0.0.1:0", from, "events", "--kind", "k",
                              "--offset", offset);
    process_await_line(p, "event=intake_ready", LIMIT_MS);
    return p;
}

/* Bodies are numbers. */
static void send_numbers(struct broker *b, int from, int to, bool with_ids)
{
    for (int i = from; i <= to; i++) {
        char body[16];
        int bytes = snprintf(body, sizeof body, "%d", i);
        amqp_basic_properties_t p = {._flags = AMQP_BASIC_MESSAGE_ID_FLAG,
                                     .message_id = {.len = (size_t)bytes, .bytes = body}};
        broker_send(b, "events", body, (size_t)bytes, with_ids ? &p : NULL);
    }
    broker_send_end(b);
}

static void await_numbers(struct fixture *fx, int n)
{
    test_await(fx, 2 * LIMIT_MS, TASKS_ARE, n);
    assert_true(test_sql_bool(fx, "SELECT count(DISTINCT payload) = %d FROM tenon.task", n));
}

/* Its messages have no ids, and stay in it. */
static void test_a_stream_continues_where_it_was(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_stream(fx, "stream");
    send_numbers(b, 1, 100, false);
    struct process *intake = start(fx, "--from-stream", "first");
    await_numbers(fx, 100);
    assert_true(test_sql_bool(fx, "SELECT next_offset = 100 FROM tenon.stream_place WHERE stream ="
                                  " 'events'"));
    end_well(intake);
    send_numbers(b, 101, 150, false);
    intake = start(fx, "--from-stream", "next"); /* what the database has counts */
    await_numbers(fx, 150);
    struct web web = scrape_at(intake);
    scrape_await(&web, "tenon_intake_stream_offset{queue=\"events\"}", 150, LIMIT_MS);
    scrape_await(&web, "tenon_intake_unkeyed_total{queue=\"events\"}", 0, LIMIT_MS);
    end_well(intake);
    close_stream(b);
}

static void test_where_a_stream_begins(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_stream(fx, "stream");
    send_numbers(b, 1, 10, false);
    struct process *intake = start(fx, "--from-stream", "7");
    test_await(fx, LIMIT_MS, TASKS_ARE, 3);
    end_well(intake);
    test_sql(fx, "DELETE FROM tenon.stream_place; DELETE FROM tenon.task");
    intake = start(fx, "--from-stream", "next");
    send_numbers(b, 11, 12, false);
    test_await(fx, LIMIT_MS,
               "SELECT array_agg(payload::int ORDER BY id) = '{11,12}' FROM"
               " tenon.task");
    end_well(intake);
    close_stream(b);
}

static void test_kills_repeat_no_message_of_a_stream(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_stream(fx, "stream");
    send_numbers(b, 1, MANY, false);
    for (int i = 1; i <= KILLS; i++) {
        struct process *intake = start(fx, "--from-stream", "first");
        test_await(fx, LIMIT_MS, "SELECT count(*) >= %d FROM tenon.task", i * 100);
        process_kill(intake);
    }
    struct process *first = start(fx, "--from-stream", "first");
    struct process *second = start(fx, "--from-stream", "first"); /* sees all of it, too */
    await_numbers(fx, MANY);
    send_numbers(b, MANY + 1, MANY + 500, false);
    await_numbers(fx, MANY + 500);
    end_well(first);
    end_well(second);
    assert_true(test_sql_bool(fx, "SELECT next_offset = %d FROM tenon.stream_place", MANY + 500));
    close_stream(b);
}

/* Another prefetch is another consumer, which continues behind what the one before it was sent
 * until it was cancelled. A database that becomes slow wants a smaller one amid messages. */
static void test_another_prefetch_repeats_no_message_of_a_stream(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_stream(fx, "stream");
    test_sql(fx, "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                 " PERFORM pg_sleep(0.3) FROM tenon.stream_place WHERE next_offset > 8000;"
                 " RETURN NULL; END $$;"
                 "CREATE TRIGGER slow AFTER INSERT ON tenon.task EXECUTE FUNCTION public.slow()");
    send_numbers(b, 1, RUSH, false);
    struct process *intake = start(fx, "--from-stream", "first");
    test_await(fx, 2 * LIMIT_MS, "SELECT next_offset = %d FROM tenon.stream_place", RUSH);
    assert_true(test_sql_bool(fx, TASKS_ARE, RUSH));
    end_well(intake);
    close_stream(b);
}

/* Poison stays in the stream, which goes on. */
static void test_poison_in_a_stream(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_stream(fx, "stream");
    broker_send(b, "events", "no", 2, NULL);
    send_numbers(b, 1, 2, true);
    send_numbers(b, 1, 2, true); /* sent twice by their publisher */
    broker_send(b, "events", "no", 2, NULL);
    broker_send_end(b);
    struct process *intake = start(fx, "--from-stream", "first");
    await_numbers(fx, 2);
    process_await_line(intake, "offset=5", LIMIT_MS);
    test_await(fx, LIMIT_MS, "SELECT next_offset = 6 FROM tenon.stream_place");
    end_well(intake);
    close_stream(b);
}

/* What it knows is of another stream of that name. */
static void test_a_stream_made_anew(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_stream(fx, "stream");
    send_numbers(b, 1, 50, false);
    struct process *intake = start(fx, "--from-stream", "first");
    await_numbers(fx, 50);
    broker_remove_queue(b, "events");
    process_await_line(intake, "event=intake_down", LIMIT_MS);
    broker_make_typed(b, "events", "stream", NULL);
    send_numbers(b, 51, 60, false);
    process_await_line(intake, "DELETE FROM tenon.stream_place", LIMIT_MS);
    test_sql(fx, "DELETE FROM tenon.stream_place WHERE stream = 'events'");
    await_numbers(fx, 60);
    end_well(intake);
    close_stream(b);
}

static void test_the_wrong_option(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_stream(fx, "stream");
    struct process *intake = start(fx, "--from", "first");
    send_numbers(b, 1, 1, true);
    process_await_line(intake, "events is a stream: use --from-stream", LIMIT_MS);
    end_well(intake);
    close_stream(b);
    b = open_stream(fx, "classic");
    send_numbers(b, 1, 1, true);
    intake = TENON(fx, "intake", "--from-stream", "events", "--kind", "k");
    process_await_line(intake, "event=intake_down", LIMIT_MS);
    end_well(intake);
    assert_int_equal(broker_ready(b, "events"), 1);
    assert_true(test_sql_bool(fx, TASKS_ARE, 0));
    close_stream(b);
}

static void test_a_quorum_queue(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = open_stream(fx, "quorum");
    struct process *intake = start(fx, "--from", "first");
    send_numbers(b, 1, 1000, true);
    broker_send(b, "events", "no", 2, NULL);
    send_numbers(b, 501, 1500, true);
    await_numbers(fx, 1500);
    while (broker_ready(b, "dead") < 1) {
        test_await(fx, LIMIT_MS, "SELECT true");
    }
    process_kill(intake);
    send_numbers(b, 1501, 2000, true);
    intake = start(fx, "--from", "first");
    await_numbers(fx, 2000);
    end_well(intake);
    close_stream(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_stream_continues_where_it_was),
        WITH_SERVERS(test_where_a_stream_begins),
        WITH_SERVERS(test_kills_repeat_no_message_of_a_stream),
        WITH_SERVERS(test_another_prefetch_repeats_no_message_of_a_stream),
        WITH_SERVERS(test_poison_in_a_stream),
        WITH_SERVERS(test_a_stream_made_anew),
        WITH_SERVERS(test_the_wrong_option),
        WITH_SERVERS(test_a_quorum_queue),
    };
    return RUN_GROUP(tests);
}
