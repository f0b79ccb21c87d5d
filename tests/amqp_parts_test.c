/* label: unit */
/* The parts of the AMQP code that need no broker: ids, confirms, routes, URLs, pauses. */
#include "tests/support/test.h"

#include "core/amqp_confirms.h"
#include "core/amqp_delivery.h"
#include "core/amqp_publisher.h"
#include "core/amqp_route.h"
#include "core/amqp_url.h"

#include <limits.h>

static bool is_id(const char *body, int64_t want)
{
    int64_t id = -1;
    return delivery_id(body, strlen(body), &id) && id == want;
}

static void test_ids(void **state)
{
    (void)state;
    assert_true(is_id("1", 1));
    assert_true(is_id("1234567890123", 1234567890123));
    assert_true(is_id("9223372036854775807", INT64_MAX));
    static const char *const wrong[] = {"",    "0",   "01",       "-1",
                                        "+1",  " 1",  "1 ",       "1\n",
                                        "1.0", "1e3", "0x1",      "9223372036854775808",
                                        "abc", "1;2", "\xD9\xA1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t id;
        if (delivery_id(wrong[i], strlen(wrong[i]), &id)) {
            fail_msg("\"%s\" is taken for an id", wrong[i]);
        }
    }
    int64_t id;
    assert_false(delivery_id("1\0002", 3, &id));
}

/* The frames of one delivery, with any promise in the header. */
static enum delivery_result deliver(struct delivery *d, uint64_t promised, const char *const *parts,
                                    int64_t *ret_id)
{
    amqp_basic_deliver_t m = {.delivery_tag = 5};
    amqp_frame_t frame = {.frame_type = AMQP_FRAME_METHOD, .channel = 1};
    frame.payload.method.id = AMQP_BASIC_DELIVER_METHOD;
    frame.payload.method.decoded = &m;
    enum delivery_result result = delivery_take(d, &frame, ret_id);
    assert_int_equal(result, DELIVERY_MORE);
    frame = (amqp_frame_t){.frame_type = AMQP_FRAME_HEADER, .channel = 1};
    frame.payload.properties.body_size = promised;
    result = delivery_take(d, &frame, ret_id);
    for (; result == DELIVERY_MORE && *parts; parts++) {
        frame = (amqp_frame_t){.frame_type = AMQP_FRAME_BODY, .channel = 1};
        frame.payload.body_fragment = amqp_cstring_bytes(*parts);
        result = delivery_take(d, &frame, ret_id);
    }
    return result;
}

static void test_deliveries(void **state)
{
    (void)state;
    struct delivery d = {0};
    int64_t id = 0;
    assert_int_equal(deliver(&d, 2, (const char *const[]){"42", NULL}, &id), DELIVERY_ID);
    assert_int_equal(id, 42);
    assert_int_equal(d.tag, 5);
    assert_int_equal(deliver(&d, 3, (const char *const[]){"1", "2", "3", NULL}, &id), DELIVERY_ID);
    assert_int_equal(id, 123);
    assert_int_equal(deliver(&d, 0, (const char *const[]){NULL}, &id), DELIVERY_HOSTILE);
    /* a long body is read to its end, and nothing of it is kept */
    assert_int_equal(deliver(&d, 30,
                             (const char *const[]){"1234567890", "1234567890", "1234567890", NULL},
                             &id),
                     DELIVERY_HOSTILE);
    assert_int_equal(deliver(&d, 1, (const char *const[]){"7", NULL}, &id), DELIVERY_ID);
    assert_int_equal(id, 7);
    /* more than was promised, and a frame out of order */
    assert_int_equal(deliver(&d, 1, (const char *const[]){"77", NULL}, &id), DELIVERY_UNEXPECTED);
    struct delivery fresh = {0};
    amqp_frame_t body = {.frame_type = AMQP_FRAME_BODY, .channel = 1};
    assert_int_equal(delivery_take(&fresh, &body, &id), DELIVERY_UNEXPECTED);
}

static void test_confirms(void **state)
{
    (void)state;
    static struct confirms c;
    confirms_reset(&c);
    assert_int_equal(confirms_take(&c, 1, false), 0); /* nothing was sent */
    for (int i = 0; i < 10; i++) {
        confirms_sent(&c);
    }
    assert_int_equal(confirms_take(&c, 3, false), 1);
    assert_int_equal(confirms_take(&c, 3, false), 0); /* twice */
    assert_int_equal(confirms_take(&c, 5, true), 4);  /* 1, 2, 4, 5 */
    assert_int_equal(confirms_take(&c, 7, false), 1);
    assert_int_equal(confirms_take(&c, 11, true), 0); /* not sent yet */
    assert_int_equal(c.open, 4);
    assert_int_equal(confirms_take(&c, 6, false), 1); /* and 7 before it: first is 8 */
    assert_int_equal(c.first, 8);
    assert_int_equal(confirms_take(&c, 0, true), 3);
    assert_int_equal(c.open, 0);
    assert_int_equal(confirms_take(&c, 0, true), 0);
}

