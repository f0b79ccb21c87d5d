/* label: fault */
/* timeout: 400 */
/* long: 600 */
/* only: all */
/* Strikes at every point of core/base/point.h: kill, exit, freeze, error, sleep. A round is one
 * point and one action: tasks flow, the process reaches its point, support/struck.h judges. It
 * fails if the point is never reached, or if a worker must hold claims there and holds none.
 *
 * Rounds run in lanes, each a process of its own with its own database and virtual host: most of a
 * round is waiting. Without TEST_LONG each point gets kill and one other action.
 *
 *   crash_points_test [POINT [ACTION]]     only these rounds, one after the other */
#include "core/base/now.h"
#include "core/base/point.h"
#include "tests/support/flow.h"
#include "tests/support/lanes.h"
#include "tests/support/load.h"
#include "tests/support/struck.h"
#include "tests/support/working.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum {
    REACH_MS = 20000,      /* until the point is reached */
    ENDED_MS = 25000,      /* until all tasks have ended */
    FROZEN_MS = 60000,     /* the same, while somebody is frozen: he loses his session after 30 s */
    REVIVED_MS = 20000,    /* until a revived worker is alive again */
    RECOVERED_TASKS = 700, /* more than one statement recovers */
    SLEEP_MS = 300,
    LANES = 7,
    CLEANER_LANES = 3, /* the first of them */
};

enum action { KILL, EXIT, FREEZE, FAIL, SLEEP, ACTIONS };
static const char *const action_words[] = {"kill", "exit", "freeze", "error", "sleep=300"};
_Static_assert(SLEEP_MS == 300, "the word above says the same");

enum who {
    PRODUCER,
    WORKER,
    EXEC_WORKER, /* with an exec handler */
    STOPPED,     /* a worker that gets SIGTERM */
    ALONE,       /* a worker that runs suspects */
    HANDLER,
    CLEANER,
    RECOVERER, /* a cleaner; a worker is killed that has many tasks */
};

enum { CLAIMS = 1 /* the armed worker holds claims then */, CAN_FAIL = 2 /* the action error */ };

struct point_plan {
    const char *name;
    enum who who;
    int nth; /* of reaching it: late enough that tasks flow */
    unsigned flags;
    enum action other; /* besides kill, when not TEST_LONG */
};

static const struct point_plan plans[] = {
    {"finish_planned", WORKER, 2, CLAIMS, FREEZE},
    {"claims_committed", WORKER, 3, CLAIMS | CAN_FAIL, FAIL},
    {"task_written", WORKER, 5, CLAIMS, FREEZE},
    {"producer_committing", PRODUCER, 10, 0, FREEZE},
    {"producer_inserted", PRODUCER, 10, 0, EXIT},
    {"producer_committed", PRODUCER, 10, 0, SLEEP},
    {"publish_taken", PRODUCER, 6, 0, EXIT},
    {"publish_sent", PRODUCER, 6, CAN_FAIL, FAIL},
    {"worker_registered", WORKER, 1, CAN_FAIL, FAIL},
    {"worker_locked", WORKER, 1, CAN_FAIL, FAIL},
    {"round_planned", WORKER, 4, CLAIMS | CAN_FAIL, FAIL},
    {"hot_sent", WORKER, 4, CLAIMS, EXIT},
    {"finish_committed", WORKER, 2, CAN_FAIL, FAIL},
    {"requeue_committed", WORKER, 1, CLAIMS | CAN_FAIL, FAIL},
    {"task_claimed", WORKER, 6, CLAIMS, SLEEP},
    {"child_spawned", EXEC_WORKER, 4, CLAIMS, EXIT},
    {"reply_received", WORKER, 5, CLAIMS, SLEEP},
    {"ack_due", WORKER, 3, 0, EXIT},
    {"ack_sent", WORKER, 2, CAN_FAIL, FAIL},
    {"drain_begun", STOPPED, 1, CAN_FAIL, FAIL},
    {"leave_due", STOPPED, 1, CAN_FAIL, FAIL},
    {"turn_taken", ALONE, 1, CAN_FAIL, FAIL},
    {"turn_over", ALONE, 1, CAN_FAIL, FAIL},
    {"handler_begun", HANDLER, 3, CAN_FAIL, EXIT},
    {"handler_effect", HANDLER, 2, CAN_FAIL, FREEZE}, /* its own claim has ended */
    {"handler_answered", HANDLER, 3, 0, EXIT},
    {"worker_found_dead", RECOVERER, 1, CAN_FAIL, FAIL},
    {"worker_declared_dead", RECOVERER, 1, 0, EXIT},
    {"tasks_recovered", RECOVERER, 1, 0, SLEEP},
    {"recover_rest", RECOVERER, 1, CAN_FAIL, FREEZE},
    {"leader_elected", CLEANER, 1, CAN_FAIL, FAIL},
    {"fresh_read", CLEANER, 3, CAN_FAIL, FAIL},
    {"fresh_published", CLEANER, 5, 0, EXIT},
    {"due_read", CLEANER, 1, CAN_FAIL, FAIL},
    {"hot_sent", CLEANER, 3, 0, EXIT},
    {"publish_taken", CLEANER, 3, 0, EXIT},
    {"publish_sent", CLEANER, 3, CAN_FAIL, FAIL},
};
enum { PLANS = sizeof plans / sizeof *plans };

