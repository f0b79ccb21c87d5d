/* label: sql */
/* Who may claim what: claim.sql, poll.sql, and the statements that publish, held against the view
 * tenon.ready. How far a poll reads: sql_poll_test. */
#include "tests/support/polls.h"

#include "cleaner/statements.h"
#include "core/base/buf.h"
#include "worker/statements.h"

#include <stdio.h>

/* How tasks are claimed. */
struct way {
    const char *name;
    const struct statement *st;
    int n_params;
};

static const struct way by_ids = {"claim", &sql_claim, 6};
static const struct way by_poll = {"poll", &sql_poll, POLL_PARAMS};
static const struct way *const all_ways[] = {&by_ids, &by_poll};
enum { WAYS = sizeof all_ways / sizeof *all_ways };

static int count_claimed(const PGresult *result)
{
    return PQnfields(result) > COLUMN_RANGE ? poll_claimed(result) : PQntuples(result);
}

/* One column of a result as "1,2,3", in the order in which the rows came; free(). */
static char *column(PGresult *result, int n)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0, rows = count_claimed(result); i < rows; i++) {
        buf_put_text(&b, i ? "," : "");
        buf_put_text(&b, PQgetvalue(result, i, n));
    }
    PQclear(result);
    char *text = strdup(buf_text(&b));
    buf_clear(&b);
    return text;
}

/* Claim in one of the ways: all ids, or up to `n`. */
static PGresult *claim(PGconn *conn, const struct way *way, const char *worker, const char *queues,
                       const char *kinds, const char *n)
{
    if (way == &by_poll) {
        return poll_run(conn, worker, queues, kinds, n);
    }
    char *ids = sql_text(conn,
                         "SELECT coalesce(array_agg(id), '{}') FROM (SELECT id"
                         " FROM tenon.task ORDER BY id LIMIT %s) t",
                         n);
    const char *const params[] = {worker, ids, queues, kinds, "16777216", ids};
    PGresult *result = statement_run(conn, way->st, params, way->n_params);
    free(ids);
    return result;
}

static int claimed(PGresult *result)
{
    int n = count_claimed(result);
    PQclear(result);
    return n;
}

/* Every kind of task there is: each state, each priority, paused and unpaused queues, two kinds. */
static void make_all_sorts(struct fixture *fx, const char *worker)
{
    test_sql(fx, "SELECT tenon.pause('stopped'), ('open', false)");
    test_sql(
        fx,
        "SELECT tenon.enqueue(k, queue => q, priority => p, delay => d)"
        " FROM unnest('{a,b,unknown}'::text[]) k, unnest('{default,open,stopped,other}'::text[]) q,"
        " generate_series(0, 9) p, unnest('{0, 1 h}'::interval[]) d");
    test_sql(fx,
             "UPDATE tenon.task SET start_time = now(), claim_key = id, worker_id = '%s',"
             " claims = 1 WHERE id %% 5 = 0",
             worker);
    test_sql(
        fx,
        "UPDATE tenon.task SET failures = 1, run_at = now() - interval '1 s' WHERE id %% 7 = 0");
    test_sql(fx, "SELECT tenon.cancel(id) FROM tenon.task WHERE id %% 11 = 0");
}

#define READY "SELECT string_agg(id::text, ',' ORDER BY id) FROM tenon.ready"

static void same_ids(struct fixture *fx, PGresult *result, const char *name, const char *where)
{
    char *got = column(result, 0);
    char *sorted = test_sql_text(
        fx, "SELECT string_agg(i, ',' ORDER BY i::bigint) FROM unnest('{%s}'::text[]) i", got);
    test_sql(fx, "ROLLBACK");
    char *want = test_sql_text(fx, READY " WHERE %s", where);
    assert_true(want && strlen(want) > 20);
    if (!sorted || strcmp(sorted, want) != 0) {
        fail_msg("%s: %s, but ready are %s", name, sorted ? sorted : "nothing", want);
    }
    free(got);
    free(sorted);
    free(want);
}

