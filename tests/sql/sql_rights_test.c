/* label: sql */
/* Strangers in the same database: what one producer can do to the tasks of another, and what no
 * argument may do to the rest. Each role logs in as itself. */
#include "tests/support/held.h"

#include <stdio.h>

static char role_of[2][80];

/* Two producers, not superusers, and a session of each. */
static void two_roles(struct fixture *fx, PGconn *ret[2])
{
    for (int i = 0; i < 2; i++) {
        (void)snprintf(role_of[i], sizeof role_of[i], "%s_%c", fx->database, 'a' + i);
        test_sql(fx, "CREATE ROLE %s", role_of[i]);
        test_sql(fx, "SELECT tenon.grant_producer('%s')", role_of[i]);
        ret[i] = sql_connect(fx->database_url);
        sql_run(ret[i], "SET SESSION AUTHORIZATION %s", role_of[i]);
    }
}

static void no_roles(struct fixture *fx, PGconn *conns[2])
{
    for (int i = 0; i < 2; i++) {
        PQfinish(conns[i]);
        test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role_of[i], role_of[i]);
    }
}

static void confine(struct fixture *fx, int role, const char *how)
{
    test_sql(fx, "SELECT tenon.grant_producer('%s'%s)", role_of[role], how);
}

#define MAY_NOT(conn, what, ...) sql_fails(conn, "42501", what, "SELECT tenon." __VA_ARGS__)

static void test_a_producer_may_be_confined_to_kinds(void **state)
{
    struct fixture *fx = *state;
    PGconn *conns[2];
    two_roles(fx, conns);
    confine(fx, 0, ", kinds => '{mail,sms}'");
    assert_true(sql_int(conns[0], "SELECT tenon.enqueue('mail', queue => 'any')") > 0);
    assert_true(sql_bool(conns[0], "SELECT cardinality(tenon.enqueue_many('sms', '{1,2}')) = 2"));
    MAY_NOT(conns[0], "may not enqueue kind pay to queue default", "enqueue('pay')");
    MAY_NOT(conns[0], "may not enqueue kind pay", "enqueue_routed('pay', unique_key => 'k')");
    MAY_NOT(conns[0], "may not enqueue kind pay", "enqueue_many('pay', '{1}')");
    MAY_NOT(conns[0], "may not enqueue kind pay",
            "enqueue_many('pay', '{1}', unique_keys => '{k}')");
    assert_true(sql_int(conns[1], "SELECT tenon.enqueue('pay')") > 0);
    confine(fx, 0, "");
    assert_true(sql_int(conns[0], "SELECT tenon.enqueue('pay')") > 0);
    no_roles(fx, conns);
}

/* Where the kind says which queue, that one counts. */
static void test_a_producer_may_be_confined_to_queues(void **state)
{
    struct fixture *fx = *state;
    PGconn *conns[2];
    two_roles(fx, conns);
    test_sql(fx, "INSERT INTO tenon.kind (name, queue) VALUES ('pay', 'money')");
    confine(fx, 0, ", queues => '{default}'");
    assert_true(sql_int(conns[0], "SELECT tenon.enqueue('mail')") > 0);
    assert_true(sql_int(conns[0], "SELECT tenon.enqueue('pay', queue => 'default')") > 0);
    MAY_NOT(conns[0], "may not enqueue kind pay to queue money", "enqueue('pay')");
    MAY_NOT(conns[0], "kind mail to queue money", "enqueue('mail', queue => 'money')");
    no_roles(fx, conns);
}

/* A member is confined as its group is, whatever role it takes on. */
static void test_members_are_confined(void **state)
{
    struct fixture *fx = *state;
    PGconn *conns[2];
    two_roles(fx, conns);
    confine(fx, 0, ", kinds => '{mail}'");
    test_sql(fx, "GRANT %s TO %s", role_of[0], role_of[1]);
    MAY_NOT(conns[1], "may not enqueue kind pay", "enqueue('pay')");
    sql_run(conns[1], "SET ROLE %s", role_of[0]);
    MAY_NOT(conns[1], "may not enqueue kind pay", "enqueue('pay')");
    confine(fx, 1, ", kinds => '{pay}'"); /* of several rows one must allow it */
    assert_true(sql_int(conns[1], "SELECT tenon.enqueue('pay')") > 0);
    no_roles(fx, conns);
}