struct round {
    const struct point_plan *plan;
    enum action action;
    int cost_s; /* about */
    int lane;
    char name[64];
};

static struct round rounds[PLANS * ACTIONS];
static size_t n_rounds;

/* --- what a lane stands on -------------------------------------------------------------------- */

/* Cleaners are struck alone, workers while a cleaner watches that is old enough to judge. */
static struct lane {
    struct fixture *fx;
    struct process *worker, *cleaner;
    struct flow flow;
    bool clean; /* the last round ended as it should */
} lane;

static bool strikes_cleaner(const struct round *r)
{
    return r->plan->who >= CLEANER;
}

static struct process *start_worker(const char *slots, const char *in_flight,
                                    const char *const *env)
{
    char pool[256], exec[256], format[64];
    (void)snprintf(format, sizeof format, "a=pool:exec %%s %s", in_flight);
    const char *a = handler(pool, format, "pool"), *b = handler(exec, "b=exec %s", "journal.sh");
    const char *args[] = {"worker", "--log-level", "debug", "--slots", slots, "--handler",
                          a,        "--handler",   b,       NULL};
    return tenon_spawn(lane.fx, args, env);
}

static struct process *start_cleaner(const char *const *env)
{
    return tenon_spawn(lane.fx, (const char *const[]){"cleaner", NULL}, env);
}

static void lane_close(void)
{
    if (lane.fx) {
        void *fixture = lane.fx;
        flow_clear(&lane.flow);
        (void)fixture_teardown(&fixture);
        lane = (struct lane){0};
    }
}

static void lane_open(const struct round *r)
{
    void *fixture = NULL;
    (void)fixture_setup(&fixture);
    lane = (struct lane){.fx = fixture};
    flow_tables(lane.fx);
    declare(lane.fx);
    if (!strikes_cleaner(r)) {
        lane.cleaner = start_cleaner(NULL);
        process_await_line(lane.cleaner, "event=leader", LIMIT_MS);
        lane.worker = start_worker("1", "1", NULL);
        process_await_line(lane.worker, "event=worker_ready", LIMIT_MS);
    }
}

static int round_setup(void **state)
{
    if (lane.fx && !lane.clean) {
        lane_close();
    }
    if (!lane.fx) {
        lane_open(*state);
    }
    lane.clean = false;
    return 0;
}

static int round_teardown(void **state)
{
    (void)state;
    flow_clear(&lane.flow);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    lane_close();
    return 0;
}

/* --- steps of a round ------------------------------------------------------------------------- */

static void start_flow(const struct round *r, const char *const *env)
{
    const struct flow_settings settings = {.kind = r->plan->who == EXEC_WORKER ? "b" : "a",
                                           .timeout_ms = r->plan->who == HANDLER ? 2000 : 0,
                                           .again_ms = r->action == FREEZE ? 300 : 0,
                                           .env = env};
    flow_start(&lane.flow, lane.fx, &settings);
}

static void end_flow(void)
{
    flow_stop(&lane.flow);
    for (int i = 0; i < FLOW_PRODUCERS; i++) {
        flow_await_end(&lane.flow, i, LIMIT_MS);
    }
}

