/* label: sql */
/* tenon_publish() of libtenon: the cases of clients/conformance/publish.json, and its errors. */
#include "tests/support/fixture.h"
#include "tests/support/process.h"

#include "include/tenon/tenon.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* free(); NULL where there is none */
static char *dumped(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    return value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
}

static void take_body(const json_t *one, tenon_message *m, char bytes[256])
{
    const char *hex = text(one, "hex");
    if (hex) {
        m->form = TENON_BYTES;
        m->body_bytes = strlen(hex) / 2;
        for (size_t i = 0; i < m->body_bytes; i++) {
            unsigned byte;
            assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
            bytes[i] = (char)byte;
        }
        m->body = bytes;
    } else if (text(one, "text")) {
        m->body = text(one, "text");
        m->body_bytes = strlen(m->body);
    }
}

static void check_row(struct fixture *fx, int64_t id, const json_t *one, const char *body_json)
{
    char *row = dumped(one, "row");
    char *quoted = PQescapeLiteral(fx->conn, row, strlen(row));
    assert_true(test_sql_bool(fx,
                              "SELECT to_jsonb(o) @> %s::jsonb FROM tenon.outbox o WHERE id = %lld",
                              quoted, (long long)id));
    PQfreemem(quoted);
    free(row);
    if (body_json) {
        quoted = PQescapeLiteral(fx->conn, body_json, strlen(body_json));
        assert_true(test_sql_bool(fx,
                                  "SELECT convert_from(body, 'UTF8')::jsonb = %s::jsonb"
                                  " FROM tenon.outbox WHERE id = %lld",
                                  quoted, (long long)id));
        PQfreemem(quoted);
    } else {
        assert_true(
            test_sql_bool(fx, "SELECT encode(body, 'hex') = '%s' FROM tenon.outbox WHERE id = %lld",
                          text(one, "body_hex"), (long long)id));
    }
}

static void run_case(struct fixture *fx, const json_t *one)
{
    tenon_message m = TENON_MESSAGE_INIT;
    const json_t *options = json_object_get(one, "options");
    char bytes[256], *json = dumped(one, "json"), *body_json = dumped(one, "body_json");
    char *headers = dumped(options, "headers"), *properties = dumped(options, "properties");
    int64_t id = 0;
    m.exchange = text(one, "exchange");
    m.routing_key = text(one, "routing_key");
    if (json) {
        m.form = TENON_JSON;
        m.body = json;
        m.body_bytes = strlen(json);
    }
    take_body(one, &m, bytes);
    m.headers = headers;
    m.properties = properties;
    m.message_id = text(options, "message_id");
    m.content_type = text(options, "content_type");
    m.order_key = text(options, "order_key");
    m.trace = text(options, "trace");
    m.expires_ms = json_integer_value(json_object_get(one, "expires_ms"));
    m.prepared = json_is_false(json_object_get(options, "notify"));
    int code = tenon_publish(fx->conn, &m, &id);
    if (text(one, "error")) {
        assert_int_equal(code, TENON_REFUSED);
    } else if (code != TENON_OK) {
        fail_msg("%s: %s", text(one, "name"), tenon_errmsg());
    } else {
        check_row(fx, id, one, body_json);
    }
    free(json);
    free(body_json);
    free(headers);
    free(properties);
}

static void test_cases(void **state)
{
    struct fixture *fx = *state;
    char path[400];
    size_t i;
    json_t *one;
    (void)snprintf(path, sizeof path, "%s/clients/conformance/publish.json", repository);
    json_t *all = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_true(json_array_size(json_object_get(all, "publish")) >= 9);
    json_array_foreach(json_object_get(all, "publish"), i, one)
    {
        run_case(fx, one);
    }
    json_decref(all);
}

static void test_in_the_transaction(void **state)
{
    struct fixture *fx = *state;
    tenon_message m = TENON_MESSAGE_INIT;
    m.exchange = "orders";
    m.routing_key = "paid";
    m.body = "{\"n\": 1}";
    m.body_bytes = 8;
    test_sql(fx, "BEGIN");
    assert_int_equal(tenon_publish(fx->conn, &m, NULL), TENON_OK);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.mine_published()"), 1);
    test_sql(fx, "ROLLBACK");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.outbox"), 0);
}

static void test_misuse(void **state)
{
    struct fixture *fx = *state;
    tenon_message m = TENON_MESSAGE_INIT;
    assert_int_equal(tenon_publish(fx->conn, NULL, NULL), TENON_MISUSE);
    assert_int_equal(tenon_publish(fx->conn, &m, NULL), TENON_MISUSE);
    m.exchange = m.routing_key = "";
    m.body_bytes = 1;
    assert_int_equal(tenon_publish(fx->conn, &m, NULL), TENON_MISUSE);
    m.body = "\xff";
    m.form = 7;
    assert_int_equal(tenon_publish(fx->conn, &m, NULL), TENON_MISUSE);
    m.form = TENON_TEXT; /* it is no UTF-8 */
    assert_int_not_equal(tenon_publish(fx->conn, &m, NULL), TENON_OK);
    m.form = TENON_JSON;
    m.body = "{";
    assert_int_not_equal(tenon_publish(fx->conn, &m, NULL), TENON_OK);
    m.struct_size = 8;
    assert_int_equal(tenon_publish(fx->conn, &m, NULL), TENON_MISUSE);
    m.struct_size = sizeof m;
    assert_int_equal(tenon_publish(NULL, &m, NULL), TENON_MISUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_DATABASE(test_cases),
                                       WITH_DATABASE(test_in_the_transaction),
                                       WITH_DATABASE(test_misuse)};
    return RUN_GROUP(tests);
}