static void test_claims_take_what_is_ready(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    make_all_sorts(fx, worker);
    for (size_t i = 0; i < WAYS; i++) {
        test_sql(fx, "BEGIN");
        same_ids(fx,
                 claim(fx->conn, all_ways[i], worker, "{default,open,stopped}", "{a,b}", "1000"),
                 all_ways[i]->name,
                 "queue IN ('default', 'open', 'stopped') AND kind IN ('a', 'b')");
        test_sql(fx, "BEGIN");
        same_ids(fx, claim(fx->conn, all_ways[i], worker, "{other}", "{b}", "1000"),
                 all_ways[i]->name, "queue = 'other' AND kind = 'b'");
    }
}

static void test_publishers_take_what_is_ready(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    make_all_sorts(fx, worker);
    const char *const ready[] = {"1000"};
    test_sql(fx, "BEGIN");
    same_ids(fx, statement_run(fx->conn, &sql_ready, ready, 1), "ready", "true");
    const char *const fresh[] = {"0", "{}", "1000", "0", "0"};
    PGresult *result = statement_run(fx->conn, &sql_fresh, fresh, 5);
    test_sql(fx, "BEGIN; CREATE TEMP TABLE got (id bigint)");
    for (int i = 0; i < PQntuples(result); i++) {
        if (*PQgetvalue(result, i, 5) == 't') {
            test_sql(fx, "INSERT INTO got VALUES (%s)", PQgetvalue(result, i, 0));
        }
    }
    PQclear(result);
    same_ids(fx, PQexec(fx->conn, "SELECT id FROM got"), "fresh", "NOT announced");
    const char *const due[] = {"0", "1000"};
    test_sql(fx, "BEGIN");
    same_ids(fx, statement_run(fx->conn, &sql_due, due, 2), "due", "delayed");
}

/* What runs is claimed by nobody else, however it is asked for. */
static void test_running_is_taken(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char other[UUID_BYTES];
    held_new(fx, &c);
    worker_make(fx, other);
    char *before = test_sql_text(fx, "SELECT t::text FROM tenon.task t");
    for (size_t i = 0; i < WAYS; i++) {
        assert_int_equal(claimed(claim(fx->conn, all_ways[i], other, "{default}", "{a}", "10")), 0);
        assert_int_equal(claimed(claim(fx->conn, all_ways[i], c.worker, "{default}", "{a}", "10")),
                         0);
    }
    char *after = test_sql_text(fx, "SELECT t::text FROM tenon.task t");
    assert_string_equal(before, after);
    free(before);
    free(after);
}

/* Draining, gone, dead or unknown workers claim nothing. */
static void test_only_live_workers_claim(void **state)
{
    struct fixture *fx = *state;
    static const char *const states[] = {"draining", "left", "dead"};
    char worker[UUID_BYTES];
    test_sql(fx, "SELECT tenon.enqueue('a')");
    for (size_t i = 0; i < 3; i++) {
        worker_make(fx, worker);
        test_sql(fx, "UPDATE tenon.worker SET state = '%s' WHERE id = '%s'", states[i], worker);
        for (size_t j = 0; j < WAYS; j++) {
            assert_int_equal(claimed(
                                 claim(fx->conn, all_ways[j], worker, "{default}", "{a}", "10")),
                             0);
        }
    }
    static const char nobody[] = "00000000-0000-0000-0000-000000000000";
    assert_int_equal(claimed(claim(fx->conn, &by_ids, nobody, "{default}", "{a}", "10")), 0);
    assert_int_equal(test_sql_int(fx, "SELECT claims FROM tenon.task"), 0);
}

/* One reading of the clock says that a task may start, and when it did: so none that must start
 * before a moment starts at it or later, by however little. */
static void test_a_claim_is_one_moment(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    for (size_t i = 0; i < WAYS; i++) {
        test_sql(fx, "DELETE FROM tenon.task;"
                     "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[100]))");
        PQclear(claim(fx->conn, all_ways[i], worker, "{default}", "{a}", "100"));
        assert_true(test_sql_bool(fx, "SELECT count(start_time) = 100 AND"
                                      " count(DISTINCT start_time) = 1 FROM tenon.task"));
    }
}