/* The process that struck does what it was told to. */
static void check_process(const struct round *r, struct process *p)
{
    switch (r->action) {
    case KILL:
        assert_int_equal(process_wait(p, LIMIT_MS), 128 + SIGKILL);
        break;
    case EXIT:
        assert_int_equal(process_wait(p, LIMIT_MS), 70);
        break;
    case FREEZE:
        struck_await_stopped(p->pid, LIMIT_MS);
        break;
    case FAIL:
    case SLEEP:
    case ACTIONS:
        assert_false(process_is_gone(p));
        break;
    }
}

static bool is_lost(const struct round *r)
{
    return r->action == KILL || r->action == EXIT || r->action == FREEZE;
}

static int64_t limit_ms(const struct round *r)
{
    return r->action == FREEZE ? FROZEN_MS : ENDED_MS;
}

static void assert_claims(const struct round *r, const struct process *p)
{
    if (is_lost(r) && r->plan->flags & CLAIMS) {
        assert_true(test_sql_int(lane.fx,
                                 "SELECT count(*) FROM tenon.task t JOIN tenon.worker w ON w.id = "
                                 "t.worker_id WHERE w.pid = %d",
                                 (int)p->pid) > 0);
    }
}

/* A frozen process goes on; it must not change what has ended meanwhile. */
static void revive(struct struck *s, struct process *p)
{
    struck_record_end_of(s);
    process_signal(p, SIGCONT);
}

