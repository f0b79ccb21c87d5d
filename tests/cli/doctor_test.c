/* label: e2e */
/* only: all */
/* `tenon doctor` names what is wrong: each misconfiguration is planted, and found. */
#include "cli/statements.h"
#include "tests/support/held.h"
#include "tests/support/proxy.h"
#include "tests/support/working.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* The findings, whatever they are: tests' servers are set up to be fast, not safe. `hidden`: what
 * it says on stderr that it cannot see; NULL = nothing. */
static json_t *examine_as(struct fixture *fx, const char *amqp_url, const char *const *env,
                          const char *const *hidden)
{
    const char *const args[] = {"doctor", "--json", "--amqp-url", amqp_url, NULL};
    struct process *p = tenon_spawn(fx, args, env);
    assert_int_equal(process_wait(p, LIMIT_MS), 1);
    char *out = file_text(p->out);
    json_t *all = json_loads(out, 0, NULL);
    assert_non_null(all);
    free(out);
    char *err = file_text(p->log);
    for (; hidden && *hidden; hidden++) {
        assert_contains(err, *hidden);
    }
    if (!hidden) {
        assert_null(strstr(err, "cannot see"));
    }
    free(err);
    return all;
}

static json_t *examine_with(struct fixture *fx, const char *amqp_url, const char *const *env)
{
    return examine_as(fx, amqp_url, env, NULL);
}

static json_t *examine(struct fixture *fx, const char *amqp_url)
{
    return examine_with(fx, amqp_url, NULL);
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
    {"SELECT 1", "plan", "plan of the poll reads the whole table"},
    {"CREATE INDEX task_order ON tenon.task (queue)", "plan", "another order"},
    {"ALTER TABLE tenon.task DROP CONSTRAINT task_pkey CASCADE", "plan", "plan of the claim"},
    {"ALTER TABLE tenon.task ADD CONSTRAINT task_pkey PRIMARY KEY (id)", "plan", "of the poll"},
    {"INSERT INTO tenon.migration (version, name, breaking) VALUES (9999, 'newer', false)",
     "versions", "9999"},
    {"CREATE INDEX mine ON tenon.task (worker_id)", "index", "mine names a column"},
    {"CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
     "CREATE TRIGGER t AFTER INSERT ON tenon.task FOR EACH ROW EXECUTE FUNCTION public.f()",
     "trigger", "DROP TRIGGER t"},
    {"CREATE TABLE public.orders (task bigint REFERENCES tenon.task)", "foreign key",
     "orders_task_fkey"},
    {"ALTER TABLE tenon.task SET (autovacuum_enabled = off)", "vacuum", "for tenon.task"},
    {"ALTER TABLE tenon.task_step SET (autovacuum_enabled = off)", "vacuum", "for tenon.task_step"},
    {"ALTER TABLE tenon.task SET (fillfactor = 100)", "fillfactor", "fillfactor = 43"},
    {"SELECT tenon.enqueue_many('z', array_fill('1'::jsonb, '{6000}')) FROM generate_series(1, 2);"
     "UPDATE tenon.task SET claims = claims + 1; DELETE FROM tenon.task",
     "updates", "updates of tenon.task were HOT"},
    {"DROP TABLE tenon.history_1", "partitions", "tenon.history has no partition"},
    {"SELECT tenon.make_partition('attempt', i) FROM generate_series(3, 100) i", "partitions",
     "tenon.attempt has 100 partitions"},
    {"GRANT SELECT ON tenon.task TO PUBLIC", "rights", "may SELECT tenon.task"},
    {"GRANT CREATE ON SCHEMA tenon TO PUBLIC", "rights", "create objects"},
    {"UPDATE tenon.home SET database = 1", "copy", "tenon adopt"},
    {"SELECT 1", "cleaner", "no cleaner leads"},
    {"SELECT 1", "workers", "no worker is alive"},
    {"INSERT INTO tenon.worker (host, pid, slots, queues, kinds, backing_off)"
     " VALUES ('h', 1, 1, '{default}', '{a}', 'a: no such file')",
     "workers", "no longer holds its lock"},
    {"SELECT 1", "handler", "a: no such file"},
    {"SELECT tenon.enqueue('b')", "unhandled", "a due task of kind b in queue default: no worker"},
    {"SELECT tenon.enqueue('a'); UPDATE tenon.task SET run_at = now() - interval '1 hour'"
     " WHERE kind = 'a'",
     "latency", "of kind a in queue default has waited for 01:00"},
    {"SELECT tenon.enqueue('c'); SELECT tenon.pause(kind => 'c')", "paused", "kind c"},
    {"INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims, failures,"
     " crashes, max_attempts, priority, reason, queue, kind, payload, last_error) VALUES (now(),"
     " 1000, now(), now(), 1000, 1, 1, 0, 1, 4, 'failures', 'default', 'a', '{}', 'Timeout: x')",
     "dead tasks", "a task of kind a is dead, last: Timeout: x"},
    {"SELECT tenon.set_schedule('nightly', every => '1 h', kind => 'a');"
     " UPDATE tenon.schedule SET due_at = now() - interval '1 day'",
     "schedule", "nightly"},
    {"SELECT tenon.publish('orders', 'paid', 'x'); UPDATE tenon.message SET failed_at = now(),"
     " error = 'no queue got it'",
     "outbox", "a message for the exchange orders with the routing key paid"},
    {"SELECT 1", "outbox", "then run: tenon outbox retry --exchange orders;"},
    {"UPDATE tenon.message SET retry_at = now() + interval '1 min'", "outbox", "by itself"},
    {"UPDATE tenon.message SET failed_at = NULL, retry_at = NULL,"
     " created_at = now() - interval '1 h'",
     "outbox", "a message waits for RabbitMQ, the oldest for 01:00"},
    {"SELECT tenon.intake_note('h', 7, '1', 0, '[{\"queue\": \"orders\", \"is_stream\": false,"
     " \"taken\": 9, \"repeated\": 0, \"rejected\": 3, \"kept\": 0, \"unkeyed\": 1,"
     " \"error\": \"no queue\"}]')",
     "intake", "has rejected 3 messages of the queue orders, the last at "},
    {"SELECT 1", "intake", "a message of the queue orders became a task without a key"},
    {"UPDATE tenon.intake SET error_since = now() - interval '40 s', rejected_at = NULL,"
     " unkeyed_at = NULL",
     "intake", "on h, pid 7, has taken no messages from orders since 2"},
    {"UPDATE tenon.intake SET seen_at = now() - interval '2 min'", "intake",
     "on h, pid 7, which takes messages from orders, has not reported for 00:02"},
};