static void test_what_a_claim_tells(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx,
             "SELECT tenon.enqueue('mail', '{\"b\": 1.50, \"a\": \"\xC3\xA9\\n\"}', priority => 7,"
             " timeout => '1500 ms', max_attempts => 3,"
             " trace => '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01')");
    PGresult *result = claim(fx->conn, &by_ids, worker, "{default}", "{mail}", "10");
    assert_int_equal(PQntuples(result), 1);
    static const char *const want[] = {NULL,
                                       "1",
                                       NULL,
                                       "1500",
                                       "0",
                                       "3",
                                       "7",
                                       "default",
                                       "mail",
                                       "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                       "{\"a\": \"\xC3\xA9\\n\", \"b\": 1.50}"};
    for (int i = 0; i < 11; i++) {
        assert_true(want[i] == NULL || strcmp(PQgetvalue(result, 0, i), want[i]) == 0);
    }
    assert_true(test_sql_bool(
        fx,
        "SELECT claim_key = %s AND worker_id = '%s' AND id = %s"
        " AND start_time BETWEEN now() - interval '1 min' AND clock_timestamp() FROM tenon.task",
        PQgetvalue(result, 0, 2), worker, PQgetvalue(result, 0, 0)));
    PQclear(result);
}

/* Higher priority first, then the queue that is named first, then older; what is left out by the
 * limit is the lowest and youngest. */
static void test_order_of_a_poll(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.enqueue('a', to_jsonb(p * 10 + n), priority => p,"
                 " queue => CASE WHEN n < 2 THEN 'default' ELSE 'second' END)"
                 " FROM unnest('{4,0,9,5}'::integer[]) p, generate_series(0, 3) n");
    test_sql(fx, "UPDATE tenon.task SET run_at = now() - make_interval(mins => 60 -"
                 " (payload::text::integer %% 10) * 10, secs => priority)");
    static const char *const want[] = {"90,91,92,93,50", "51,52,53,40,41", "0,1,2,3,42,43"};
    for (size_t i = 0; i < 3; i++) {
        PGresult *result = claim(fx->conn, &by_poll, worker, "{default,second}", "{a}",
                                 i < 2 ? "5" : "10");
        char *payloads = column(result, 10);
        char *sorted = test_sql_text(
            fx,
            "SELECT string_agg(p, ',' ORDER BY CASE WHEN %d = 2 THEN p::integer ELSE -(p::integer"
            " / 10) END, p::integer)"
            " FROM unnest('{%s}'::text[]) p",
            (int)i, payloads);
        assert_string_equal(sorted, want[i]);
        free(payloads);
        free(sorted);
    }
}

/* Two workers that poll at the same time get different tasks, and neither waits; the second from a
 * cursor, as a sweep reads what others have marked, too. */
static void test_two_workers_share(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    worker_make(fx, one);
    worker_make(fx, two);
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "SET lock_timeout = 100");
    test_sql(fx, "SELECT tenon.enqueue_many('a', '{1,2,3,4,5,6}')");
    test_sql(fx, "BEGIN");
    assert_int_equal(claimed(claim(fx->conn, &by_poll, one, "{default}", "{a}", "4")), 4);
    const char *const poll[] = {two, "{a}", "4", POLL_FROM_1970};
    assert_int_equal(claimed(statement_run(other, &sql_poll, poll, POLL_PARAMS)), 2);
    test_sql(fx, "COMMIT");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE claims = 1"), 6);
    PQfinish(other);
}

enum { RACERS = 6, RACE_TASKS = 1500 };

static int answer_of(PGconn *conn)
{
    int n = 0;
    for (PGresult *result; (result = PQgetResult(conn)); PQclear(result)) {
        if (PQresultStatus(result) != PGRES_TUPLES_OK) {
            fail_msg("%s", PQresultErrorMessage(result));
        }
        n += count_claimed(result);
    }
    return n;
}

/* All racers ask at once, again and again, until everything is claimed: nothing twice. */
static void race(struct fixture *fx, PGconn **conn, const struct way *way,
                 const char *const *params)
{
    int n = 0;
    test_sql(fx, "TRUNCATE tenon.task RESTART IDENTITY");
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[%d]))", RACE_TASKS);
    for (int empty = 0; n < RACE_TASKS && empty < 100; empty++) {
        for (int i = 0; i < RACERS; i++) {
            assert_int_equal(PQsendQueryParams(conn[i], way->st->text, way->n_params, NULL, params,
                                               NULL, NULL, 0),
                             1);
        }
        for (int i = 0; i < RACERS; i++) {
            int got = answer_of(conn[i]);
            n += got;
            empty = got ? 0 : empty;
        }
    }
    int64_t claims = test_sql_int(fx, "SELECT sum(claims) FROM tenon.task");
    if (n != RACE_TASKS || claims != RACE_TASKS) {
        fail_msg("%s: %d tasks were claimed %d times, %lld by their claims", way->name, RACE_TASKS,
                 n, (long long)claims);
    }
}