static void test_cancel_is_for_ones_own_tasks(void **state)
{
    struct fixture *fx = *state;
    PGconn *conns[2];
    two_roles(fx, conns);
    long long a = sql_int(conns[0], "SELECT tenon.enqueue('mail')");
    long long b = sql_int(conns[0], "SELECT tenon.enqueue('mail')");
    MAY_NOT(conns[1], "permission denied for task|cancel_own_only", "cancel(%lld)", a);
    assert_state(fx, a, "ready");
    assert_true(sql_bool(conns[0], "SELECT tenon.cancel(%lld)", a));
    assert_false(sql_bool(conns[1], "SELECT tenon.cancel(%lld)", a));
    test_sql(fx, "UPDATE tenon.setting SET cancel_own_only = false");
    assert_true(sql_bool(conns[1], "SELECT tenon.cancel(%lld)", b));
    long long c = sql_int(conns[0], "SELECT tenon.enqueue('mail')");
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", c));
    char *by = test_sql_text(fx, "SELECT DISTINCT enqueued_by FROM tenon.tasks");
    assert_string_equal(by, role_of[0]);
    free(by);
    no_roles(fx, conns);
}

/* Whatever the setting says; and what it may not cancel it does not lock, nor change under its
 * unique key. */
static void test_a_confined_producer_cancels_its_own_tasks(void **state)
{
    struct fixture *fx = *state;
    PGconn *conns[2];
    two_roles(fx, conns);
    confine(fx, 0, ", kinds => '{mail}'");
    test_sql(fx, "UPDATE tenon.setting SET cancel_own_only = false");
    long long theirs = sql_int(conns[1], "SELECT tenon.enqueue('mail', '1', unique_key => 'k')");
    long long own = sql_int(conns[0], "SELECT tenon.enqueue('mail')");
    sql_run(conns[0], "BEGIN; SAVEPOINT s");
    MAY_NOT(conns[0], "permission denied for task|cancel_own_only|confined", "cancel(%lld)",
            theirs);
    sql_run(conns[0], "ROLLBACK TO s");
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM (SELECT FROM tenon.task WHERE id = %lld"
                                  " FOR UPDATE SKIP LOCKED) t",
                                  theirs),
                     1);
    sql_run(conns[0], "COMMIT; SELECT tenon.enqueue('mail', '2', unique_key => 'k',"
                      " on_conflict => 'replace')");
    assert_true(test_sql_bool(fx, "SELECT payload = '1' FROM tenon.task WHERE id = %lld", theirs));
    assert_true(sql_bool(conns[0], "SELECT tenon.cancel(%lld)", own));
    assert_true(sql_bool(conns[1], "SELECT tenon.cancel(%lld)", theirs)); /* not confined */
    no_roles(fx, conns);
}

/* --- what each part may --- */

enum {
    STRANGER = 1,
    PRODUCER = 2,
    READER = 4,
    OPERATOR = 8,
    WORKER = 16,
    CLEANER = 32,
    PUBLISHER = 64,
    INTAKE = 128,
    PARTS = 8
};

