/* label: sql */
/* poll.sql: where it begins, how far it reads, and what it tells of that. */
#include "tests/support/polls.h"

#include "core/base/buf.h"
#include "worker/statements.h"

#include <stdio.h>
#include <stdlib.h>

/* A poll of the queue default and the priorities 9 and 4, in this order. */
struct asked {
    const char *kinds, *n, *from_us, *from_ids, *rows, *bytes, *reach_ms;
};

#define FROM_HEAD .from_us = "{NULL,NULL}", .from_ids = "{0,0}"
#define UNBOUNDED .rows = "10000", .bytes = "16777216"

/* As "payloads of what was claimed / range:payload of each end"; F = full, B = bounded. free() */
static char *poll_as(PGconn *conn, const char *worker, struct asked a)
{
    const char *const params[] = {worker,  a.kinds,   a.n,        "{default,default}",
                                  "{9,4}", a.from_us, a.from_ids, a.rows,
                                  a.bytes, "true",    a.reach_ms, POLL_KEYS};
    PGresult *result = statement_run(conn, &sql_poll, params, POLL_PARAMS);
    struct buf b;
    buf_init(&b, 1 << 16);
    int n = poll_claimed(result);
    for (int i = 0; i < PQntuples(result); i++) {
        if (i < n) {
            buf_printf(&b, "%s ", PQgetvalue(result, i, COLUMN_PAYLOAD));
            continue;
        }
        char *payload = sql_text(conn,
                                 "SELECT payload FROM tenon.task WHERE id = %s AND run_at ="
                                 " timestamptz 'epoch' + %s * interval '1 microsecond'",
                                 PQgetvalue(result, i, COLUMN_ID),
                                 PQgetvalue(result, i, COLUMN_RUN_AT));
        buf_printf(&b, "/ %s:%s%s ", PQgetvalue(result, i, COLUMN_RANGE), payload,
                   PQgetisnull(result, i, COLUMN_END)          ? ""
                   : *PQgetvalue(result, i, COLUMN_END) == 't' ? "F"
                                                               : "B");
        free(payload);
    }
    PQclear(result);
    char *text = strdup(buf_text(&b));
    buf_clear(&b);
    return text;
}

static void poll_is(PGconn *conn, const char *worker, struct asked a, const char *want)
{
    char *got = poll_as(conn, worker, a);
    assert_string_equal(got, want);
    free(got);
}

/* Tasks 1 to 9, 1 the oldest, at priority 4: the odd ones of kind a, the even ones of kind b; those
 * from 7 on have one run_at. */
static void make(struct fixture *fx, char worker[UUID_BYTES])
{
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.enqueue(CASE n %% 2 WHEN 1 THEN 'a' ELSE 'b' END, to_jsonb(n),"
                 " priority => 4) FROM generate_series(1, 9) n");
    test_sql(fx, "UPDATE tenon.task SET run_at = date_trunc('second', now())"
                 " - make_interval(secs => 20 - least(payload::int, 7))");
}

/* From behind task `n`. */
static struct asked behind(struct fixture *fx, int n, struct asked a, char text[2][64])
{
    char *us = test_sql_text(fx,
                             "SELECT (extract(epoch FROM run_at) * 1000000)::bigint FROM"
                             " tenon.task WHERE payload = '%d'",
                             n);
    (void)snprintf(text[0], sizeof text[0], "{NULL,%s}", us);
    (void)snprintf(text[1], sizeof text[1], "{0,%d}", n);
    free(us);
    a.from_us = text[0];
    a.from_ids = text[1];
    return a;
}

static void test_it_reads_no_further_than_it_takes(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    make(fx, worker);
    poll_is(fx->conn, worker, (struct asked){"{a}", "2", FROM_HEAD, UNBOUNDED}, "1 3 / 2:3F ");
    poll_is(fx->conn, worker, (struct asked){"{b}", "1", FROM_HEAD, UNBOUNDED}, "2 / 2:2F ");
}