static void test_confirms_around(void **state)
{
    (void)state;
    static struct confirms c;
    confirms_reset(&c);
    int64_t answered = 0;
    for (uint64_t tag = 1; tag <= 5 * (uint64_t)CONFIRMS_MAX; tag++) {
        confirms_sent(&c);
        if (confirms_full(&c)) { /* in the worst order: all but the first, then the first */
            for (uint64_t t = c.next - 1; t > c.first; t--) {
                answered += confirms_take(&c, t, false);
            }
            assert_true(confirms_full(&c));
            answered += confirms_take(&c, c.first, false);
            assert_int_equal(c.open, 0);
        }
    }
    assert_int_equal(answered, 5 * CONFIRMS_MAX);
}

static void test_refusals(void **state)
{
    (void)state;
    struct refusals r = {0};
    assert_false(refusals_too_long(&r));
    refusals_note(&r, 100);
    assert_false(refusals_too_long(&r));
    refusals_note(&r, 100 + REFUSALS_QUIET_MS + 1); /* another, and not the same ones */
    assert_false(refusals_too_long(&r));
    for (int64_t now = 10000, limit = REFUSALS_MS_MIN; limit <= REFUSALS_MS_MAX; limit *= 2) {
        int64_t begun = now;
        for (; !refusals_too_long(&r); now += 500) {
            refusals_note(&r, now);
        }
        assert_in_range(now - begun, limit, limit + 1000);
    }
    /* once they have stopped for long enough, the next ones are met with the first patience */
    refusals_note(&r, 1000000);
    refusals_note(&r, 1000500);
    assert_false(refusals_too_long(&r));
    refusals_note(&r, 1000000 + REFUSALS_MS_MIN);
    assert_true(refusals_too_long(&r));
}

static void test_route(void **state)
{
    (void)state;
    struct route r = {.queue = "q"};
    int64_t now = 50000, window = 100;
    assert_int_equal(route_room(&r, window, now), -1);
    assert_false(route_is_due(&r, now));
    assert_true(route_accepts(&r, window, now));
    r.pending = 1;
    assert_true(route_is_due(&r, now)); /* nothing is known */
    assert_int_equal(route_verdict(&r, window, now), ROUTE_GO);
    r.published = 100; /* as many as the window, unseen */
    assert_int_equal(route_verdict(&r, window, now), ROUTE_HOLD);
    route_asked(&r);
    r.published = 110; /* while the question was under way */
    route_answered(&r, 60, now);
    assert_int_equal(route_room(&r, window, now), 100 - 60 - 10 - 1);
    assert_int_equal(route_verdict(&r, window, now), ROUTE_GO);
    r.published = 140;
    assert_int_equal(route_verdict(&r, window, now), ROUTE_DROP);
    assert_false(route_accepts(&r, window, now));
    assert_false(route_is_due(&r, now));
    now += ROUTE_FRESH_MS; /* the answer is old: ask before dropping */
    assert_int_equal(route_verdict(&r, window, now), ROUTE_HOLD);
    assert_true(route_accepts(&r, window, now));
    assert_true(route_is_due(&r, now));
}

static void test_route_shut(void **state)
{
    (void)state;
    struct route r = {.queue = "q", .pending = 1};
    route_shut(&r, 1000, 10);
    assert_int_equal(route_room(&r, 100, 1000), 0);
    assert_int_equal(route_verdict(&r, 100, 1000), ROUTE_DROP);
    assert_false(route_accepts(&r, 100, 1000 + ROUTE_SHUT_MS));
    assert_true(route_accepts(&r, 100, 1010 + ROUTE_SHUT_MS));
}

static void test_asks_every_so_many(void **state)
{
    (void)state;
    struct route r = {.queue = "q"};
    route_asked(&r);
    route_answered(&r, 0, 1000);
    r.published = PUBLISHER_ASK_EVERY - 1;
    assert_false(route_is_due(&r, 1001));
    r.published++;
    assert_true(route_is_due(&r, 1001));
    /* and once a second after anything was published, though nothing is pending */
    route_asked(&r);
    route_answered(&r, 0, 1000);
    assert_false(route_is_due(&r, 5000));
    r.published++;
    assert_true(route_is_due(&r, 5000));
}