static const struct {
    const char *sql;
    int who; /* may run it */
} acts[] = {
    {"SELECT tenon.enqueue('a')", PRODUCER | OPERATOR},
    {"SELECT id FROM tenon.enqueue_routed('a')", PRODUCER | OPERATOR},
    {"SELECT tenon.enqueue_many('a', '{1}')", PRODUCER | OPERATOR},
    {"SELECT * FROM tenon.route_of('a')", PRODUCER | OPERATOR},
    {"SELECT * FROM tenon.mine()", PRODUCER | OPERATOR},
    {"SELECT tenon.cancel(0)", PRODUCER | OPERATOR},
    {"SELECT tenon.finish('0/0/0000000000000000')", PRODUCER},
    {"SELECT tenon.finish_many('{0/0/0000000000000000}', '{1}')", PRODUCER},
    {"SELECT tenon.progress('0/0/0000000000000000', '1')", PRODUCER},
    {"SELECT tenon.log_message('0/0/0000000000000000', 'line')", PRODUCER},
    {"SELECT message FROM tenon.log_line", READER | OPERATOR},
    {"INSERT INTO tenon.log_line (task_id, attempt, level, message) VALUES (1, 1, 'info', 'x')",
     WORKER},
    {"UPDATE tenon.log_line SET message = ''", 0},
    {"DELETE FROM tenon.log_line", 0},
    {"SELECT tenon.extend('0/0/0000000000000000', '1 s')", PRODUCER},
    {"SELECT tenon.step('0/0/0000000000000000', 's')", PRODUCER},
    {"SELECT tenon.steps('0/0/0000000000000000')", PRODUCER},
    {"SELECT tenon.wait_signal('0/0/0000000000000000', 's')", PRODUCER},
    {"SELECT tenon.signal('s')", PRODUCER | OPERATOR},
    {"SELECT tenon.result(0), tenon.await(0)", PRODUCER | READER | OPERATOR},
    {"SELECT tenon.take_limit('l')", PRODUCER | OPERATOR},
    {"SELECT tenon.set_limit('l', 1)", OPERATOR},
    {"SELECT tenon.remove_limit('l')", OPERATOR},
    {"SELECT tenon.pause_limit('l')", OPERATOR},
    {"SELECT tenon.resume_limit('l')", OPERATOR},
    {"SELECT tenon.adopt()", OPERATOR},
    {"SELECT tenon.copied()", READER | OPERATOR | WORKER | CLEANER | INTAKE},
    {"SELECT tenon.why(0)", READER | OPERATOR},
    {"SELECT tenon.demand('q')", READER | OPERATOR},
    {"SELECT tenon.record_steps('{1}', '{1}', '{x}')", WORKER},
    {"SELECT tenon.steps_of(0)", WORKER},
    {"SELECT tenon.put_step(0, 's', '1')", 0},
    {"SELECT value FROM tenon.task_step", READER | OPERATOR},
    {"DELETE FROM tenon.task_step", 0},
    {"SELECT tenon.settle_all(1, 1, 0)", CLEANER},
    {"SELECT name, max_running FROM tenon.limit", READER | OPERATOR | CLEANER},
    {"SELECT weight FROM tenon.limit", READER | OPERATOR},
    {"INSERT INTO tenon.limit (name, max_running) VALUES ('l', 1)", 0},
    {"SELECT keys FROM tenon.limit_event", READER | OPERATOR},
    {"INSERT INTO tenon.limit_event (keys) VALUES ('{l}')", 0},
    {"SELECT payload FROM tenon.signal", READER | OPERATOR},
    {"INSERT INTO tenon.signal (name, payload) VALUES ('s', '1')", 0},
    {"SELECT until FROM tenon.waiting", READER | OPERATOR | CLEANER},
    {"DELETE FROM tenon.waiting", 0},
    {"SELECT * FROM tenon.home", READER | OPERATOR},
    {"DELETE FROM tenon.home", 0},
    {"SELECT * FROM tenon.settler", READER | OPERATOR},
    {"SELECT * FROM tenon.settler FOR UPDATE", 0},
    {"SELECT tenon.results_kept('{1}')", 0},
    {"SELECT version FROM tenon.migration",
     PRODUCER | READER | OPERATOR | WORKER | CLEANER | PUBLISHER | INTAKE},
    {"SELECT payload FROM tenon.tasks", READER | OPERATOR},
    {"SELECT payload FROM tenon.ready", READER | OPERATOR},
    {"SELECT tenon.queue_names(1)", READER | OPERATOR | CLEANER},
    {"SELECT tenon.queue_depth(1, 1)", READER | OPERATOR | CLEANER},
    {"SELECT tenon.count_depth(), tenon.oldest_transaction_ms()", CLEANER},
    {"SELECT ready FROM tenon.depth, tenon.depth_count", READER | OPERATOR | CLEANER},
    {"SELECT id, queue, kind, start_time, finished_at FROM tenon.history", READER | OPERATOR},
    {"INSERT INTO tenon.minute VALUES (now(), 'q', 'a', gen_random_uuid()) ON CONFLICT DO NOTHING",
     WORKER},
    {"SELECT done FROM tenon.minute", READER | OPERATOR | WORKER},
    {"SELECT tenon.fold_minutes()", CLEANER},
    {"SELECT tenon.add_counts('{1}', '{}')", WORKER},
    {"SELECT queue, kind, dead_at FROM tenon.dead", READER | OPERATOR | CLEANER},
    {"SELECT key, state FROM tenon.limit_task", READER | OPERATOR | CLEANER},
    {"SELECT task_id FROM tenon.limit_task", READER | OPERATOR},
    {"SELECT payload FROM tenon.task", READER | OPERATOR | WORKER | CLEANER},
    {"SELECT payload FROM tenon.history", READER | OPERATOR},
    {"SELECT payload FROM tenon.dead", READER | OPERATOR},
    {"SELECT id, claims, worker_id, outcome FROM tenon.history", READER | OPERATOR | WORKER},
    {"SELECT id FROM tenon.dead", READER | OPERATOR | WORKER},
    {"SELECT result FROM tenon.history", READER | OPERATOR},
    {"SELECT error FROM tenon.attempt", READER | OPERATOR},
    {"SELECT payload FROM tenon.again", READER | OPERATOR},
    {"SELECT tenon.flow('x')", PRODUCER | OPERATOR},
    {"SELECT tenon.flow('{\"tasks\": [{\"kind\": \"a\"}]}'::jsonb)", PRODUCER | OPERATOR},
    {"SELECT tenon.close(tenon.batch(on_end => 'a'))", PRODUCER | OPERATOR},
    {"SELECT tenon.cancel_flow(tenon.flow())", PRODUCER | OPERATOR},
    {"SELECT * FROM tenon.parent_results('0/0/0000000000000000')", PRODUCER | OPERATOR},
    {"SELECT payload FROM tenon.flows", READER | OPERATOR},
    {"SELECT result FROM tenon.flow_task", READER | OPERATOR},
    {"UPDATE tenon.flow SET made_by = 'x'", 0},
    {"INSERT INTO tenon.flow_note (flow) VALUES (1)", 0},
    {"DELETE FROM tenon.flow_wait", 0},
    {"SELECT tenon.unblock('{1}')", 0},
    {"SELECT tenon.settle_flows(1, 0)", 0},
    {"SELECT tenon.settle()", CLEANER},
    {"SELECT tenon.purge(1)", CLEANER},
    {"DELETE FROM tenon.unique_hold", 0},
    {"INSERT INTO tenon.attempt (task_id) VALUES (1)", 0},
    {"SELECT * FROM tenon.worker", READER | OPERATOR | WORKER | CLEANER},
    {"SELECT * FROM tenon.setting", READER | OPERATOR | WORKER | CLEANER},
    {"SELECT * FROM tenon.audit", READER | OPERATOR},
    {"SELECT id, at FROM tenon.audit", READER | OPERATOR},
    {"DELETE FROM tenon.audit", 0},
    {"UPDATE tenon.audit SET who = 'x'", 0},
    {"INSERT INTO tenon.audit (act, what, n) VALUES ('x', '{}', 1)", 0},
    {"SELECT tenon.note_audit('x', '{}', 1)", 0},
    {"UPDATE tenon.setting SET audit_keep = '1 s'", 0},
    {"SELECT * FROM tenon.list()", PRODUCER | READER | OPERATOR},
    {"SELECT * FROM tenon.find('{}')", READER | OPERATOR},
    {"SELECT * FROM tenon.count_tasks()", PRODUCER | READER | OPERATOR},
    {"SELECT * FROM tenon.sync('{}')", OPERATOR},
    {"SELECT * FROM tenon.paused", READER | OPERATOR | WORKER | CLEANER},
    {"SELECT tenon.change('retry', '{\"kind\": \"a\"}')", OPERATOR},
    {"SELECT tenon.retry_where('{\"kind\": \"a\"}')", OPERATOR},
    {"SELECT tenon.undo_retry_where('{\"kind\": \"a\"}')", OPERATOR},
    {"SELECT tenon.cancel_where('{\"kind\": \"a\"}')", OPERATOR},
    {"SELECT tenon.delete_where('{\"kind\": \"a\"}')", OPERATOR},
    {"SELECT tenon.run_now_where('{\"kind\": \"a\"}')", OPERATOR},
    {"SELECT tenon.set_where('{\"kind\": \"a\"}', '{\"priority\": 1}')", OPERATOR},
    {"SELECT tenon.retry_ids('{1}', NULL)", 0},
    {"SELECT tenon.undo_ids('{1}')", 0},
    {"SELECT tenon.delete_ids('{1}')", 0},
    {"SELECT tenon.cancel_ids('{1}')", 0},
    {"SELECT tenon.pause('mail')", OPERATOR},
    {"SELECT tenon.resume('mail')", OPERATOR},
    {"SELECT tenon.drain(gen_random_uuid())", OPERATOR},
    {"SELECT tenon.set_queue('mail', priority => 1)", OPERATOR},
    {"SELECT tenon.set_kind('mail', priority => 1)", OPERATOR},
    {"SELECT tenon.paused_kinds('{a}')", WORKER},
    {"SELECT tenon.publish('x', 'k', '1'::jsonb)", PUBLISHER},
    {"SELECT tenon.publish_many('x', 'k', ARRAY['a'])", PUBLISHER},
    {"SELECT * FROM tenon.mine_published()", PUBLISHER},
    {"SELECT body FROM tenon.outbox", READER | OPERATOR},
    {"SELECT m.body FROM tenon.message m, tenon.message_sent", READER | OPERATOR},
    {"INSERT INTO tenon.message (body) VALUES ('')", 0},
    {"UPDATE tenon.message SET held = false", 0},
    {"DELETE FROM tenon.message", 0},
    {"SELECT exchanges FROM tenon.publisher", READER | OPERATOR},
    {"DELETE FROM tenon.publisher", 0},
    {"UPDATE tenon.relay SET token = 1", 0},
    {"SELECT tenon.retry_messages('{1}')", OPERATOR},
    {"SELECT tenon.delete_messages('{1}')", OPERATOR},
    {"SELECT tenon.replay_messages(now())", OPERATOR},
    {"SELECT tenon.once('c', 'm')", PRODUCER},
    {"DELETE FROM tenon.seen", 0},
    {"SELECT * FROM tenon.intake_begin('q')", INTAKE},
    {"SELECT * FROM tenon.take_in('q', '{k}', '{a}', '{1}', '{NULL}', NULL, NULL, NULL, NULL)",
     INTAKE},
    {"SELECT tenon.intake_note('h', 1, 'v', 0, '[]')", INTAKE},
    {"SELECT taken, error FROM tenon.intake", READER | OPERATOR},
    {"DELETE FROM tenon.intake", 0},
    {"SELECT next_offset FROM tenon.stream_place", READER | OPERATOR},
    {"DELETE FROM tenon.stream_place", 0},
    {"SELECT tenon.relay_begin()", CLEANER},
    {"SELECT tenon.newest_message(0), tenon.messages_wait()", CLEANER},
    {"SELECT tenon.grant_publisher('public')", 0},
    {"SELECT tenon.grant_parts('{reader}', 'public')", 0},
    {"SELECT last_value FROM tenon.task_id_seq", CLEANER},
    {"SELECT nextval('tenon.task_id_seq')", 0},
    {"SELECT * FROM tenon.producer", READER | OPERATOR},
    {"SELECT * FROM tenon.schedules", READER | OPERATOR},
    {"SELECT due_at FROM tenon.schedule", READER | OPERATOR | CLEANER},
    {"SELECT payload FROM tenon.schedule", READER | OPERATOR},
    {"UPDATE tenon.schedule SET due_at = now()", 0},
    {"SELECT tenon.next_tick('@daily')", READER | OPERATOR},
    {"SELECT tenon.set_schedule('s', '@daily', kind => 'a')", OPERATOR},
    {"SELECT tenon.remove_schedule('s')", OPERATOR},
    {"SELECT tenon.pause_schedule('s'), tenon.resume_schedule('s')", OPERATOR},
    {"SELECT tenon.run_schedule_now('s')", OPERATOR},
    {"SELECT tenon.sync_schedules('f', '[]')", OPERATOR},
    {"SELECT * FROM tenon.run_schedules()", CLEANER},
    {"SELECT * FROM tenon.run_schedules_at(now())", 0},
    {"INSERT INTO tenon.queue (name) VALUES ('q')", 0},
    {"UPDATE tenon.queue SET priority = 9", 0},
    {"UPDATE tenon.paused SET paused_by = 'x'", 0},
    {"DELETE FROM tenon.paused", 0},
    {"DELETE FROM tenon.kind", 0},
    {"UPDATE tenon.setting SET payload_bytes_max = 1000", 0},
    {"SELECT tenon.set_settings('{\"payload_bytes_max\": 1000}')", OPERATOR},
    {"UPDATE tenon.setting SET leader_key = 1", CLEANER},
    {"SELECT * FROM tenon.lock", READER | OPERATOR | CLEANER},
    {"SELECT tenon.random_key()", WORKER | CLEANER},
    {"DELETE FROM tenon.dead", 0},
    {"UPDATE tenon.producer SET kinds = NULL", 0},
    {"DELETE FROM tenon.producer", 0},
    {"SELECT * FROM tenon.task FOR UPDATE", WORKER | CLEANER},
    {"DELETE FROM tenon.task", WORKER},
    {"UPDATE tenon.task SET claims = 1", WORKER},
    {"UPDATE tenon.task SET payload = '{}'", 0},
    {"UPDATE tenon.task SET kind = 'a', queue = 'a'", 0},
    {"UPDATE tenon.task SET enqueued_by = 'x'", 0},
    {"UPDATE tenon.task SET progress = '1', timeout_ms = 1", WORKER},
    {"UPDATE tenon.task SET start_time = now(), claim_key = id, worker_id = gen_random_uuid()",
     WORKER},
    {"SELECT * FROM tenon.requeue('{1}', '{1}', '{dead}', '{x}', '{1}')", WORKER},
    {"SELECT * FROM tenon.recover('{1}', '{1}', '{dead}', '{x}')", CLEANER},
    {"SELECT tenon.make_partitions()", WORKER | CLEANER},
    {"SELECT tenon.drop_history()", CLEANER},
    {"INSERT INTO tenon.worker (host, pid, slots, queues, kinds) VALUES ('h', 1, 1, '{}', '{}')",
     WORKER},
    {"UPDATE tenon.worker SET state = 'left'", WORKER | CLEANER},
    {"UPDATE tenon.worker SET host = 'h'", 0},
    {"UPDATE tenon.worker SET backing_off = 'a: b', starting = 'a: 1 b'", WORKER},
    {"DELETE FROM tenon.worker", CLEANER},
    {"INSERT INTO tenon.task (run_at) VALUES (now())", 0},
    {"UPDATE tenon.history SET outcome = 'done'", 0},
    {"DELETE FROM tenon.history", 0},
    {"UPDATE tenon.dead SET reason = 'crashes'", 0},
    {"TRUNCATE tenon.task", 0},
    {"UPDATE tenon.migration SET version = 1", 0},
    {"SELECT tenon.grant_producer('public')", 0},
    {"SELECT tenon.grant_worker('public')", 0},
    {"SELECT tenon.grant_cleaner('public')", 0},
    {"CREATE TABLE tenon.mine (n integer)", 0},
    {"CREATE FUNCTION tenon.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'", 0},
    {"DROP TABLE tenon.history", 0},
    {"CREATE INDEX mine ON tenon.task (kind)", 0},
};

