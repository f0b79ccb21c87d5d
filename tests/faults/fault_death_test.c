/* label: fault */
/* timeout: 300 */
/* long: 600 */
/* measures: yes */
/* Dead or alive: how soon the tasks of a worker that is killed, frozen or cut off start elsewhere,
 * by the journal; and what comes back from the dead changes nothing. With TEST_LONG, 50 kills. */
#include "tests/support/held.h"
#include "tests/support/subject.h"

#include "core/base/now.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum {
    SLOTS = 2,
    KILLS = 10,
    KILLS_LONG = 50,
    MEDIAN_MS = 1500,
    WORST_MS = 3000,
    FROZEN_MS = 40000,
    PATIENCE_MS = 16000, /* a cleaner declares nobody dead in the first 15 s of its session */
    SETTLE_MS = 10000,
    POLL_EVERY_MS = 1000, /* the cleaner's watch, see cleaner/chores.c */
    SCAN_MS = 62000,      /* its scan for claims of workers that are gone comes every minute */
};

struct all {
    struct fixture *fx;
    struct process *cleaner, *healthy, *heirs[2];
    struct subject frozen, unplugged;
    int64_t frozen_task, unplugged_task, gone_ns;
};

static struct process *worker(struct fixture *fx, const char *queues)
{
    char h[256], slots[12];
    (void)snprintf(slots, sizeof slots, "%d", SLOTS);
    return TENON(fx, "worker", "--slots", slots, "--queues", queues, "--handler",
                 handler(h, "a=pool:exec %s 1", "pool"));
}

/* The nth run of a task, if there was one. */
static bool find_run(const struct journal *j, int64_t id, int nth, struct journal_run *ret)
{
    for (size_t i = 0; i < j->n; i++) {
        if (j->runs[i].id == id && --nth == 0) {
            *ret = j->runs[i];
            return true;
        }
    }
    return false;
}

static struct journal_run await_run(struct fixture *fx, int64_t id, int nth, int64_t limit_ms)
{
    struct journal_run run = {0};
    for (int64_t deadline_ms = patience_end_ms(limit_ms);;) {
        struct journal j;
        journal_read(fx, &j);
        bool found = find_run(&j, id, nth, &run);
        journal_clear(&j);
        if (found) {
            return run;
        }
        if (now_ms() > deadline_ms) {
            fail_msg("task %lld did not start %d times within %lld ms", (long long)id, nth,
                     (long long)limit_ms);
        }
        (void)poll(NULL, 0, 5);
    }
}

/* --- killed --- */

/* Stop the healthy worker, and wait until what it had asked PostgreSQL for is over: a poll that
 * began later than the tasks come would claim them for one who does not move. */
static void stop_healthy(struct all *a)
{
    process_signal(a->healthy, SIGSTOP);
    sql_await(
        a->fx->conn, START_MS,
        "SELECT bool_and(state = 'idle' AND state_change < clock_timestamp() - interval '100 ms'),"
        " string_agg(state, ' ') FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'tenon worker'");
}