static void test_what_it_could_not_claim_is_read(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    make(fx, worker);
    poll_is(fx->conn, worker, (struct asked){"{c}", "2", FROM_HEAD, UNBOUNDED}, "/ 2:9 ");
    test_sql(fx, "SELECT tenon.enqueue('b', '10', priority => 9)");
    poll_is(fx->conn, worker, (struct asked){"{a}", "2", FROM_HEAD, UNBOUNDED},
            "1 3 / 1:10F / 2:3F ");
    poll_is(fx->conn, worker, (struct asked){"{a}", "9", FROM_HEAD, UNBOUNDED},
            "5 7 9 / 1:10 / 2:9 ");
}

static void test_it_goes_on_behind_a_place(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES], text[2][64];
    make(fx, worker);
    struct asked both = {"{a,b}", "2", FROM_HEAD, UNBOUNDED};
    poll_is(fx->conn, worker, behind(fx, 3, both, text), "4 5 / 2:5F ");
    poll_is(fx->conn, worker, behind(fx, 7, both, text), "8 9 / 2:9F ");
    poll_is(fx->conn, worker, behind(fx, 9, both, text), "");
    poll_is(fx->conn, worker, both, "1 2 / 2:2F ");
}

static void test_it_reads_a_bounded_number_of_rows(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES], text[2][64];
    make(fx, worker);
    struct asked few = {"{b}", "3", FROM_HEAD, "3", "16777216"};
    poll_is(fx->conn, worker, few, "2 / 2:3B ");
    poll_is(fx->conn, worker, behind(fx, 3, few, text), "4 6 / 2:6B ");
    poll_is(fx->conn, worker, behind(fx, 6, few, text), "8 / 2:9B ");
}

/* After a slow poll, what was due before it. */
static void test_it_leaves_to_sweeps_what_was_due_before(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    make(fx, worker);
    test_sql(fx,
             "UPDATE tenon.task SET run_at = run_at - interval '1 hour' WHERE payload::int < 6");
    struct asked late = {"{a,b}", "9", FROM_HEAD, UNBOUNDED, "60000"};
    poll_is(fx->conn, worker, late, "6 7 8 9 / 2:9 ");
    late.reach_ms = NULL;
    poll_is(fx->conn, worker, late, "1 2 3 4 5 / 2:5 ");
}

/* Of so many bytes, but for the last task: what is left is behind what it tells. */
static void test_it_claims_a_bounded_number_of_bytes(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    make(fx, worker);
    poll_is(fx->conn, worker, (struct asked){"{a}", "9", FROM_HEAD, "10000", "1"}, "1 / 2:2F ");
    poll_is(fx->conn, worker, (struct asked){"{b}", "9", FROM_HEAD, "10000", "1"}, "2 / 2:3F ");
}

/* Of what it wants it passes over what others hold, and it locks nothing else. */
static void test_it_locks_only_what_it_claims(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    make(fx, worker);
    PGconn *other = sql_connect(fx->database_url), *third = sql_connect(fx->database_url);
    sql_run(other, "BEGIN");
    sql_run(other, "SELECT FROM tenon.task WHERE payload = '1' FOR UPDATE");
    sql_run(third, "BEGIN");
    poll_is(third, worker, (struct asked){"{a}", "2", FROM_HEAD, UNBOUNDED}, "3 / 2:3F ");
    char *left = test_sql_text(fx, "WITH l AS (SELECT payload FROM tenon.task ORDER BY id"
                                   " FOR UPDATE SKIP LOCKED)"
                                   " SELECT string_agg(payload::text, ' ') FROM l");
    assert_string_equal(left, "2 4 5 6 7 8 9");
    free(left);
    PQfinish(third);
    PQfinish(other);
}

/* --- how much it reads --- */

static const char rows_read[] = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables"
                                " WHERE relid = 'tenon.task'::regclass";