/* By trying all else. */
static void test_each_part_has_the_least_rights(void **state)
{
    static const char *const grants[PARTS] = {NULL,     "producer", "reader",    "operator",
                                              "worker", "cleaner",  "publisher", "intake"};
    struct fixture *fx = *state;
    for (int part = 0; part < PARTS; part++) {
        test_sql(fx, "CREATE ROLE %s_p", fx->database);
        if (grants[part]) {
            test_sql(fx, "SELECT tenon.grant_%s('%s_p')", grants[part], fx->database);
        }
        PGconn *conn = sql_connect(fx->database_url);
        sql_run(conn, "SET SESSION AUTHORIZATION %s_p", fx->database);
        for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
            sql_run(conn, "BEGIN");
            PGresult *result = PQexec(conn, acts[i].sql);
            const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
            bool refused = code && strcmp(code, "42501") == 0;
            if (refused == (bool)(acts[i].who & 1 << part) || (code && !refused)) {
                fail_msg("%s, %s: %s", grants[part] ? grants[part] : "stranger", acts[i].sql,
                         code ? PQresultErrorMessage(result) : "it may");
            }
            PQclear(result);
            sql_run(conn, "ROLLBACK");
        }
        PQfinish(conn);
        test_sql(fx, "DROP OWNED BY %s_p; DROP ROLE %s_p", fx->database, fx->database);
    }
}