static void test_raced_claims(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    PGconn *conn[RACERS];
    worker_make(fx, worker);
    for (int i = 0; i < RACERS; i++) {
        conn[i] = sql_connect(fx->database_url);
        sql_run(conn[i],
                "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;"
                " SET enable_mergejoin = off");
    }
    char *ids = test_sql_text(fx, "SELECT array_agg(n) FROM generate_series(1, %d) n", RACE_TASKS);
    const char *const poll[] = {worker, "{a}", "10", POLL_HEAD};
    race(fx, conn, &by_poll, poll);
    const char *const named[] = {worker, ids, "{default}", "{a}", "16777216", ids};
    race(fx, conn, &by_ids, named);
    free(ids);
    for (int i = 0; i < RACERS; i++) {
        PQfinish(conn[i]);
    }
}

static char *verify(struct fixture *fx, const struct held *c)
{
    char ids[32], keys[32], claims[32];
    (void)snprintf(ids, sizeof ids, "{%lld}", (long long)c->id);
    (void)snprintf(keys, sizeof keys, "{%lld}", (long long)c->key);
    (void)snprintf(claims, sizeof claims, "{%d}", c->claims);
    const char *const params[] = {c->worker, ids, keys, claims};
    return column(statement_run(fx->conn, &sql_verify, params, 4), 2);
}

/* Of two claims of one task the answer tells which it means. */
static void verify_both_is(struct fixture *fx, const struct held *c, const struct held *other,
                           int want_attempt)
{
    char ids[64], keys[64], claims[64];
    (void)snprintf(ids, sizeof ids, "{%lld,%lld}", (long long)c->id, (long long)other->id);
    (void)snprintf(keys, sizeof keys, "{%lld,%lld}", (long long)c->key, (long long)other->key);
    (void)snprintf(claims, sizeof claims, "{%d,%d}", c->claims, other->claims);
    const char *const params[] = {c->worker, ids, keys, claims};
    PGresult *result = statement_run(fx->conn, &sql_verify, params, 4);
    assert_int_equal(PQntuples(result), 1);
    assert_int_equal(strtol(PQgetvalue(result, 0, 1), NULL, 10), want_attempt);
    PQclear(result);
}

static void verify_is(struct fixture *fx, const struct held *c, const char *want)
{
    char *got = verify(fx, c);
    assert_string_equal(got, want);
    free(got);
}

/* After an answer that was lost: is it still mine, did it end, or did I lose it? */
static void test_verify(void **state)
{
    struct fixture *fx = *state;
    struct held c, other;
    held_new(fx, &c);
    verify_is(fx, &c, "mine");
    other = c;
    other.key++;
    worker_make(fx, other.worker);
    verify_is(fx, &other, "");
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    verify_is(fx, &c, "ended");
    verify_is(fx, &other, "");
    held_new(fx, &c);
    free(held_requeue(fx, &c, "dead", "x", NULL));
    verify_is(fx, &c, "ended");
    held_new(fx, &c);
    free(held_requeue(fx, &c, "failed", "x", "0"));
    verify_is(fx, &c, "");
    assert_true(held_take(fx, c.worker, c.id, &other));
    verify_is(fx, &c, "");
    verify_is(fx, &other, "mine");
    verify_both_is(fx, &c, &other, other.claims);
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)c.id);
    verify_is(fx, &other, "cancelled");
    verify_is(fx, &c, "");
}

static void test_own(void **state)
{
    struct fixture *fx = *state;
    struct held c, other;
    held_new(fx, &c);
    held_new(fx, &other);
    const char *const params[] = {c.worker};
    PGresult *result = statement_run(fx->conn, &sql_own, params, 1);
    assert_int_equal(PQntuples(result), 1);
    assert_true(strtoll(PQgetvalue(result, 0, 0), NULL, 10) == c.id);
    assert_int_equal(strtol(PQgetvalue(result, 0, 1), NULL, 10), c.claims);
    assert_true(strtoll(PQgetvalue(result, 0, 2), NULL, 10) == c.key);
    PQclear(result);
}