static void start_round(const struct round *r, struct struck *s)
{
    struck_init(s, lane.fx, r->plan->name, r->plan->nth, action_words[r->action]);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static void strike_producer(const struct round *r)
{
    struct struck s;
    start_round(r, &s);
    start_flow(r, (const char *const[]){s.point, s.log, NULL});
    struck_await(&s, false, REACH_MS);
    flow_stop(&lane.flow);
    flow_await_end(&lane.flow, !FLOW_LIBTENON, LIMIT_MS);
    if (r->action == FREEZE) {
        struck_await_stopped(lane.flow.pids[FLOW_LIBTENON], LIMIT_MS);
        struck_await_ended(&s, false, ENDED_MS); /* what it committed is not held up */
        (void)kill(lane.flow.pids[FLOW_LIBTENON], SIGCONT);
    }
    flow_await_end(&lane.flow, FLOW_LIBTENON, LIMIT_MS);
    assert_int_equal(lane.flow.status[FLOW_LIBTENON], r->action == KILL   ? 128 + SIGKILL
                                                      : r->action == EXIT ? 70
                                                                          : 0);
    struck_await_ended(&s, false, ENDED_MS);
    struck_judge(&s, false);
}

/* The worker's row ends as it should, if it had made one: nobody stays alive by it who is dead. */
static void await_row(const struct round *r, const struct process *p)
{
    bool may_be_none = strcmp(r->plan->name, "worker_locked") == 0;
    test_await(lane.fx, limit_ms(r),
               "SELECT coalesce(bool_and(state IN ('dead', 'left')), %s), max(state) FROM "
               "tenon.worker WHERE pid = %d",
               may_be_none ? "true" : "false", (int)p->pid);
}

/* Declared dead, and perhaps just when others run what it has claimed, a frozen worker goes on. */
static void revive_worker(const struct round *r, struct struck *s, struct process *p)
{
    await_row(r, p);
    if (r->plan->who != EXEC_WORKER) {
        struck_await_elsewhere(s, LIMIT_MS);
    }
    revive(s, p);
    if (r->plan->who != STOPPED) {
        test_await(lane.fx, REVIVED_MS,
                   "SELECT count(*) > 0 FROM tenon.worker WHERE pid = %d AND state = 'alive'",
                   (int)p->pid);
    }
}

static void strike_worker(const struct round *r)
{
    struct struck s;
    start_round(r, &s);
    start_flow(r, NULL);
    test_await(lane.fx, LIMIT_MS,
               "SELECT count(*) > 0 FROM tenon.task"); /* some points come soon */
    struct process *p = start_worker("2", "2", s.env);
    if (r->plan->who == STOPPED) {
        struck_await_run(&s, LIMIT_MS);
        process_signal(p, SIGTERM);
    }
    struck_await(&s, true, REACH_MS);
    assert_claims(r, p);
    end_flow();
    if (r->plan->who != STOPPED || is_lost(r)) {
        check_process(r, p);
    }
    if (r->action == FREEZE) {
        struck_note_claims(&s, p->pid);
        revive_worker(r, &s, p);
    }
    struck_await_ended(&s, false, ENDED_MS);
    if (r->action == KILL || r->action == EXIT) {
        await_row(r, p);
    } else {
        end_well(p);
    }
    struck_judge(&s, is_lost(r));
}

/* No suspect runs at that moment: both are done in the end. */
static void strike_alone(const struct round *r)
{
    struct struck s;
    end_well(lane.worker);
    start_round(r, &s);
    struck_suspects(&s);
    struct process *p = start_worker("2", "1", s.env);
    struck_await(&s, false, REACH_MS);
    check_process(r, p);
    lane.worker = start_worker("1", "1", NULL);
    struck_await_suspects(&s, ENDED_MS);
    is_lost(r) ? await_row(r, p) : end_well(p);
}

static void strike_handler(const struct round *r)
{
    struct struck s;
    start_round(r, &s);
    struct process *p = start_worker("2", "1", s.env);
    start_flow(r, NULL);
    struck_await(&s, true, REACH_MS);
    end_flow();
    struck_await_ended(&s, true, ENDED_MS);
    end_well(p);
    struck_judge(&s, is_lost(r));
}

static void end_cleaner(const struct round *r, struct struck *s, struct process *p)
{
    if (r->action == FREEZE) {
        revive(s, p);
    }
    if (r->action != KILL && r->action != EXIT) {
        end_well(p);
    }
}

static void strike_cleaner(const struct round *r)
{
    struct struck s;
    start_round(r, &s);
    struct process *worker = start_worker("1", "1", NULL);
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    start_flow(r, NULL);
    test_await(lane.fx, LIMIT_MS, "SELECT count(*) > 0 FROM tenon.task"); /* it may lead at once */
    struct process *p = start_cleaner(s.env);
    struck_await(&s, false, REACH_MS);
    struct process *heir = is_lost(r) ? start_cleaner(NULL) : NULL;
    end_flow();
    check_process(r, p);
    struck_await_ended(&s, false, ENDED_MS);
    if (heir) {
        process_await_line(heir, "event=leader", limit_ms(r));
    }
    end_cleaner(r, &s, p);
    end_well(worker);
    if (heir) {
        end_well(heir);
    }
    struck_judge(&s, false);
}

/* Many tasks, of which the worker that dies claims nearly all. */
static void place_many(void)
{
    test_sql(
        lane.fx,
        "INSERT INTO public.placed SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 5}'), "
        "false, false FROM generate_series(1, %d)",
        RECOVERED_TASKS);
}

static void strike_recoverer(const struct round *r)
{
    struct struck s;
    start_round(r, &s);
    struct process *p = start_cleaner(s.env);
    process_await_line(p, "event=leader", LIMIT_MS);
    struct process *heir = start_cleaner(NULL);
    process_await_line(heir, "event=cleaner_started", LIMIT_MS);
    process_signal(heir, SIGSTOP); /* it must not be faster; its session ages meanwhile */
    place_many();
    struct process *victim = start_worker("1", "1000", (const char *const[]){s.journal, NULL});
    test_await(lane.fx, LIMIT_MS,
               "SELECT count(*) > 550, count(*) FROM tenon.task WHERE worker_id "
               "IS NOT NULL");
    process_kill(victim);
    struck_await(&s, false, REACH_MS);
    check_process(r, p);
    process_signal(heir, SIGCONT);
    struct process *worker = start_worker("2", "8", NULL);
    /* the heir begins with a pass, though the workers have been declared dead already */
    struck_await_ended(&s, false, limit_ms(r));
    end_cleaner(r, &s, p);
    end_well(worker);
    end_well(heir);
    struck_judge(&s, true);
}

static void run(const struct round *r, void (*strike)(const struct round *r))
{
    int64_t begin_ms = now_ms();
    strike(r);
    lane.clean = true;
    print_message("%s: %lld ms\n", r->name, (long long)(now_ms() - begin_ms));
}

static void test_producer(void **state)
{
    run(*state, strike_producer);
}

static void test_worker(void **state)
{
    run(*state, strike_worker);
}

static void test_alone(void **state)
{
    run(*state, strike_alone);
}

static void test_handler(void **state)
{
    run(*state, strike_handler);
}

static void test_cleaner(void **state)
{
    run(*state, strike_cleaner);
}

static void test_recoverer(void **state)
{
    run(*state, strike_recoverer);
}

static const struct CMUnitTest kinds[] = {
    [PRODUCER] = cmocka_unit_test(test_producer), [WORKER] = cmocka_unit_test(test_worker),
    [ALONE] = cmocka_unit_test(test_alone),       [EXEC_WORKER] = cmocka_unit_test(test_worker),
    [STOPPED] = cmocka_unit_test(test_worker),    [HANDLER] = cmocka_unit_test(test_handler),
    [CLEANER] = cmocka_unit_test(test_cleaner),   [RECOVERER] = cmocka_unit_test(test_recoverer),
};

/* --- which rounds, and where ------------------------------------------------------------------ */

static int cost_of(const struct point_plan *p, enum action action)
{
    return p->who == RECOVERER ? 25 : p->who != HANDLER && action == FREEZE ? 45 : 5;
}

static bool makes_sense(const struct point_plan *p, enum action action)
{
    return action != FAIL || p->flags & CAN_FAIL;
}

static bool is_chosen(const struct point_plan *p, enum action action, int argc, char **argv)
{
    char word[16];
    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(action_words[action], "="),
                   action_words[action]);
    if (argc > 1) {
        return strcmp(argv[1], p->name) == 0 && (argc < 3 || strcmp(argv[2], word) == 0);
    }
    return load_is_long() || action == KILL || action == p->other;
}

