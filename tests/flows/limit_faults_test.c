/* label: fault */
/* timeout: 180 */
/* only: all */
/* After a fault the full limit is in use again soon: by the journal, so many tasks of its key run
 * at once that have all started since. A backlog waits at it all the time. */
#include "tests/support/load.h"
#include "tests/support/servers.h"
#include "tests/support/working.h"

#include "core/base/now.h"

#include <poll.h>
#include <signal.h>

enum {
    FULL = 4, /* tasks at once, and slots of the worker */
    TASK_MS = 300,
    BACKLOG = 5000,
    SESSION_MS = 16000, /* a cleaner declares nobody dead in the first 15 s of its session */
    POLL_MS = 5,
    TRIES = 5, /* of each fault, until some were over within SOON_MS: the machine may be busy */
    SOON_MS = 2000,
    MOST_MS = 5000, /* each of them */
};

struct stage {
    struct fixture *fx;
    struct process *worker, *leader, *standby;
};

/* Since when do so many run at once that all started after `since_ns`? 0: not yet */
static int64_t full_at_ns(const struct journal *j, int64_t since_ns)
{
    for (size_t i = 0; i < j->n; i++) {
        int64_t at_ns = j->runs[i].start_ns;
        int n = 0;
        for (size_t k = 0; k <= i && at_ns > since_ns; k++) {
            const struct journal_run *run = &j->runs[k];
            n += run->start_ns > since_ns && (run->end_ns == 0 || run->end_ns > at_ns);
        }
        if (n >= FULL) {
            return at_ns;
        }
    }
    return 0;
}

static int64_t await_full(struct fixture *fx, int64_t since_ns)
{
    int64_t deadline_ms = patience_end_ms(LIMIT_MS), at_ns = 0;
    while (at_ns == 0) {
        struct journal j;
        journal_read(fx, &j);
        at_ns = full_at_ns(&j, since_ns);
        journal_clear(&j);
        if (at_ns == 0 && now_ms() > deadline_ms) {
            fail_msg("after %d s the limit is not in full use again", LIMIT_MS / 1000);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
    return at_ns;
}

/* --- the faults; ret: since when the time counts --- */

/* It holds all of the limit. */
static int64_t kill_worker(struct stage *s)
{
    int64_t from_ns = load_now_ns();
    process_kill(s->worker);
    s->worker = pool_worker(s->fx, "4", "1");
    return from_ns;
}

static int64_t kill_leader(struct stage *s)
{
    int64_t from_ns = load_now_ns();
    process_kill(s->leader);
    s->leader = s->standby;
    process_await_line(s->leader, "event=leader", LIMIT_MS);
    s->standby = TENON(s->fx, "cleaner");
    return from_ns;
}

static int64_t kill_children(struct stage *s)
{
    int64_t from_ns = load_now_ns();
    struct journal j;
    journal_read(s->fx, &j);
    for (size_t i = j.n - FULL; i < j.n; i++) { /* one that has ended meanwhile is idle */
        (void)kill(j.runs[i].pid, SIGKILL);
    }
    journal_clear(&j);
    return from_ns;
}

/* Without the time in which it recovers. */
static int64_t crash_postgres(struct stage *s)
{
    server_crash(s->fx);
    return load_now_ns();
}

/* The standby sees who is dead, as it is older than 15 s. */
static int64_t kill_leader_and_worker(struct stage *s)
{
    int64_t from_ns = kill_worker(s);
    (void)kill_leader(s);
    return from_ns;
}

/* In this order: cleaners that were started, or lost their sessions, less than 15 s ago declare no
 * worker dead. */
static const struct {
    const char *what;
    int64_t (*strike)(struct stage *s);
    int wanted; /* so many times within SOON_MS */
} faults[] = {
    {"the worker is killed", kill_worker, 2},
    {"all children are killed", kill_children, 2},
    {"the leading cleaner is killed with the worker", kill_leader_and_worker, 0},
    {"the leading cleaner is killed", kill_leader, 2},
    {"PostgreSQL crashes", crash_postgres, 2},
};

static void test_again_in_full(void **state)
{
    struct stage s = {.fx = *state};
    test_sql(s.fx, "SELECT tenon.set_limit('c', max_running => %d)", FULL);
    test_sql(s.fx,
             "SELECT tenon.enqueue_many('a', array_fill('{\"do\": \"sleep\", \"ms\": %d}'::jsonb,"
             " ARRAY[%d]), limit_keys => '{c}')",
             TASK_MS, BACKLOG);
    s.leader = TENON(s.fx, "cleaner");
    process_await_line(s.leader, "event=leader", LIMIT_MS);
    s.standby = TENON(s.fx, "cleaner");
    s.worker = pool_worker(s.fx, "4", "1");
    (void)poll(NULL, 0, SESSION_MS);
    (void)await_full(s.fx, 0);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        for (int soon = 0, tries = 0; tries == 0 || soon < faults[i].wanted; tries++) {
            assert_in_range(tries, 0, TRIES - 1);
            int64_t from_ns = faults[i].strike(&s);
            int64_t ms = (await_full(s.fx, load_now_ns()) - from_ns) / 1000000;
            print_message("%s: in full use after %lld ms\n", faults[i].what, (long long)ms);
            assert_in_range(ms, 0, patience_loaded_ms(MOST_MS));
            soon += ms <= patience_loaded_ms(SOON_MS);
        }
    }
    end_well(s.worker);
    end_well(s.leader);
    end_well(s.standby);
}

static int start_postgres(void **state)
{
    return server_fixture_setup(state, "limit_faults");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_again_in_full, start_postgres,
                                        server_fixture_teardown),
    };
    return RUN_GROUP(tests);
}
