/* label: sql */
/* only: all */
/* tenon.demand: the arithmetic, what it reads, and a day of a fleet that follows it. The model of
 * the day asks the same arithmetic (tenon.slots_wanted) and the same decision (cli/fleet/scale.c)
 * as `tenon scaler` does. Tasks and workers are made up, and so is what is seen of them: all of the
 * last two minutes. What tenon.demand sees of it in a database has tests of its own. */
#include "cli/fleet/scale.h"
#include "tests/support/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DAY_S = 86400,
    WINDOW_S = 120, /* as in tenon.rate_seen */
    ASK_S = 15,
    START_S = 15, /* from the decision until a new worker claims */
    SLOTS = 4,
    WORKERS_MAX = 60,
    LATENCY_S = 5,
    DOWN_AFTER_S = 300,
    RUN_S_MAX = 60,
    TASKS_MAX = 400000,
    HOUR = 3600,
};

/* --- a day ------------------------------------------------------------------------------------ */

struct day {
    int n[DAY_S]; /* workers, as decided */
    int started[DAY_S];
    int ended[DAY_S + RUN_S_MAX + 1];
    double ended_run_s[DAY_S + RUN_S_MAX + 1];
    double ended_began[DAY_S + RUN_S_MAX + 1]; /* sum of the moments at which those began */
    int waiting_since[TASKS_MAX];
    int first, last; /* of waiting_since */
    int running;
    double running_began;            /* sum of moments */
    int tasks, late, changes, turns; /* turns: up within ten minutes after down */
    int last_down, worst_s;
    double slot_s, work_s;
    unsigned seed;
};

static double chance(struct day *d)
{
    d->seed = d->seed * 1664525U + 1013904223U;
    return (double)(d->seed >> 8) / (1 << 24);
}

/* Quiet nights, a rising morning, lunch, an afternoon, and a burst at each full hour of it. */
static double per_s(int t)
{
    double h = (double)t / HOUR;
    if (h >= 14 && h < 18 && t % HOUR == 0) {
        return 300;
    }
    return h < 6    ? 0.05
           : h < 9  ? 0.05 + (h - 6) * 1.5
           : h < 12 ? 4.5
           : h < 13 ? 0
           : h < 18 ? 3
                    : 0.3;
}

/* Slow handlers from 14 to 15 and from 20 to 21. */
static int run_s(int t)
{
    int h = t / HOUR;
    return h == 14 ? 20 : h == 20 ? RUN_S_MAX : 2;
}

static int slots_at(const struct day *d, int t)
{
    int n = WORKERS_MAX;
    for (int s = t > START_S ? t - START_S : 0; s <= t; s++) {
        n = d->n[s] < n ? d->n[s] : n;
    }
    return n * SLOTS;
}

static void arrive(struct day *d, int t)
{
    double rate = per_s(t);
    int n = (int)rate + (chance(d) < rate - (int)rate);
    for (int i = 0; i < n && d->last < TASKS_MAX; i++) {
        d->waiting_since[d->last++] = t;
    }
}

static void end(struct day *d, int t)
{
    d->running -= d->ended[t];
    d->running_began -= d->ended_began[t];
}

static void start(struct day *d, int t)
{
    while (d->first < d->last && d->running < slots_at(d, t)) {
        int waited = t - d->waiting_since[d->first++], run = run_s(t);
        d->tasks++;
        d->late += waited > LATENCY_S;
        d->worst_s = waited > d->worst_s ? waited : d->worst_s;
        d->started[t]++;
        d->running++;
        d->running_began += t;
        d->ended[t + run]++;
        d->ended_run_s[t + run] += run;
        d->ended_began[t + run] += t;
        d->work_s += run;
    }
    d->slot_s += d->n[t] * SLOTS;
}

static int demand(struct fixture *fx, const struct day *d, int t)
{
    int started = 0, ended = 0, oldest = d->first < d->last ? t - d->waiting_since[d->first] : 0;
    double run = 0, age = d->running ? t - d->running_began / d->running : 0;
    for (int s = t >= WINDOW_S ? t - WINDOW_S + 1 : 0; s <= t; s++) {
        started += d->started[s];
        ended += d->ended[s];
        run += d->ended_run_s[s];
    }
    run = ended ? run / ended : 0;
    char run_text[32] = "NULL";
    if (ended || d->running) {
        (void)snprintf(run_text, sizeof run_text, "%f", run > age ? run : age);
    }
    return (int)test_sql_int(fx, "SELECT tenon.slots_wanted(%f, %s, %d, %d, %d, %d)",
                             (double)started / WINDOW_S, run_text, d->last - d->first, d->running,
                             oldest, LATENCY_S);
}