static void test_each_misconfiguration_is_named(void **state)
{
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        test_sql(fx, planted[i].sql, fx->database);
        test_flush_statistics(fx);
        json_t *all = examine(fx, "none");
        if (!names(all, planted[i].subject, planted[i].words)) {
            fail_msg("%s: %s \"%s\" is not named: %s", planted[i].sql, planted[i].subject,
                     planted[i].words, json_dumps(all, JSON_INDENT(1)));
        }
        json_decref(all);
    }
}

/* Does the statement name this, with these limits? */
static bool finds(struct fixture *fx, const struct statement *st, const char *const *params, int n,
                  const char *subject, const char *words)
{
    bool found = false;
    PGresult *result = statement_run(fx->conn, st, params, n);
    for (int i = 0; i < PQntuples(result); i++) {
        found = found || (strcmp(PQgetvalue(result, i, 1), subject) == 0 &&
                          strstr(PQgetvalue(result, i, 2), words));
    }
    PQclear(result);
    return found;
}

/* An idle transaction is a finding when it is old; here, at once. */
static void test_old_transactions(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    const char *const none[] = {"0", "1000000", "140000"}, *const old[] = {"300", "1000000",
                                                                           "140000"};
    assert_true(finds(fx, &sql_doctor_server, none, 3, "old transaction", "held a snapshot"));
    assert_false(finds(fx, &sql_doctor_server, old, 3, "old transaction", ""));
    PQfinish(other);
}

static void test_a_server_that_is_too_old(void **state)
{
    struct fixture *fx = *state;
    const char *const far[] = {"300", "1000000", "990000"};
    assert_true(finds(fx, &sql_doctor_server, far, 3, "versions", "older than 99"));
}