static void test_urls(void **state)
{
    (void)state;
    struct fault f = {0};
    struct amqp_url url = {0};
    assert_ok(amqp_url_parse("amqp://ann:s%2fcret@mq.example:1234/a%2fb", &url, &f), &f);
    assert_string_equal(url.hosts[0].name, "mq.example");
    assert_string_equal(url.user, "ann");
    assert_string_equal(url.password, "s/cret");
    assert_string_equal(url.vhost, "a/b");
    assert_int_equal(url.hosts[0].port, 1234);
    assert_false(url.tls);
    amqp_url_clear(&url);
    assert_ok(amqp_url_parse("amqps://[::1]", &url, &f), &f);
    assert_string_equal(url.hosts[0].name, "::1");
    assert_string_equal(url.vhost, "/");
    assert_int_equal(url.hosts[0].port, 5671);
    assert_true(url.tls);
    amqp_url_clear(&url);
    assert_ok(amqp_url_parse("amqp://localhost/", &url, &f), &f);
    assert_string_equal(url.vhost, "/");
    amqp_url_clear(&url);
}

static void test_urls_of_several_hosts(void **state)
{
    (void)state;
    struct fault f = {0};
    struct amqp_url url = {0};
    assert_ok(amqp_url_parse("amqp://ann:a,b@mq1:1,[::1],mq3:3/v,w", &url, &f), &f);
    assert_int_equal(url.n_hosts, 3);
    assert_string_equal(url.hosts[0].name, "mq1");
    assert_int_equal(url.hosts[0].port, 1);
    assert_string_equal(url.hosts[1].name, "::1");
    assert_int_equal(url.hosts[1].port, 5672);
    assert_string_equal(url.hosts[2].name, "mq3");
    assert_int_equal(url.hosts[2].port, 3);
    assert_string_equal(url.user, "ann");
    assert_string_equal(url.password, "a,b");
    assert_string_equal(url.vhost, "v,w");
    amqp_url_clear(&url);
}

static void test_bad_urls(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "localhost",
                                        "http://h/",
                                        "amqp://ann:s3cret@h:0/v",
                                        "amqp://ann:s3cret@h:99999/v",
                                        "amqp://ann:s3cret@h:x/v",
                                        "amqp://ann:s3%zzcret@h/v",
                                        "amqp://ann:s3cret@h/v?heartbeat=1",
                                        "amqp://ann:s3cret@h,,i/v",
                                        "amqp://ann:s3cret@h,/v",
                                        "amqp://ann:s3cret@,h/v",
                                        "amqp://ann:s3cret@h,i:x/v",
                                        "amqp://ann:s3cret@a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a/v"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct fault f = {0};
        struct amqp_url url = {0};
        char text[200];
        if (amqp_url_parse(wrong[i], &url, &f)) {
            fail_msg("\"%s\" is taken for an AMQP URL", wrong[i]);
        }
        assert_int_equal(f.code, FAULT_CONFIG);
        assert_contains(f.text, "AMQP URL");
        assert_null(strstr(f.text, "s3"));
        amqp_url_mask(wrong[i], text, sizeof text);
        assert_null(strstr(text, "s3"));
    }
}

static void test_mask(void **state)
{
    (void)state;
    char text[200];
    amqp_url_mask("amqps://ann:secret@mq/v", text, sizeof text);
    assert_string_equal(text, "host=mq port=5671 vhost=v user=ann tls=yes");
    amqp_url_mask("amqp://ann:secret@mq1,mq2:1/v", text, sizeof text);
    assert_string_equal(text, "host=mq1,mq2 port=5672,1 vhost=v user=ann");
}

static void test_pauses(void **state)
{
    (void)state;
    static const struct {
        int failures;
        int64_t least, most;
    } rows[] = {{1, 50, 100},    {2, 100, 200},    {3, 200, 400},
                {7, 3200, 6400}, {8, 5000, 10000}, {INT_MAX, 5000, 10000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t least = INT64_MAX, most = 0;
        for (int n = 0; n < 200; n++) {
            int64_t pause = amqp_pause_ms(rows[i].failures);
            least = pause < least ? pause : least;
            most = pause > most ? pause : most;
        }
        assert_in_range(least, rows[i].least, rows[i].most);
        assert_in_range(most, rows[i].least, rows[i].most);
        /* by chance: they fill the most part of the range */
        assert_in_range(most - least, (rows[i].most - rows[i].least) / 2, rows[i].most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),        cmocka_unit_test(test_deliveries),
        cmocka_unit_test(test_confirms),   cmocka_unit_test(test_confirms_around),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_route),
        cmocka_unit_test(test_route_shut), cmocka_unit_test(test_asks_every_so_many),
        cmocka_unit_test(test_urls),       cmocka_unit_test(test_urls_of_several_hosts),
        cmocka_unit_test(test_bad_urls),   cmocka_unit_test(test_mask),
        cmocka_unit_test(test_pauses),
    };
    return RUN_GROUP(tests);
}