/* --- what arguments may do --- */

/* A stranger's key of another kind neither tells nor blocks anything. */
static void test_unique_keys_are_per_kind(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    int64_t pay = test_sql_int(fx, "SELECT tenon.enqueue('pay', unique_key => 'k')");
    sql_run(other, "BEGIN");
    int64_t mail = sql_int(other, "SELECT tenon.enqueue('mail', unique_key => 'k')");
    assert_true(mail != pay);
    test_sql(fx, "SET lock_timeout = '5 s'");
    assert_true(test_sql_int(fx, "SELECT tenon.enqueue('sms', unique_key => 'k')") > mail);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.enqueue('pay', unique_key => 'k')"), pay);
    PQfinish(other);
}

/* A task that times out at once makes its worker end a child, and runs again and again. */
static void test_a_kind_has_a_least_timeout(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "INSERT INTO tenon.kind (name, timeout_min_ms) VALUES ('pay', 1000)");
    test_sql_fails(fx, "22023", "timeout 00:00:00.999|at least 1000 ms for pay",
                   "SELECT tenon.enqueue('pay', timeout => '999 ms')");
    test_sql_fails(fx, "22023", "at least 1000 ms",
                   "SELECT tenon.enqueue_many('pay', '{1}', timeout => '1 ms')");
    assert_true(test_sql_int(fx, "SELECT tenon.enqueue('pay', timeout => '1 s')") > 0);
    assert_true(test_sql_int(fx, "SELECT tenon.enqueue('mail', timeout => '1 ms')") > 0);
}