/* Rows that a poll reads from the head, and how many it claims. */
static int64_t read_by(struct fixture *fx, const char *kinds, const char *n, int claims)
{
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx, "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;"
                 " SET enable_mergejoin = off; BEGIN");
    int64_t before = test_sql_int(fx, "%s", rows_read);
    PGresult *result = poll_run(fx->conn, worker, "{default}", kinds, n);
    assert_int_equal(poll_claimed(result), claims);
    PQclear(result);
    int64_t rows = test_sql_int(fx, "%s", rows_read) - before;
    test_sql(fx, "COMMIT");
    return rows;
}

/* A payload may be a megabyte: only what is claimed is read. */
static void test_it_reads_the_payloads_that_it_claims(void **state)
{
    static const char detoasted[] = "SELECT coalesce(idx_scan, 0) FROM pg_stat_xact_all_tables"
                                    " WHERE relid = (SELECT reltoastrelid FROM pg_class"
                                    " WHERE oid = 'tenon.task'::regclass)";
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx,
             "SELECT tenon.enqueue('a', to_jsonb(p), priority => 9) FROM generate_series(1, 50),"
             " LATERAL (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i) r (p)");
    test_sql(fx, "BEGIN");
    int64_t before = test_sql_int(fx, "%s", detoasted);
    const char *const params[] = {worker, "{a}",   "40",    "{default}", "{9}", "{NULL}",
                                  "{0}",  "10000", "20000", "true",      NULL,  POLL_KEYS};
    PGresult *result = statement_run(fx->conn, &sql_poll, params, POLL_PARAMS);
    assert_int_equal(poll_claimed(result), 2);
    PQclear(result);
    assert_int_equal(test_sql_int(fx, "%s", detoasted) - before, 2);
    test_sql(fx, "COMMIT");
}

static void enqueue(struct fixture *fx, const char *kind, int n, const char *how)
{
    test_sql(fx, "SELECT tenon.enqueue_many('%s', array_fill('1'::jsonb, ARRAY[%d])%s)", kind, n,
             how);
}

/* Not what lies in the future, nor what is in other queues. */
static void test_it_reads_little(void **state)
{
    struct fixture *fx = *state;
    enqueue(fx, "a", 20000, ", delay => '1 h'");
    enqueue(fx, "a", 5000, ", queue => 'other'");
    enqueue(fx, "a", 100, "");
    assert_in_range(read_by(fx, "{a}", "50", 50), 50, 200);
}

static void test_of_a_kind_that_nobody_handles_it_reads_a_bounded_number(void **state)
{
    struct fixture *fx = *state;
    enqueue(fx, "b", 25000, "");
    enqueue(fx, "a", 10, "");
    assert_in_range(read_by(fx, "{a}", "50", 0), 10000, 10001);
}

static void test_a_paused_queue_is_not_read(void **state)
{
    struct fixture *fx = *state;
    enqueue(fx, "a", 1000, "");
    test_sql(fx, "SELECT tenon.pause('default')");
    assert_int_equal(read_by(fx, "{a}", "50", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_it_reads_no_further_than_it_takes),
        WITH_DATABASE(test_what_it_could_not_claim_is_read),
        WITH_DATABASE(test_it_goes_on_behind_a_place),
        WITH_DATABASE(test_it_reads_a_bounded_number_of_rows),
        WITH_DATABASE(test_it_leaves_to_sweeps_what_was_due_before),
        WITH_DATABASE(test_it_claims_a_bounded_number_of_bytes),
        WITH_DATABASE(test_it_locks_only_what_it_claims),
        WITH_DATABASE(test_it_reads_the_payloads_that_it_claims),
        WITH_DATABASE(test_it_reads_little),
        WITH_DATABASE(test_of_a_kind_that_nobody_handles_it_reads_a_bounded_number),
        WITH_DATABASE(test_a_paused_queue_is_not_read),
    };
    return RUN_GROUP(tests);
}