/* Kill a busy worker; ret: until the last of its tasks starts elsewhere. */
static int64_t kill_one(struct all *a)
{
    struct fixture *fx = a->fx;
    int64_t ids[SLOTS], worst_ms = 0;
    struct process *victim = worker(fx, "default");
    process_await_line(victim, "event=worker_ready", START_MS);
    stop_healthy(a); /* so that the victim gets them all */
    for (int i = 0; i < SLOTS; i++) {
        ids[i] = test_sql_int(fx,
                              "SELECT tenon.enqueue('a', '{\"do\": \"first\", \"ms\": 60000}')");
    }
    for (int i = 0; i < SLOTS; i++) {
        (void)await_run(fx, ids[i], 1, START_MS);
    }
    process_signal(a->healthy, SIGCONT);
    /* at any moment between two checks by the cleaner, whose last one ended the kill before */
    (void)poll(NULL, 0, (int)now_jitter(POLL_EVERY_MS));
    int64_t killed_ns = load_now_ns();
    process_kill(victim);
    for (int i = 0; i < SLOTS; i++) {
        struct journal_run again = await_run(fx, ids[i], 2, SETTLE_MS);
        int64_t took_ms = (again.start_ns - killed_ns) / 1000000;
        worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
        await_task(fx, ids[i], SETTLE_MS);
    }
    return worst_ms;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void kill_many(struct all *a)
{
    int64_t took_ms[KILLS_LONG];
    size_t n = load_is_long() ? KILLS_LONG : KILLS;
    for (size_t i = 0; i < n; i++) {
        took_ms[i] = kill_one(a);
    }
    qsort(took_ms, n, sizeof *took_ms, compare);
    print_message("%zu kills: tasks start elsewhere after %lld ms (median), %lld ms (worst)\n", n,
                  (long long)took_ms[n / 2], (long long)took_ms[n - 1]);
    assert_in_range(took_ms[n / 2], 0, patience_loaded_ms(MEDIAN_MS));
    assert_in_range(took_ms[n - 1], 0, patience_loaded_ms(WORST_MS));
}

/* --- frozen, and unplugged --- */

/* A frozen worker's handler goes on and ends; an unplugged one's is ended by its worker, which
 * knows that others may start the task. */
static void begin_absences(struct all *a)
{
    struct fixture *fx = a->fx;
    subjects_up(fx, &a->frozen, 1);
    subjects_up(fx, &a->unplugged, 1);
    a->frozen_task = subject_give(fx, &a->frozen, "{\"do\": \"first\", \"ms\": 1000}");
    a->unplugged_task = subject_give(fx, &a->unplugged, "{\"do\": \"first\", \"ms\": 120000}");
    (void)await_run(fx, a->frozen_task, 1, START_MS);
    (void)await_run(fx, a->unplugged_task, 1, START_MS);
    process_signal(a->frozen.process, SIGSTOP);
    for (int way = 0; way < 2; way++) {
        proxy_stall(&a->unplugged.database, (enum proxy_way)way, true);
        proxy_stall(&a->unplugged.broker, (enum proxy_way)way, true);
    }
    a->gone_ns = load_now_ns();
    a->heirs[0] = worker(fx, a->frozen.queue);
    a->heirs[1] = worker(fx, a->unplugged.queue);
}

static void assert_in_time(struct all *a, const char *what, int64_t id)
{
    struct journal_run again = await_run(a->fx, id, 2, FROZEN_MS);
    int64_t took_ms = (again.start_ns - a->gone_ns) / 1000000;
    print_message("%s: its task starts elsewhere after %lld ms\n", what, (long long)took_ms);
    assert_in_range(took_ms, 0, patience_loaded_ms(FROZEN_MS));
}

static void end_absences(struct all *a)
{
    struct fixture *fx = a->fx;
    struct journal j;
    assert_in_time(a, "frozen worker", a->frozen_task);
    assert_in_time(a, "unplugged worker", a->unplugged_task);
    assert_int_equal(kill(await_run(fx, a->unplugged_task, 1, 0).pid, 0), -1);
    assert_int_equal(process_lines(a->unplugged.process, "event=stopping_children"), 1);
    await_task(fx, a->frozen_task, SETTLE_MS);
    await_task(fx, a->unplugged_task, SETTLE_MS);
    char *before = test_sql_text(fx, "SELECT string_agg(f::text, ' ') FROM tenon.history f");
    process_signal(a->frozen.process, SIGCONT);
    for (int way = 0; way < 2; way++) {
        proxy_stall(&a->unplugged.database, (enum proxy_way)way, false);
        proxy_stall(&a->unplugged.broker, (enum proxy_way)way, false);
    }
    /* the revived learn that they were dead, and work on under another id */
    process_await_line(a->frozen.process, "renewed=1", FROZEN_MS);
    process_await_line(a->unplugged.process, "renewed=1", FROZEN_MS);
    char *after = test_sql_text(fx, "SELECT string_agg(f::text, ' ') FROM tenon.history f");
    assert_string_equal(before, after);
    free(before);
    free(after);
    end_well(a->heirs[0]);
    end_well(a->heirs[1]);
    subject_run(fx, &a->frozen, BACK_MS);
    subject_run(fx, &a->unplugged, BACK_MS);
    journal_read(fx, &j);
    assert_int_equal(journal_runs(&j, a->frozen_task), 2);
    assert_int_equal(journal_runs(&j, a->unplugged_task), 2);
    assert_int_equal(journal_ended(&j, a->unplugged_task), 1);
    journal_clear(&j);
    subjects_down(&a->frozen, 1);
    subjects_down(&a->unplugged, 1);
}

/* --- all of it, at once, as most of it is waiting --- */

/* Nobody's task ran twice but those of workers that had gone, and those exactly so. */
static void assert_explained(struct all *a, int64_t kills)
{
    struct journal j;
    journal_read(a->fx, &j);
    int64_t doubled = (int64_t)j.n - (int64_t)journal_tasks(&j);
    assert_int_equal(doubled, kills * SLOTS + 2);
    assert_int_equal(journal_overlaps(&j), 0);
    journal_clear(&j);
    assert_int_equal(test_sql_int(a->fx, "SELECT count(*) FROM tenon.task"), 0);
    assert_int_equal(process_lines(a->cleaner, "event=worker_dead"), kills + 2);
}

static void test_the_dead_are_recovered(void **state)
{
    struct all a = {.fx = *state};
    declare(a.fx);
    a.cleaner = TENON(a.fx, "cleaner");
    int64_t patient_ms = now_ms() + PATIENCE_MS;
    a.healthy = worker(a.fx, "default");
    process_await_line(a.healthy, "event=broker_up", START_MS);
    begin_absences(&a);
    (void)poll(NULL, 0, (int)(patient_ms - now_ms()));
    kill_many(&a);
    end_absences(&a);
    assert_explained(&a, load_is_long() ? KILLS_LONG : KILLS);
    end_well(a.healthy);
    end_well(a.cleaner);
}

/* A claim that is not committed when its worker, whose lock nobody holds, is declared dead: by a
 * cleaner that runs, or, as that takes 16 s and its next scan a minute, by hand. ret: the task */
static int64_t claim_over_death(struct fixture *fx)
{
    struct held late;
    PGconn *claimant = fx->conn, *other = sql_connect(fx->database_url);
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', '{}')");
    sql_run(claimant, "BEGIN");
    assert_true(held_take(fx, worker, id, &late));
    if (!load_is_long()) {
        sql_run(other, "UPDATE tenon.worker SET state = 'dead', ended_at = clock_timestamp()");
    }
    sql_await(other, PATIENCE_MS + SETTLE_MS, "SELECT state = 'dead', state FROM tenon.worker");
    sql_run(claimant, "COMMIT");
    PQfinish(other);
    assert_state(fx, id, "running");
    return id;
}

static void test_a_claim_after_death_is_recovered(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = load_is_long() ? TENON(fx, "cleaner") : NULL;
    declare(fx);
    int64_t id = claim_over_death(fx), start_ms = now_ms();
    if (!cleaner) {
        free(TENON_RUN(fx, 0, "cleaner", "--once"));
    }
    struct process *p = worker(fx, "default");
    await_task(fx, id, cleaner ? SCAN_MS : START_MS);
    print_message("a claim committed after death: done elsewhere after %lld ms\n",
                  (long long)(now_ms() - start_ms));
    end_well(p);
    if (cleaner) {
        assert_int_equal(process_lines(cleaner, "event=worker_dead"), 1);
        end_well(cleaner);
    }
    assert_each_ran_once(fx, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_claim_after_death_is_recovered),
        WITH_SERVERS(test_the_dead_are_recovered),
    };
    return RUN_GROUP(tests);
}