/* PostgreSQL compares with 360 days to the year and counts seconds with 365.25; and a time may lie
 * elsewhere than its seconds say. */
static void test_intervals_of_mixed_sign(void **state)
{
    struct fixture *fx = *state;
    assert_true(test_sql_bool(fx, "SELECT interval '-1 year 361 days' > '0'"));
    test_sql_fails(fx, "22023", "timeout -1 years",
                   "SELECT tenon.enqueue('a', timeout => '-1 year 361 days')");
    test_sql_fails(fx, "22023", "timeout 1 year",
                   "SELECT tenon.enqueue('a', timeout => '1 year -335 days')");
    test_sql_fails(fx, "22023", "delay -1 years",
                   "SELECT tenon.enqueue('a', delay => '-1 year 361 days')");
    test_sql_fails(fx, "22023", "delay 4000 years",
                   "SELECT tenon.enqueue('a', delay => '4000 years -1439990 days')");
    test_sql_fails(fx, "22023", "debounce_max -1 years",
                   "SELECT tenon.enqueue('a', unique_key => 'k', debounce => '5 s',"
                   " debounce_max => '-1 year 361 days')");
    test_sql_fails(fx, "22023", "debounce_max 300000 years|at most 365 days",
                   "SELECT tenon.enqueue('a', unique_key => 'k', debounce => '5 s',"
                   " debounce_max => '300000 years')");
    test_sql_fails(fx, "22023", "per -1 mons",
                   "SELECT tenon.set_limit('l', max_starts => 1, per => '-1 month 30 days 1 s')");
    static const char *const keeps[] = {"history_keep", "attempt_keep", "dead_keep",
                                        "signal_keep",  "audit_keep",   "once_keep"};
    for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++) {
        test_sql_fails(fx, "23514", keeps[i],
                       "UPDATE tenon.setting SET %s = '-1 month 30 days 25 h'", keeps[i]);
        test_sql_fails(
            fx, "23514", keeps[i],
            "UPDATE tenon.setting SET %s = '-80000000 days 1920000025 h'", // no timestamp
            keeps[i]);
        test_sql(fx, "UPDATE tenon.setting SET %s = '1 year'", keeps[i]);
    }
    test_sql(fx, "SELECT tenon.enqueue('a')");
    test_sql_fails(fx, "23514", "run_ms_check", "UPDATE tenon.task SET timeout_ms = -1");
}

