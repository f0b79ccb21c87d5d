#include "tests/support/struck.h"

#include "core/base/now.h"
#include "tests/support/journal.h"
#include "tests/support/process.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { POLL_MS = 5 };

void struck_init(struct struck *s, struct fixture *fx, const char *point, int nth,
                 const char *action)
{
    static int count;
    *s = (struct struck){.fx = fx};
    count++;
    (void)snprintf(s->point, sizeof s->point, "TENON_POINT=%s:%d:%s", point, nth, action);
    (void)snprintf(s->log, sizeof s->log, "TENON_POINT_LOG=%s/point-%d", fx->dir, count);
    (void)snprintf(s->journal, sizeof s->journal, "TEST_JOURNAL=%s/armed-%d", fx->dir, count);
    s->env[0] = s->point;
    s->env[1] = s->log;
    s->env[2] = s->journal;
    s->base = test_sql_int(fx, "SELECT coalesce(max(task), 0) FROM public.placed");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
}

static int64_t unended(const struct struck *s, bool claimed)
{
    return test_sql_int(s->fx,
                        "SELECT count(*) FROM tenon.task WHERE id > %lld AND (claims > 0 OR NOT "
                        "%s)",
                        (long long)s->base, claimed ? "true" : "false");
}

static bool is_reached(const struct struck *s)
{
    return access(strchr(s->log, '=') + 1, F_OK) == 0;
}

void struck_suspects(const struct struck *s)
{
    test_sql(s->fx,
             "SELECT tenon.enqueue('a', delay => '1 h') FROM generate_series(1, 3);"
             "UPDATE tenon.task SET run_at = 'infinity', delayed = false, crashes = 2 WHERE id <"
             " (SELECT max(id) FROM tenon.task);"
             "INSERT INTO tenon.suspect SELECT id, 2, 0, true, now() FROM tenon.task"
             " WHERE crashes = 2;"
             "INSERT INTO public.placed SELECT task_id, false, false FROM tenon.suspect");
}

void struck_await_suspects(const struct struck *s, int64_t limit_ms)
{
    test_await(
        s->fx, limit_ms,
        "SELECT count(*) = 2 AND NOT EXISTS (SELECT FROM tenon.suspect) AND NOT EXISTS (SELECT"
        " FROM tenon.worker WHERE ended_at IS NULL AND alone_since IS NOT NULL), count(*) FROM"
        " tenon.history WHERE id > %lld AND outcome = 'done'",
        (long long)s->base);
    assert_true(test_sql_bool(s->fx, "SELECT tenon.cancel(id) FROM tenon.task"));
}