/* A delayed task wakes its worker once, by the read after its moment; its row is not written. */
static void test_due(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx,
             "SELECT tenon.pause('stopped');"
             "SELECT tenon.enqueue(k, delay => '1 h') FROM unnest('{ahead,due,started}'::text[]) k;"
             "SELECT tenon.enqueue('paused', queue => 'stopped', delay => '1 h');"
             "UPDATE tenon.task SET run_at = now() - interval '1 min' WHERE kind <> 'ahead'");
    test_sql(fx,
             "UPDATE tenon.task SET start_time = now(), claim_key = id, worker_id = '%s'"
             " WHERE kind = 'started'",
             worker);
    char *before = test_sql_text(fx, "SELECT string_agg(ctid::text, ' ') FROM tenon.task");
    const char *params[] = {"0", "100"};
    test_sql(fx, "BEGIN");
    PGresult *result = statement_run(fx->conn, &sql_due, params, 2);
    PGresult *next = statement_run(fx->conn, &sql_due_next, NULL, 0);
    test_sql(fx, "COMMIT");
    assert_int_equal(PQntuples(result), 1);
    assert_true(test_sql_bool(fx, "SELECT kind = 'due' FROM tenon.task WHERE id = %s",
                              PQgetvalue(result, 0, 0)));
    assert_in_range(strtoll(PQgetvalue(next, 0, 1), NULL, 10), 3000000, 3600000);
    PQclear(result);
    params[0] = PQgetvalue(next, 0, 0);
    assert_int_equal(claimed(statement_run(fx->conn, &sql_due, params, 2)), 0);
    PQclear(next);
    char *after = test_sql_text(fx, "SELECT string_agg(ctid::text, ' ') FROM tenon.task");
    assert_string_equal(before, after);
    free(before);
    free(after);
}

/* What watch.sql says: fresh rows above an id, when the next delayed row is due, a free lock. */
static void watched(struct fixture *fx, const char *id, const char *run_at_us, const char *want)
{
    const char *const params[] = {id, run_at_us, "0"};
    PGresult *result = statement_run(fx->conn, &sql_watch, params, 3);
    char got[64];
    (void)snprintf(got, sizeof got, "%s %s %s", PQgetvalue(result, 0, 1),
                   PQgetisnull(result, 0, 2)          ? "none"
                   : *PQgetvalue(result, 0, 2) == '-' ? "due"
                                                      : "ahead",
                   PQgetvalue(result, 0, 4));
    PQclear(result);
    assert_string_equal(got, want);
}

static void test_watch(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    watched(fx, "0", "0", "f none f");
    test_sql(fx, "SELECT tenon.enqueue('a', delay => '1 h')");
    watched(fx, "0", "0", "t ahead f");
    watched(fx, "1", "0", "f ahead f");
    test_sql(fx, "UPDATE tenon.task SET run_at = now() - interval '1 min'");
    watched(fx, "1", "0", "f due f");
    char *now_us = test_sql_text(fx, "SELECT (extract(epoch FROM now()) * 1000000)::bigint");
    watched(fx, "1", now_us, "f none f");
    watched(fx, NULL, NULL, "f none f");
    worker_make(fx, worker);
    watched(fx, NULL, NULL, "f none t");
    test_sql(fx, "SELECT pg_advisory_lock(lock_key) FROM tenon.worker");
    watched(fx, NULL, NULL, "f none f");
    free(now_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_claims_take_what_is_ready),
        WITH_DATABASE(test_publishers_take_what_is_ready),
        WITH_DATABASE(test_running_is_taken),
        WITH_DATABASE(test_only_live_workers_claim),
        WITH_DATABASE(test_a_claim_is_one_moment),
        WITH_DATABASE(test_what_a_claim_tells),
        WITH_DATABASE(test_order_of_a_poll),
        WITH_DATABASE(test_two_workers_share),
        WITH_DATABASE(test_raced_claims),
        WITH_DATABASE(test_verify),
        WITH_DATABASE(test_own),
        WITH_DATABASE(test_due),
        WITH_DATABASE(test_watch),
    };
    return RUN_GROUP(tests);
}