/* What counts is their seconds: of which moment on does not matter. */
static void test_times_are_their_seconds(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', unique_key => 'k', unique_for => '-1 month 31 days',"
                 " debounce => '-1 month 30 days 60 s', debounce_max => '-100 days 2401 h')");
    assert_true(test_sql_bool(fx, "SELECT bool_and(run_at - created_at = '60 s') FROM tenon.task"));
    assert_true(test_sql_bool(fx, "SELECT bool_and(until - created_at = '24 h')"
                                  " FROM tenon.unique_hold, tenon.task"));
    test_sql(fx, "UPDATE tenon.task SET created_at = created_at - interval '59.5 min'");
    test_sql(fx, "SELECT tenon.enqueue('a', unique_key => 'k', debounce => '60 s',"
                 " debounce_max => '-100 days 2401 h')");
    assert_true(test_sql_bool(fx, "SELECT run_at - created_at = '1 h' FROM tenon.task"));
}

static void finish_with(struct fixture *fx, const char *result, const char *want)
{
    struct held c;
    char text[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, text);
    test_sql(fx, "SELECT tenon.finish('%s', (%s)::jsonb)", text, result);
    char *kept = test_sql_text(fx,
                               "SELECT left(result::text, 40) FROM tenon.history WHERE id = %lld",
                               (long long)c.id);
    assert_string_equal(kept, want);
    free(kept);
}