void struck_await(const struct struck *s, bool claimed, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    while (!is_reached(s) || unended(s, claimed) == 0) {
        if (now_ms() > deadline_ms) {
            fail_msg("%s: within %lld ms %s", s->point, (long long)limit_ms,
                     !is_reached(s) ? "the point was never reached"
                     : claimed      ? "it was reached, and nothing ran"
                                    : "it was reached, and nothing was pending");
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

static void armed_journal(const struct struck *s, struct journal *j)
{
    struct fixture armed = *s->fx;
    (void)snprintf(armed.journal, sizeof armed.journal, "%s", strchr(s->journal, '=') + 1);
    journal_read(&armed, j);
}

static bool has_run(const struct struck *s)
{
    struct journal j;
    armed_journal(s, &j);
    bool any = j.n > 0;
    journal_clear(&j);
    return any;
}

void struck_await_run(const struct struck *s, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    while (!has_run(s)) {
        if (now_ms() > deadline_ms) {
            fail_msg("%s: the armed process ran nothing within %lld ms", s->point,
                     (long long)limit_ms);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

static char state_of(pid_t pid)
{
    char path[64], state = '?';
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
            state = '?';
        }
        (void)fclose(file);
    }
    return state;
}

void struck_await_stopped(pid_t pid, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    while (state_of(pid) != 'T') {
        if (now_ms() > deadline_ms) {
            fail_msg("process %d is %c, not stopped", (int)pid, state_of(pid));
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

static void hurry_up(const struct struck *s)
{
    test_sql(s->fx, "UPDATE tenon.task SET run_at = clock_timestamp() WHERE start_time IS NULL "
                    "AND failures > 0 AND run_at > clock_timestamp()");
}

void struck_await_ended(struct struck *s, bool hurry, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    while (unended(s, false) > 0) {
        if (hurry) {
            hurry_up(s);
        }
        if (now_ms() > deadline_ms) {
            char *rows = test_sql_text(
                s->fx, "SELECT string_agg(concat_ws(' ', id, kind, start_time, worker_id, claims, "
                       "failures, run_at, last_error), E'\\n') FROM (SELECT * FROM tenon.task "
                       "ORDER BY id LIMIT 10) t");
            fail_msg("%s: %lld tasks have not ended within %lld ms:\n%s", s->point,
                     (long long)unended(s, false), (long long)limit_ms, rows);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

void struck_record_end_of(struct struck *s)
{
    test_sql(s->fx, "CREATE TABLE IF NOT EXISTS public.ended (LIKE tenon.history); INSERT INTO "
                    "public.ended SELECT * FROM tenon.history EXCEPT SELECT * FROM public.ended");
}

static void assert_unchanged(const struct struck *s)
{
    if (test_sql_bool(s->fx, "SELECT to_regclass('public.ended') IS NOT NULL")) {
        assert_int_equal(test_sql_int(s->fx,
                                      "SELECT count(*) FROM (SELECT * FROM public.ended EXCEPT "
                                      "SELECT * FROM tenon.history) t"),
                         0);
    }
}

/* --- the verdict --- */

static void put_runs(const struct struck *s, const struct journal *j, bool armed)
{
    char *rows = NULL;
    size_t bytes = 0;
    FILE *text = open_memstream(&rows, &bytes);
    for (size_t i = 0; i < j->n; i++) {
        if (j->runs[i].id > s->base) {
            (void)fprintf(text, "%s(%lld,%d,nullif(%lld,0),%s)", ftell(text) > 0 ? "," : "",
                          (long long)j->runs[i].id, j->runs[i].claims, (long long)j->runs[i].end_ns,
                          armed ? "true" : "false");
        }
    }
    (void)fclose(text);
    if (bytes > 0) {
        test_sql(s->fx, "INSERT INTO public.run VALUES %s", rows);
    }
    free(rows);
}

static void load_runs(const struct struck *s)
{
    struct journal healthy, armed;
    test_sql(s->fx, "CREATE TABLE IF NOT EXISTS public.run (task bigint, claims int, "
                    "end_ns bigint, armed boolean); TRUNCATE public.run");
    journal_read(s->fx, &healthy);
    armed_journal(s, &armed);
    put_runs(s, &healthy, false);
    put_runs(s, &armed, true);
    journal_clear(&healthy);
    journal_clear(&armed);
}

void struck_note_claims(struct struck *s, pid_t pid)
{
    load_runs(s);
    test_sql(s->fx,
             "DROP TABLE IF EXISTS public.claimed; CREATE TABLE public.claimed AS SELECT t.id AS "
             "task, t.worker_id, (SELECT min(end_ns) FROM public.run r WHERE r.task = t.id AND "
             "r.claims = t.claims) AS end_ns FROM tenon.task t JOIN tenon.worker w ON w.id = "
             "t.worker_id JOIN public.placed p ON p.task = t.id WHERE w.pid = %d AND NOT p.finish "
             "AND NOT p.later",
             (int)pid);
}

void struck_await_elsewhere(struct struck *s, int64_t limit_ms)
{
    if (test_sql_int(s->fx, "SELECT count(*) FROM public.claimed") > 0) {
        test_await(s->fx, limit_ms,
                   "SELECT t.id IS NULL OR t.worker_id <> c.worker_id FROM (SELECT * FROM"
                   " public.claimed ORDER BY end_ns NULLS LAST LIMIT 1) c LEFT JOIN tenon.task t"
                   " ON t.id = c.task");
    }
}

/* `query` gives the offending tasks; there must be none. */
static void assert_none(const struct struck *s, const char *what, const char *query)
{
    char *tasks = test_sql_text(s->fx, "SELECT string_agg(x::text, ' ') FROM (%s) t (x)", query);
    if (tasks) {
        char *runs = test_sql_text(s->fx,
                                   "SELECT string_agg(concat_ws(' ', 'task', task, 'claims', "
                                   "claims, 'ended', end_ns, 'armed', armed), E'\\n') FROM "
                                   "public.run WHERE task IN (%s)",
                                   query);
        fail_msg("%s: %s: %s\n%s", s->point, what, tasks, runs ? runs : "");
    }
}

void struck_judge(struct struck *s, bool excused)
{
    char above[64], query[1024];
    assert_unchanged(s);
    assert_int_equal(test_sql_int(s->fx, "SELECT count(*) FROM tenon.dead"), 0);
    load_runs(s);
    (void)snprintf(above, sizeof above, "p.task > %lld", (long long)s->base);
    (void)snprintf(query, sizeof query,
                   "SELECT p.task FROM public.placed p WHERE %s AND (SELECT count(*) FROM "
                   "tenon.history f WHERE f.id = p.task AND f.outcome = 'done') <> 1",
                   above);
    assert_none(s, "lost, or ended twice", query);
    (void)snprintf(query, sizeof query,
                   "SELECT p.task FROM public.placed p JOIN tenon.history f ON f.id = p.task "
                   "WHERE %s AND NOT EXISTS (SELECT FROM public.run r WHERE r.task = p.task AND "
                   "r.claims = f.claims AND (r.end_ns > 0 OR p.finish))",
                   above);
    assert_none(s, "done, but not run to its end", query);
    (void)snprintf(query, sizeof query,
                   "SELECT p.task FROM public.placed p JOIN tenon.history f ON f.id = p.task JOIN "
                   "public.run r ON r.task = p.task AND r.claims = f.claims WHERE %s AND NOT "
                   "p.finish AND extract(epoch FROM f.finished_at) * 1000 < r.end_ns / 1000000",
                   above);
    assert_none(s, "done before its run was", query);
    assert_none(s, "rolled back, and run",
                "SELECT task FROM public.run EXCEPT SELECT task FROM public.placed");
    assert_none(s, "one claim, run twice",
                "SELECT task FROM public.run GROUP BY task, claims HAVING count(*) > 1");
    assert_none(s, "run again after its end",
                "SELECT r.task FROM public.run r JOIN tenon.history f ON f.id = r.task WHERE "
                "r.claims > f.claims");
    (void)snprintf(query, sizeof query,
                   "SELECT r.task FROM public.run r JOIN tenon.history f ON f.id = r.task JOIN "
                   "public.placed p USING (task) WHERE r.claims < f.claims AND NOT (p.later AND "
                   "r.claims = 1) AND NOT (r.armed AND %s)",
                   excused ? "true" : "false");
    assert_none(s, "run for nothing, and the fault does not explain it", query);
    (void)snprintf(query, sizeof query,
                   "SELECT p.task FROM public.placed p WHERE %s AND (SELECT count(*) FROM "
                   "public.effect e WHERE e.task = p.task) <> p.finish::int",
                   above);
    assert_none(s, "its effect is not there exactly once", query);
}
