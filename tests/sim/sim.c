#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const mutant_words[MUTANTS] = {
    [MUTANT_NO_FENCE] = "no_fence",
};

enum { START_US = 1000000000, CHECK_US = 500000 };

/* Retries take up to two minutes, deadlines and orphans another two, three times over. */
static const int64_t quiet_limit_us = 1800LL * 1000000;

void sim_at(struct sim *s, int64_t at_us, moment_act *act, int who, int64_t arg)
{
    timeline_add(&s->timeline, at_us > s->now_us ? at_us : s->now_us, act, who, arg);
}

void sim_after(struct sim *s, int64_t us, moment_act *act, int who, int64_t arg)
{
    timeline_add(&s->timeline, s->now_us + us, act, who, arg);
}

int64_t sim_hop(struct sim *s)
{
    return 20 + random_below(&s->random, s->plan.hop_us);
}

void sim_faulted(struct sim *s, int64_t us)
{
    if (s->calm_since_us < s->now_us + us) {
        s->calm_since_us = s->now_us + us;
    }
}

void sim_say(struct sim *s, const char *fmt, ...)
{
    char *line = s->lines[s->n_lines++ % LAST_LINES];
    int n = snprintf(line, LINE_BYTES, "%12.6f ", (double)(s->now_us - START_US) / 1e6);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(line + n, LINE_BYTES - (size_t)n, fmt, args);
    va_end(args);
    if (s->tracing) {
        (void)puts(line);
    }
}

void sim_broken(struct sim *s, const char *fmt, ...)
{
    if (s->failed) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(s->why, sizeof s->why, fmt, args);
    va_end(args);
    s->failed = true;
    TRACE(s, "BROKEN: %s", s->why);
}

static void check_again(struct sim *s, int who, int64_t arg)
{
    (void)who;
    (void)arg;
    check_world(s);
    sim_after(s, CHECK_US, check_again, 0, 0);
}

static void heal(struct sim *s, int who, int64_t arg)
{
    (void)who;
    (void)arg;
    faults_heal(s);
}

static void begin(struct sim *s)
{
    server_start(s);
    broker_start(s);
    for (int i = 0; i < s->plan.n_nodes; i++) {
        node_start(s, &s->nodes[i]);
    }
    for (int i = 0; i < s->plan.n_cleaners; i++) {
        cleaner_start(s, &s->cleaners[i]);
    }
    apps_plan(s);
    faults_plan(s);
    sim_after(s, s->plan.active_us, heal, 0, 0);
    sim_after(s, CHECK_US, check_again, 0, 0);
}

static void digest(struct sim *s, int64_t value)
{
    s->digest = (s->digest ^ (uint64_t)value) * 0x100000001b3; /* FNV-1a, but of words */
}

/* Until it is quiet, or until `until_us`. ret: it is quiet */
static bool run_until(struct sim *s, int64_t until_us, bool (*is_quiet)(struct sim *s))
{
    struct moment m;
    for (int i = 0; !s->failed && timeline_next(&s->timeline, &m); i++) {
        s->now_us = m.at_us;
        digest(s, m.at_us);
        digest(s, m.who);
        digest(s, m.arg);
        m.act(s, m.who, m.arg);
        s->moments++;
        if (s->now_us >= until_us) {
            return is_quiet(s);
        }
        if (i % 64 == 0 && is_quiet(s)) {
            return true;
        }
    }
    return false;
}

/* All has ended: now everybody is told to stop, and must. */
static void end(struct sim *s)
{
    check_end(s);
    s->over = true;
    for (int i = 0; i < s->plan.n_nodes; i++) {
        node_stop(s, &s->nodes[i]);
    }
    if (!s->failed && !run_until(s, s->now_us + 40000000, check_all_left)) {
        sim_broken(s, "a worker did not exit within 40 s of SIGTERM with nothing to do");
    }
}

static void clear(struct sim *s)
{
    s->over = true;
    digest(s, (int64_t)s->random.state); /* how much was drawn */
    for (int i = 0; i < s->plan.n_nodes; i++) {
        node_kill(s, &s->nodes[i], false);
    }
    for (int i = 0; i < s->plan.n_cleaners; i++) {
        judge_free(s->cleaners[i].judge);
    }
    round_free_all(s);
    timeline_clear(&s->timeline);
    s->n_runs = s->journal.n;
    journal_free(s);
}

bool sim_run(struct sim *s, uint64_t seed, bool faults, enum mutant mutant, bool tracing,
             bool keeping)
{
    memset(s, 0, sizeof *s);
    s->seed = seed;
    s->random.state = seed;
    s->mutant = mutant;
    s->tracing = tracing;
    s->keeping = keeping;
    s->now_us = START_US;
    plan_draw(&s->plan, &s->random, faults);
    begin(s);
    if (run_until(s, START_US + s->plan.active_us + quiet_limit_us, check_is_quiet)) {
        end(s);
    } else {
        check_stuck(s);
    }
    clear(s);
    return !s->failed;
}