/* Little in the table, and more than pg_dump can read when it is printed. */
static void test_a_result_is_measured_as_text(void **state)
{
    static const char note[] = "\"tenon: the result was not kept, it is l";
    struct fixture *fx = *state;
    finish_with(fx, "'[1e3]'", "[1000]");
    finish_with(fx, "to_jsonb(repeat('x', 2097150))",
                "\""
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    finish_with(fx, "to_jsonb(repeat('x', 2097151))", note);
    finish_with(fx, "'[' || repeat('1e-16383,', 200) || '1]'", note);
    finish_with(fx, "'[' || repeat('1e-16383,', 70000) || '1]'", note);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_producer_may_be_confined_to_kinds),
        WITH_DATABASE(test_a_producer_may_be_confined_to_queues),
        WITH_DATABASE(test_members_are_confined),
        WITH_DATABASE(test_cancel_is_for_ones_own_tasks),
        WITH_DATABASE(test_a_confined_producer_cancels_its_own_tasks),
        WITH_DATABASE(test_each_part_has_the_least_rights),
        WITH_DATABASE(test_unique_keys_are_per_kind),
        WITH_DATABASE(test_a_kind_has_a_least_timeout),
        WITH_DATABASE(test_intervals_of_mixed_sign),
        WITH_DATABASE(test_times_are_their_seconds),
        WITH_DATABASE(test_a_result_is_measured_as_text),
    };
    return RUN_GROUP(tests);
}