static void scale(struct fixture *fx, struct day *d, struct scale *s, int t)
{
    int64_t before = s->n;
    if (t % ASK_S == 0) {
        int64_t n = scale_next(s, (demand(fx, d, t) + SLOTS - 1) / SLOTS, (int64_t)t * 1000);
        d->changes += n != before;
        d->turns += n > before && t - d->last_down < 600;
        d->last_down = n < before ? t : d->last_down;
    }
    d->n[t] = (int)s->n;
}

static struct day *a_day(struct fixture *fx)
{
    struct day *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->seed = 7;
    d->last_down = -DAY_S;
    struct scale s = scale_start(1, WORKERS_MAX, (int64_t)DOWN_AFTER_S * 1000, 1);
    for (int t = 0; t < DAY_S; t++) {
        d->n[t] = (int)s.n;
        end(d, t);
        arrive(d, t);
        scale(fx, d, &s, t);
        start(d, t);
    }
    print_message("%d tasks, %d late, at worst %d s; %d changes, %d turns; slots busy %.0f %%\n",
                  d->tasks, d->late, d->worst_s, d->changes, d->turns, 100 * d->work_s / d->slot_s);
    return d;
}

static void test_a_day(void **state)
{
    struct day *d = a_day(*state);
    assert_true(d->tasks > 100000);
    assert_true(d->late * 100 < d->tasks * 3); /* while new workers start for a burst */
    assert_true(d->worst_s < 60);
    assert_true(d->changes < 100 && d->turns < 12); /* with DOWN_AFTER_S 0: 154 and 57 */
    assert_true(d->work_s / d->slot_s > 0.3);
    free(d);
}

/* --- the arithmetic --------------------------------------------------------------------------- */

static void test_slots_wanted(void **state)
{
    struct fixture *fx = *state;
    static const struct {
        const char *numbers; /* tasks a second, run time, ready, running, oldest, latency */
        int slots;
    } cases[] = {
        {"0, NULL, 0, 0, 0, 5", 0},      /* nothing */
        {"4, 2, 0, 0, 0, 5", 10},        /* 8 busy, a fifth to spare */
        {"4, 2, 0, 12, 0, 5", 12},       /* what runs keeps its slots */
        {"0, NULL, 7, 0, 0, 5", 7},      /* nobody knows how long they take: one slot each */
        {"0, 0, 10, 0, 0, 5", 1},        /* runs too short to be seen */
        {"0, 0.01, 1000, 0, 0, 5", 2},   /* 10 s of work, in 5 s */
        {"0, 0.01, 1000, 0, 4, 5", 8},   /* late in a second: in a quarter of the latency */
        {"0, 0.01, 1000, 0, 500, 5", 8}, /* and so what is late */
        {"0, 600, 3, 0, 0, 5", 3},       /* slow ones: one slot each, not more */
        {"1e9, 3600, 0, 0, 0, 5", 1000000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("%s\n", cases[i].numbers);
        assert_int_equal(test_sql_int(fx, "SELECT tenon.slots_wanted(%s)", cases[i].numbers),
                         cases[i].slots);
    }
}

/* --- what it reads ---------------------------------------------------------------------------- */

/* So many attempts of the queue that were started and ended, each after `run_ms`. */
static void put_minute(struct fixture *fx, const char *queue, const char *ago, int n, int run_ms)
{
    test_sql(fx,
             "INSERT INTO tenon.minute (minute, queue, kind, worker_id, started, ended, done,"
             " run_us) VALUES (date_trunc('minute', now() - interval '%s'), '%s', 'a',"
             " gen_random_uuid(), %d, %d, %d, %lld)",
             ago, queue, n, n, n, (long long)n * run_ms * 1000);
}

static int64_t demand_of(struct fixture *fx, const char *queue)
{
    return test_sql_int(fx, "SELECT tenon.demand('%s')", queue);
}

static void test_what_waits_comes_and_runs(void **state)
{
    struct fixture *fx = *state;
    assert_int_equal(demand_of(fx, "default"), 0);
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 30)");
    test_sql(fx, "SELECT tenon.enqueue('a', delay => '1 h') FROM generate_series(1, 30)");
    assert_int_equal(demand_of(fx, "default"), 30);
    assert_int_equal(demand_of(fx, "other"), 0);
    put_minute(fx, "default", "1 min", 300, 8000);     /* two a second or so, each 8 s: 20, and */
    assert_in_range(demand_of(fx, "default"), 45, 60); /* what waits */
    assert_int_equal(demand_of(fx, "other"), 0);
    test_sql(fx, "SELECT tenon.pause('default')");
    assert_in_range(demand_of(fx, "default"), 15, 30);
    test_sql(fx, "DELETE FROM tenon.minute");
    assert_int_equal(demand_of(fx, "default"), 0);
    test_sql(fx, "UPDATE tenon.task SET worker_id = gen_random_uuid(), claim_key = id,"
                 " start_time = now() WHERE id <= 5");
    assert_int_equal(demand_of(fx, "default"), 5);
    test_sql_fails(fx, "22023", "latency is 00:00:00", "SELECT tenon.demand('default', '0 s')");
}

