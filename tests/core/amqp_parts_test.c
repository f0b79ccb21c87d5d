/* label: unit */
/* The parts of the AMQP code that need no broker: ids, URLs, pauses. */
#include "tests/support/test.h"

#include "core/amqp/amqp_delivery.h"
#include "core/amqp/amqp_thread.h"
#include "core/amqp/amqp_url.h"
#include "core/base/now.h"

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
    /* as Celery's users write it */
    assert_ok(amqp_url_parse("amqp://ann:secret@mq.example:5672//", &url, &f), &f);
    assert_string_equal(url.hosts[0].name, "mq.example");
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
                                        "amqp://ann:s3cret@h//v",
                                        "amqp://ann:s3cret@h:0/v",
                                        "amqp://ann:s3cret@h:99999/v",
                                        "amqp://ann:s3cret@h:x/v",
                                        "amqp://ann:s3%zzcret@h/v",
                                        "amqp://ann:s3cret@h/v\n",
                                        " amqp://ann:s3cret@h/v",
                                        "'amqp://ann:s3cret@h/v'",
                                        "amqp+ssl://ann:s3cret@h/v",
                                        "amqp://ann:s3@cret@h/v",
                                        "amqp://ann:33/s3@h/v",
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
            struct amqp_pause p = {.failures = rows[i].failures - 1};
            int64_t before_ms = now_ms();
            amqp_pause_down(&p);
            int64_t pause = p.due_ms - before_ms;
            least = pause < least ? pause : least;
            most = pause > most ? pause : most;
        }
        assert_in_range(least, rows[i].least, rows[i].most);
        assert_in_range(most, rows[i].least, rows[i].most + 50); /* and the time it took */
        /* by chance: they fill the most part of the range */
        assert_in_range(most - least, (rows[i].most - rows[i].least) / 2, rows[i].most);
    }
}

/* A link that was good for long enough ends the doubling, one that broke at once does not. */
static void test_pauses_after_a_good_link(void **state)
{
    (void)state;
    struct amqp_pause p = {.failures = 5};
    amqp_pause_up(&p);
    amqp_pause_down(&p);
    assert_int_equal(p.failures, 6);
    amqp_pause_up(&p);
    p.up_since_ms -= AMQP_STEADY_MS;
    amqp_pause_down(&p);
    assert_int_equal(p.failures, 1);
    amqp_pause_down(&p);
    assert_int_equal(p.failures, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),      cmocka_unit_test(test_deliveries),
        cmocka_unit_test(test_urls),     cmocka_unit_test(test_urls_of_several_hosts),
        cmocka_unit_test(test_bad_urls), cmocka_unit_test(test_mask),
        cmocka_unit_test(test_pauses),   cmocka_unit_test(test_pauses_after_a_good_link),
    };
    return RUN_GROUP(tests);
}