/* It leads, and its main loop does not move. */
static void test_a_wedged_cleaner(void **state)
{
    struct fixture *fx = *state;
    const char *const silent[] = {"1", "1000", "1000"};
    struct process *cleaner = TENON(fx, "cleaner", "--amqp-url", "none");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    process_signal(cleaner, SIGSTOP);
    test_await(fx, LIMIT_MS,
               "SELECT a.state_change < clock_timestamp() - interval '1 s' FROM tenon.setting s"
               " JOIN tenon.lock k ON k.key = s.leader_key JOIN pg_stat_activity a USING (pid)");
    assert_true(finds(fx, &sql_doctor_fleet, silent, 3, "cleaner", "has sent no query for"));
    process_signal(cleaner, SIGCONT);
    end_well(cleaner);
}

static void test_clocks_that_differ(void **state)
{
    struct fixture *fx = *state;
    char asan[300], preload[300];
    const char *options = getenv("ASAN_OPTIONS");
    (void)snprintf(asan, sizeof asan, "ASAN_OPTIONS=%s:verify_asan_link_order=0",
                   options ? options : "");
    preload_variable(fx, PRELOAD, preload, sizeof preload);
    const char *const env[] = {asan, preload, "TEST_CLOCK_MS=-90000", NULL};
    json_t *all = examine_with(fx, "none", env);
    assert_true(names(all, "clock", "differ by "));
    json_decref(all);
    all = examine(fx, "none");
    assert_false(names(all, "clock", ""));
    json_decref(all);
}

/* Take each right in the schema from the role, see whether that is named, give it back. */
static void each_revoked(struct fixture *fx, const char *role)
{
    char *all = test_sql_text(
        fx,
        "SELECT string_agg(r, ';') FROM ("
        "SELECT format('REVOKE %%s ON %%s FROM %1$s', g.privilege_type, c.oid::regclass)"
        " FROM pg_class c, aclexplode(c.relacl) g WHERE c.relnamespace = 'tenon'::regnamespace"
        " AND g.grantee = '%1$s'::regrole UNION ALL"
        " SELECT format('REVOKE %%s (%%I) ON %%s FROM %1$s', g.privilege_type, a.attname,"
        " c.oid::regclass) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid,"
        " aclexplode(a.attacl) g WHERE c.relnamespace = 'tenon'::regnamespace"
        " AND g.grantee = '%1$s'::regrole UNION ALL"
        " SELECT format('REVOKE EXECUTE ON FUNCTION %%s FROM %1$s', p.oid::regprocedure)"
        " FROM pg_proc p, aclexplode(p.proacl) g WHERE p.pronamespace = 'tenon'::regnamespace"
        " AND g.grantee = '%1$s'::regrole UNION ALL"
        " SELECT 'REVOKE USAGE ON SCHEMA tenon FROM %1$s') q (r)",
        role);
    int n = 0;
    for (char *rest = NULL, *one = strtok_r(all, ";", &rest); one;
         one = strtok_r(NULL, ";", &rest)) {
        test_sql(fx, "SAVEPOINT s; %s", one);
        if (!finds(fx, &sql_doctor_rights, NULL, 0, "rights", role)) {
            fail_msg("%s is not named", one);
        }
        test_sql(fx, "ROLLBACK TO s");
        n++;
    }
    assert_true(n > 20);
    free(all);
}

/* The rights of a part one by one: each that is missing is named, and no other role is blamed. */
static void test_each_right_that_is_missing(void **state)
{
    static const char *const parts[] = {"worker", "cleaner"}, *const others[] = {"reader",
                                                                                 "operator",
                                                                                 "producer"};
    struct fixture *fx = *state;
    char role[100];
    test_sql(fx, "BEGIN");
    for (int i = 0; i < 3; i++) {
        test_sql(fx, "CREATE ROLE %s_%s; SELECT tenon.grant_%s('%s_%s')", fx->database, others[i],
                 others[i], fx->database, others[i]);
    }
    for (int i = 0; i < 2; i++) {
        (void)snprintf(role, sizeof role, "%s_%s", fx->database, parts[i]);
        test_sql(fx, "CREATE ROLE %s; SELECT tenon.grant_%s('%s')", role, parts[i], role);
        assert_false(finds(fx, &sql_doctor_rights, NULL, 0, "rights", ""));
        each_revoked(fx, role);
    }
    test_sql(fx, "ALTER TABLE tenon.kind OWNER TO %s", role);
    assert_true(finds(fx, &sql_doctor_rights, NULL, 0, "owner", "tenon.kind belongs to"));
    test_sql(fx, "ROLLBACK");
}

