/* label: e2e */
/* `tenon doctor` names what is wrong: each misconfiguration is planted, and found. */
#include "cli/statements.h"
#include "tests/support/held.h"
#include "tests/support/working.h"

#include <jansson.h>
#include <stdlib.h>

/* The findings, whatever they are: tests' servers are set up to be fast, not safe. */
static json_t *examine(struct fixture *fx, const char *amqp_url)
{
    struct process *p = TENON(fx, "doctor", "--json", "--amqp-url", amqp_url);
    assert_int_equal(process_wait(p, LIMIT_MS), 1);
    char *out = file_text(p->out);
    json_t *all = json_loads(out, 0, NULL);
    assert_non_null(all);
    free(out);
    return all;
}

/* Is there a finding of this subject that has these words in its text or its advice? */
static bool names(json_t *all, const char *subject, const char *words)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(all, "findings"), i, one)
    {
        const char *finding = json_string_value(json_object_get(one, "finding"));
        const char *advice = json_string_value(json_object_get(one, "advice"));
        assert_true(*advice != '\0');
        if (strcmp(json_string_value(json_object_get(one, "subject")), subject) == 0 &&
            (strstr(finding, words) || strstr(advice, words))) {
            return true;
        }
    }
    return false;
}

struct planted {
    const char *sql, *subject, *words;
};

static const struct planted planted[] = {
    {"SELECT 1", "durability", "fsync is off"}, /* of tests' servers */
    {"ALTER DATABASE %s SET synchronous_commit = off", "durability", "synchronous_commit"},
    {"ALTER DATABASE %s SET statement_timeout = '50ms'", "settings", "statement_timeout=50ms"},
    {"DROP INDEX tenon.task_order", "index", "task_order is missing"},
    {"CREATE INDEX mine ON tenon.task (worker_id)", "index", "mine names a column"},
    {"CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
     "CREATE TRIGGER t AFTER INSERT ON tenon.task FOR EACH ROW EXECUTE FUNCTION public.f()",
     "trigger", "DROP TRIGGER t"},
    {"CREATE TABLE public.orders (task bigint REFERENCES tenon.task)", "foreign key",
     "orders_task_fkey"},
    {"ALTER TABLE tenon.task SET (autovacuum_enabled = off)", "vacuum", "for tenon.task"},
    {"ALTER TABLE tenon.task SET (fillfactor = 100)", "fillfactor", "fillfactor = 45"},
    {"SELECT tenon.enqueue_many('z', array_fill('1'::jsonb, '{6000}')) FROM generate_series(1, 2);"
     "UPDATE tenon.task SET claims = claims + 1; DELETE FROM tenon.task;"
     "SELECT pg_stat_force_next_flush()",
     "updates", "updates of tenon.task were HOT"},
    {"DO $$ BEGIN EXECUTE 'DROP TABLE tenon.finished_' || to_char(clock_timestamp() AT TIME ZONE"
     " 'UTC' + interval '1 day', 'YYYYMMDD'); END $$",
     "partitions", "tenon.finished has no partition"},
    {"GRANT SELECT ON tenon.task TO PUBLIC", "rights", "may SELECT tenon.task"},
    {"GRANT CREATE ON SCHEMA tenon TO PUBLIC", "rights", "make objects"},
    {"UPDATE tenon.home SET database = 1", "copy", "tenon adopt"},
    {"SELECT 1", "cleaner", "no cleaner leads"},
    {"SELECT 1", "workers", "no worker is alive"},
    {"INSERT INTO tenon.worker (host, pid, slots, queues, kinds, backing_off)"
     " VALUES ('h', 1, 1, '{default}', '{a}', 'a: no such file')",
     "workers", "holds its lock no more"},
    {"SELECT 1", "handler", "a: no such file"},
    {"SELECT tenon.enqueue('b')", "unhandled", "1 due tasks of kind b in queue default"},
    {"SELECT tenon.enqueue('a'); UPDATE tenon.task SET run_at = now() - interval '1 hour'"
     " WHERE kind = 'a'",
     "latency", "of kind a in queue default has waited for 01:00"},
    {"SELECT tenon.enqueue('c'); SELECT tenon.pause(kind => 'c')", "paused", "kind c"},
    {"INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims, failures,"
     " crashes, max_attempts, priority, reason, queue, kind, payload, last_error) VALUES (now(),"
     " 1000, now(), now(), 1000, 1, 1, 0, 1, 4, 'failures', 'default', 'a', '{}', 'Timeout: x')",
     "dead tasks", "last: Timeout: x"},
    {"SELECT tenon.set_schedule('nightly', every => '1 h', kind => 'a');"
     " UPDATE tenon.schedule SET due_at = now() - interval '1 day'",
     "schedule", "nightly"},
};

static void test_each_misconfiguration_is_named(void **state)
{
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        test_sql(fx, planted[i].sql, fx->database);
        json_t *all = examine(fx, "none");
        if (!names(all, planted[i].subject, planted[i].words)) {
            fail_msg("%s: %s \"%s\" is not named: %s", planted[i].sql, planted[i].subject,
                     planted[i].words, json_dumps(all, JSON_INDENT(1)));
        }
        json_decref(all);
    }
}

/* A prepared or idle transaction is a finding when it is old; here, at once. */
static void test_old_transactions(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    const char *const none[] = {"0"}, *const old[] = {"300"};
    PGresult *found = statement_run(fx->conn, &sql_doctor_server, none, 1);
    bool named = false;
    for (int i = 0; i < PQntuples(found); i++) {
        named = named || strcmp(PQgetvalue(found, i, 1), "old transaction") == 0;
    }
    PQclear(found);
    assert_true(named);
    found = statement_run(fx->conn, &sql_doctor_server, old, 1);
    for (int i = 0; i < PQntuples(found); i++) {
        assert_string_not_equal(PQgetvalue(found, i, 1), "old transaction");
    }
    PQclear(found);
    PQfinish(other);
}

static void test_rabbitmq_that_is_away(void **state)
{
    struct fixture *fx = *state;
    json_t *all = examine(fx, "amqp://guest:guest@127.0.0.1:1/");
    assert_true(names(all, "rabbitmq", "none is lost"));
    json_decref(all);
}

/* With everything in place it says nothing but what the tests' servers are. */
static void test_a_fleet_that_is_well(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = TENON(fx, "cleaner", "--amqp-url", "none");
    struct process *worker = TENON(fx, "worker", "--amqp-url", "none", "--handler", "a=true");
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = 1, count(*) FROM tenon.worker w JOIN tenon.lock k ON k.key ="
               " w.lock_key, tenon.setting s JOIN tenon.lock l ON l.key = s.leader_key AND"
               " l.counts");
    json_t *all = examine(fx, "none");
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(all, "findings"), i, one)
    {
        assert_string_equal(json_string_value(json_object_get(one, "subject")), "durability");
    }
    json_decref(all);
    end_well(worker);
    end_well(cleaner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_each_misconfiguration_is_named),
        WITH_DATABASE(test_old_transactions),
        WITH_DATABASE(test_rabbitmq_that_is_away),
        WITH_DATABASE(test_a_fleet_that_is_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
