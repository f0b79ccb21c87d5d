/* label: e2e */
/* timeout: 60 */
/* What the page changes besides tasks: a schedule keeps what a change does not name, a limit is
 * replaced; and the doctor's answer follows an act at once. */
#include "tests/support/web.h"

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void test_schedule(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(fx, "SELECT tenon.set_schedule('n', '30 3 * * *', kind => 'report', priority => 7,"
                 " zone => 'Europe/Berlin', payload => '{\"n\": 12345678901234567890}'::jsonb)");
    WEB_OPEN(fx, &w, NULL);
    json_decref(web_post(&w, 200, "/api/schedule",
                         "{\"act\": \"set\", \"name\": \"n\", \"changes\":"
                         " {\"cron\": \"0 4 * * *\", \"overlap\": \"skip\"}}"));
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.schedule WHERE name = 'n'"
                                  " AND cron = '0 4 * * *' AND overlap = 'skip' AND priority = 7"
                                  " AND zone = 'Europe/Berlin' AND kind = 'report'"
                                  " AND payload->>'n' = '12345678901234567890'"),
                     1);
    json_decref(web_post(&w, 200, "/api/schedule",
                         "{\"act\": \"set\", \"name\": \"n\", \"changes\": {\"every_ms\": 5000}}"));
    assert_int_equal(test_sql_int(fx, "SELECT every_ms FROM tenon.schedule WHERE cron IS NULL"),
                     5000);
    json_decref(
        web_post(&w, 404, "/api/schedule", "{\"act\": \"set\", \"name\": \"x\", \"changes\": {}}"));
    json_decref(web_post(&w, 400, "/api/schedule",
                         "{\"act\": \"set\", \"name\": \"n\", \"changes\": {\"cron\": \"x\"}}"));
    web_close(&w);
}

static void test_limit(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    WEB_OPEN(fx, &w, NULL);
    json_decref(web_post(&w, 200, "/api/limit",
                         "{\"act\": \"set\", \"name\": \"t\", \"changes\": {\"max_running\": 2,"
                         " \"max_starts\": 10, \"per\": \"1 min\"}}"));
    json_decref(web_post(&w, 200, "/api/limit",
                         "{\"act\": \"set\", \"name\": \"t\", \"changes\": {\"strict\": true}}"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit WHERE name = 't' AND strict"
                                      " AND num_nonnulls(max_running, max_starts, per) = 0"),
                     1);
    json_decref(web_post(&w, 400, "/api/limit",
                         "{\"act\": \"set\", \"name\": \"t\", \"changes\": {\"weight\": 0}}"));
    web_close(&w);
}

static const json_t *pause_of(const json_t *doctor)
{
    size_t i;
    const json_t *one;
    json_array_foreach(json_object_get(doctor, "findings"), i, one)
    {
        const json_t *about = json_object_get(one, "about");
        if (strcmp(text(one, "subject"), "paused") == 0 && json_object_get(about, "what")) {
            return about;
        }
    }
    return NULL;
}

static void test_doctor(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/doctor");
    assert_null(pause_of(o));
    json_decref(o);
    json_decref(web_post(&w, 200, "/api/pause", "{\"queue\": \"mail\"}"));
    o = web_get(&w, 200, "/api/doctor");
    assert_non_null(pause_of(o));
    assert_string_equal(text(pause_of(o), "what"), "queue");
    assert_string_equal(text(pause_of(o), "name"), "mail");
    json_decref(o);
    web_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_DATABASE(test_schedule), WITH_DATABASE(test_limit),
                                       WITH_DATABASE(test_doctor)};
    return RUN_GROUP(tests);
}