/* What PostgreSQL hides from it, it says that it cannot see: others' sessions, and plans, which
 * EXPLAIN shows to those who may run what it explains. */
static void test_a_reader(void **state)
{
    struct fixture *fx = *state;
    char role[100], options[140];
    (void)snprintf(role, sizeof role, "%s_reader", fx->database);
    (void)snprintf(options, sizeof options, "PGOPTIONS=-c role=%s", role);
    const char *const env[] = {options, NULL};
    const char *const sessions[] = {"cannot see old transactions", "GRANT pg_read_all_stats TO",
                                    role, NULL};
    const char *const both[] = {sessions[0], "cannot see the plans of claim and poll", NULL};
    test_sql(fx, "CREATE ROLE %s; SELECT tenon.grant_reader('%s')", role, role);
    test_sql(fx, "DROP INDEX tenon.task_order");
    json_t *all = examine_as(fx, "none", env, both);
    assert_true(names(all, "index", "task_order is missing"));
    assert_true(names(all, "cleaner", "no cleaner leads"));
    assert_false(names(all, "plan", ""));
    json_decref(all);
    test_sql(fx, "SELECT tenon.grant_worker('%s')", role);
    all = examine_as(fx, "none", env, sessions);
    assert_true(names(all, "plan", "plan of the poll"));
    json_decref(all);
    test_sql(fx, "GRANT pg_read_all_stats TO %s", role);
    json_decref(examine_with(fx, "none", env));
    test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role, role);
}

static void test_what_rabbitmq_lacks(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    broker_delete_exchange(b);
    broker_close(b);
    json_t *all = examine(fx, fx->amqp_url);
    assert_true(names(all, "topology", "the exchange tenon is missing"));
    json_decref(all);
    all = examine(fx, fx->amqp_url); /* it has made nothing */
    assert_true(names(all, "topology", "the exchange tenon is missing"));
    json_decref(all);
    declare(fx);
    struct process *worker = TENON(fx, "worker", "--amqp-url", "none", "--handler", "b=true");
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    test_sql(fx, "UPDATE tenon.worker SET started_at = now() - interval '1 min'");
    all = examine(fx, fx->amqp_url);
    assert_true(names(all, "topology", "the queue tenon.default/b is missing"));
    json_decref(all);
    end_well(worker);
}

/* Behind the name of a property stand its type, S, and four bytes of length. The real version but
 * for its first three bytes: 3.12.1 becomes 3.02.1, and 4.1.2 3.0.2. */
static void test_a_rabbitmq_that_is_too_old(void **state)
{
    struct fixture *fx = *state;
    struct proxy proxy;
    proxy_open(&proxy, fx->amqp_url);
    json_t *all = examine(fx, proxy.url);
    assert_false(names(all, "versions", ""));
    json_decref(all);
    proxy_overwrite(&proxy, PROXY_TO_CLIENT, "\aversionS", 4, "3.0");
    all = examine(fx, proxy.url);
    assert_true(names(all, "versions", "RabbitMQ 3.0"));
    assert_true(names(all, "versions", "is older than 3.10, the oldest that is tested"));
    assert_true(names(all, "versions", "upgrade it"));
    json_decref(all);
    proxy_close(&proxy);
}

static void test_a_connection_that_is_not_encrypted(void **state)
{
    struct fixture *fx = *state;
    json_t *all = examine(fx, "amqp://guest:guest@broker.invalid/");
    assert_true(names(all, "encryption", "RabbitMQ not encrypted"));
    json_decref(all);
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
        WITH_DATABASE(test_a_server_that_is_too_old),
        WITH_DATABASE(test_a_wedged_cleaner),
        WITH_DATABASE(test_clocks_that_differ),
        WITH_DATABASE(test_each_right_that_is_missing),
        WITH_DATABASE(test_a_reader),
        WITH_SERVERS(test_what_rabbitmq_lacks),
        WITH_SERVERS(test_a_rabbitmq_that_is_too_old),
        WITH_DATABASE(test_a_connection_that_is_not_encrypted),
        WITH_DATABASE(test_rabbitmq_that_is_away),
        WITH_DATABASE(test_a_fleet_that_is_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