/* To the lane that has least to do; every lane's process comes to the same result. */
static int give_lane(int load_s[LANES], const struct round *r)
{
    int first = strikes_cleaner(r) ? 0 : CLEANER_LANES;
    int end = strikes_cleaner(r) ? CLEANER_LANES : LANES;
    int best = first;
    for (int i = first; i < end; i++) {
        best = load_s[i] < load_s[best] ? i : best;
    }
    load_s[best] += r->cost_s;
    return best;
}

static void choose_rounds(int argc, char **argv)
{
    int load_s[LANES] = {0};
    for (size_t i = 0; i < PLANS; i++) {
        for (int action = 0; action < ACTIONS; action++) {
            const struct point_plan *p = &plans[i];
            struct round *r = &rounds[n_rounds];
            if (!makes_sense(p, (enum action)action) ||
                !is_chosen(p, (enum action)action, argc, argv)) {
                continue;
            }
            *r = (struct round){.plan = p, .action = (enum action)action};
            r->cost_s = cost_of(p, r->action);
            r->lane = give_lane(load_s, r);
            (void)snprintf(r->name, sizeof r->name, "%s%s %s", p->name,
                           strikes_cleaner(r) ? " of a cleaner" : "", action_words[action]);
            n_rounds++;
        }
    }
}

/* A lane's process, or with -1 all rounds in this one. */
static int run_lane(int number)
{
    struct CMUnitTest tests[PLANS * ACTIONS];
    size_t n = 0;
    for (size_t i = 0; i < n_rounds; i++) {
        if (number < 0 || rounds[i].lane == number) {
            tests[n] = kinds[rounds[i].plan->who];
            tests[n].name = rounds[i].name;
            tests[n].setup_func = round_setup;
            tests[n].teardown_func = round_teardown;
            tests[n++].initial_state = &rounds[i];
        }
    }
    return _cmocka_run_group_tests("crash points", tests, n, NULL, group_teardown);
}

/* Nobody may name a point and forget to strike there, here or in relay_ or intake_faults_test. */
static int missing_points(void)
{
#define POINT_NAME(name, what) #name,
    static const char *const names[] = {POINT_LIST(POINT_NAME)};
#undef POINT_NAME
    int missing = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool found = !strncmp(names[i], "intake_", 7) || !strncmp(names[i], "relay_", 6);
        for (size_t j = 0; j < PLANS; j++) {
            found = found || strcmp(plans[j].name, names[i]) == 0;
        }
        if (!found) {
            (void)fprintf(stderr, "no round strikes at the point %s\n", names[i]);
            missing++;
        }
    }
    return missing;
}

int main(int argc, char **argv)
{
#ifndef TENON_POINTS
    (void)fprintf(stderr, "this build has no points: take the preset dev\n");
    return 1;
#endif
    choose_rounds(argc, argv);
    if (n_rounds == 0 || missing_points() > 0) {
        (void)fprintf(stderr, "no rounds, or not all\n");
        return 1;
    }
    if (lanes_number() >= 0) {
        return run_lane(lanes_number());
    }
    return argc > 1 ? run_lane(-1) : lanes_run(LANES);
}