/* Nothing of it was started lately: what it did earlier says how long its tasks run. */
static void test_run_times_of_a_queue_that_rested(void **state)
{
    struct fixture *fx = *state;
    put_minute(fx, "default", "20 hours", 2000, 10);
    put_minute(fx, "other", "1 min", 20000, 1000);
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[1000]))");
    assert_in_range(demand_of(fx, "default"), 1, 20); /* 10 s of work, in 5 s */
    assert_int_equal(test_sql_int(fx, "SELECT (run_s * 1000)::int FROM "
                                      "tenon.rate_seen('default')"),
                     10);
    assert_true(test_sql_int(fx, "SELECT (run_s IS NULL)::int FROM tenon.rate_seen('none')"));
}

/* One task that has just come and gone is no rate. */
static void test_one_task_is_no_rate(void **state)
{
    struct fixture *fx = *state;
    put_minute(fx, "other", "10 min", 10000, 1000);
    put_minute(fx, "default", "0 s", 1, 59000);
    assert_in_range(demand_of(fx, "default"), 1, 2);
    assert_int_equal(demand_of(fx, "other"), 0);
}

static int64_t rows_read(struct fixture *fx)
{
    return test_sql_int(fx, "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) "
                            "FROM pg_stat_xact_user_tables WHERE schemaname = 'tenon'");
}

/* A little over 10,000 of the queue, the last minutes, and what is paused. */
static void test_it_reads_so_many_rows(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "SELECT count(tenon.enqueue('a', priority => i %% 10)) FROM generate_series(1, 30000) i");
    put_minute(fx, "default", "1 min", 20000, 1000);
    test_sql(fx, "INSERT INTO tenon.minute (minute, queue, kind, worker_id)"
                 " SELECT date_trunc('minute', now() - i * interval '1 min'), 'q', 'a',"
                 " gen_random_uuid() FROM generate_series(5, 1440) i; ANALYZE tenon.task");
    test_sql(fx, "BEGIN");
    int64_t before = rows_read(fx);
    assert_true(demand_of(fx, "default") >= 1000);
    assert_in_range(rows_read(fx) - before, 10000, 12100);
    test_sql(fx, "COMMIT");
}

static void test_readers_may_ask(void **state)
{
    struct fixture *fx = *state;
    char role[100];
    (void)snprintf(role, sizeof role, "%s_reader", fx->database);
    test_sql(fx, "CREATE ROLE %s", role);
    test_sql(fx, "SET ROLE %s", role);
    test_sql_fails(fx, "42501", "", "SELECT tenon.demand('default')");
    test_sql(fx, "RESET ROLE");
    test_sql(fx, "SELECT tenon.grant_reader('%s')", role);
    test_sql(fx, "SET ROLE %s", role);
    assert_int_equal(demand_of(fx, "default"), 0);
    test_sql(fx, "RESET ROLE");
    test_sql(fx, "DROP OWNED BY %s", role);
    test_sql(fx, "DROP ROLE %s", role);
}

/* The manifest for KEDA asks what there is. */
static void test_the_query_of_the_manifest(void **state)
{
    struct fixture *fx = *state;
    char path[512], line[512], *query = NULL;
    (void)snprintf(path, sizeof path, "%s/deploy/kubernetes/keda/scaledobject.yaml", repository);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (!query && fgets(line, sizeof line, file)) {
        query = strstr(line, "query: \"");
    }
    (void)fclose(file);
    assert_non_null(query);
    query += strlen("query: \"");
    query[strcspn(query, "\"")] = '\0';
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 3)");
    assert_int_equal(test_sql_int(fx, "%s", query), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_slots_wanted),
        WITH_DATABASE(test_what_waits_comes_and_runs),
        WITH_DATABASE(test_run_times_of_a_queue_that_rested),
        WITH_DATABASE(test_one_task_is_no_rate),
        WITH_DATABASE(test_it_reads_so_many_rows),
        WITH_DATABASE(test_readers_may_ask),
        WITH_DATABASE(test_the_query_of_the_manifest),
        WITH_DATABASE(test_a_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
