#include "tests/support/outbox.h"

#include <stdio.h>

/* A virtual host has only those queues that a fixture knows; these are ours. */
static void remove_queues(struct broker *b)
{
    broker_remove_queue(b, "q");
    broker_remove_queue(b, "nowhere");
    broker_remove_queue(b, "small");
}

struct broker *outbox_open(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    remove_queues(b);
    broker_make_queue(b, "q", 0);
    return b;
}

void outbox_close(struct broker *b)
{
    remove_queues(b);
    broker_close(b);
}

void outbox_assert_text(amqp_bytes_t got, const char *want)
{
    if (got.len != strlen(want) || memcmp(got.bytes, want, got.len) != 0) {
        fail_msg("\"%.*s\", not \"%s\"", (int)got.len, (const char *)got.bytes, want);
    }
}

/* A row for each key, locked before the key is: `n` counts the key's commits. */
void outbox_counters(struct fixture *fx)
{
    test_sql(fx,
             "CREATE TABLE counter (key text PRIMARY KEY, n integer NOT NULL DEFAULT 0);"
             "INSERT INTO counter (key) SELECT 'k' || k FROM generate_series(1, %d) k;"
             "CREATE PROCEDURE produce(times integer) LANGUAGE plpgsql AS $$"
             " DECLARE c counter; k text; BEGIN FOR i IN 1..times LOOP"
             " k := 'k' || 1 + floor(random() * %d)::int;"
             " UPDATE counter SET n = n + 1 WHERE key = k"
             " RETURNING * INTO c;"
             " PERFORM tenon.publish('', 'q', c.key || ':' || c.n, order_key => c.key,"
             " message_id => c.key || ':' || c.n); COMMIT; END LOOP; END $$",
             OUTBOX_KEYS, OUTBOX_KEYS);
}

/* Empties the queue. Of each key the first occurrences are 1, 2, 3 ...; returns how many came
 * again. */
int64_t outbox_assert_order(struct fixture *fx, struct broker *b)
{
    int64_t last[OUTBOX_KEYS + 1] = {0}, again = 0, all = 0;
    amqp_message_t m;
    while (broker_get(b, "q", &m)) {
        char text[64] = "";
        int key = 0;
        long long n = 0;
        memcpy(text, m.body.bytes, m.body.len);
        assert_int_equal(sscanf(text, "k%d:%lld", &key, &n), 2);
        outbox_assert_text(m.properties.message_id, text);
        assert_in_range(key, 1, OUTBOX_KEYS);
        if (n > last[key] + 1) {
            fail_msg("of key %d %lld follows %lld", key, n, (long long)last[key]);
        }
        again += n <= last[key];
        all += n > last[key];
        last[key] = n > last[key] ? n : last[key];
        amqp_destroy_message(&m);
    }
    assert_int_equal(all, test_sql_int(fx, "SELECT sum(n) FROM counter"));
    return again;
}
