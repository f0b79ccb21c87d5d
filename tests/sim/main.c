/* sim: schedules of tenon's deciding parts under models of everything else. One seed is one
 * schedule; a schedule that breaks an invariant prints its seed, and `sim --seed N --trace`
 * replays it. */
#include "tests/sim/sim.h"

#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static const char usage[] =
    "usage: sim [OPTION]...\n"
    "\n"
    "  --seed N         the first schedule (default: 1); the others follow from it\n"
    "  --random         choose the first one by chance, and say which\n"
    "  --runs N         so many schedules (default: 1)\n"
    "  --seconds N      schedules for so long instead\n"
    "  --faults WHICH   none, all, or both in turn (default: all)\n"
    "  --mutant NAME    break a rule of the models, such as no_fence (sim.h)\n"
    "  --expect-broken  succeed if, and only if, an invariant is broken\n"
    "  --twice          each schedule twice: it must be the same\n"
    "  --trace          print every step\n";

struct run_options {
    uint64_t seed;
    long long runs, seconds;
    int faults; /* 0 none, 1 all, 2 both in turn */
    enum mutant mutant;
    bool trace, expect_broken, twice;
};

static bool parse_number(const char *text, long long *ret)
{
    char *end;
    *ret = (long long)strtoull(text, &end, 10);
    return *text && !*end;
}

static bool parse_faults(const char *text, int *ret)
{
    *ret = strcmp(text, "none") == 0 ? 0 : strcmp(text, "all") == 0 ? 1 : 2;
    return *ret < 2 || strcmp(text, "both") == 0;
}

static bool parse_mutant(const char *text, enum mutant *ret)
{
    for (int i = 1; i < MUTANTS; i++) {
        if (strcmp(text, mutant_words[i]) == 0) {
            *ret = (enum mutant)i;
            return true;
        }
    }
    return false;
}

static bool parse_option(int option, const char *value, struct run_options *o)
{
    long long n = 0;
    switch (option) {
    case 's':
        return parse_number(value, &n) && (o->seed = (uint64_t)n, true);
    case 'r':
        return getrandom(&o->seed, sizeof o->seed, 0) == sizeof o->seed && (o->seed >>= 1, true);
    case 'n':
        return parse_number(value, &o->runs);
    case 't':
        o->runs = 0;
        return parse_number(value, &o->seconds);
    case 'f':
        return parse_faults(value, &o->faults);
    case 'm':
        return parse_mutant(value, &o->mutant);
    case 'x':
        o->expect_broken = true;
        return true;
    case 'v':
        o->trace = true;
        return true;
    case 'w':
        o->twice = true;
        return true;
    default:
        return false;
    }
}

static bool parse_options(int argc, char **argv, struct run_options *o)
{
    static const struct option options[] = {
        {"seed", 1, NULL, 's'},    {"random", 0, NULL, 'r'},        {"runs", 1, NULL, 'n'},
        {"seconds", 1, NULL, 't'}, {"faults", 1, NULL, 'f'},        {"mutant", 1, NULL, 'm'},
        {"trace", 0, NULL, 'v'},   {"expect-broken", 0, NULL, 'x'}, {"twice", 0, NULL, 'w'},
        {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!parse_option(option, optarg, o)) {
            return false;
        }
    }
    return optind == argc;
}

static double seconds_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool faults_of(const struct run_options *o, long long i)
{
    return o->faults == 1 || (o->faults == 2 && i % 4 != 3);
}

/* The same schedule once more, for its last steps. */
static void tell_broken(struct sim *s, const struct run_options *o, uint64_t seed, bool faults)
{
    char why[LINE_BYTES];
    memcpy(why, s->why, sizeof why);
    if (!o->trace) {
        (void)sim_run(s, seed, faults, o->mutant, false, true);
        size_t n = s->n_lines < LAST_LINES ? s->n_lines : LAST_LINES;
        for (size_t i = s->n_lines - n; i < s->n_lines; i++) {
            (void)puts(s->lines[i % LAST_LINES]);
        }
    }
    (void)printf("\nsim: broken: %s\nsim: tenon %s; replay: sim --seed %" PRIu64
                 " --faults %s --trace%s%s\n",
                 why, SIM_BUILD, seed, faults ? "all" : "none", o->mutant ? " --mutant " : "",
                 o->mutant ? mutant_words[o->mutant] : "");
}

/* The same schedule once more, now with its last steps kept: does the seed say all? */
static void run_again(struct sim *s, const struct run_options *o, uint64_t seed, bool faults)
{
    uint64_t digest = s->digest;
    int64_t moments = s->moments, runs = s->n_runs;
    if (sim_run(s, seed, faults, o->mutant, false, true)) {
        check_that(s, s->digest == digest && s->moments == moments && s->n_runs == runs,
                   "the same seed gave another schedule: %lld steps and %lld runs, not %lld and "
                   "%lld",
                   (long long)s->moments, (long long)s->n_runs, (long long)moments,
                   (long long)runs);
    }
}

static bool is_over(const struct run_options *o, long long i, double from)
{
    return o->runs > 0 ? i >= o->runs : seconds_now() - from >= (double)o->seconds;
}

static bool run_all(struct sim *s, const struct run_options *o)
{
    struct random seeds = {o->seed};
    uint64_t seed = o->seed;
    long long i = 0, moments = 0, doubled = 0, runs = 0;
    double from = seconds_now();
    for (bool ok = true; ok && !is_over(o, i, from); i++) {
        bool faults = faults_of(o, i);
        ok = sim_run(s, seed, faults, o->mutant, o->trace, false);
        if (ok && o->twice) {
            run_again(s, o, seed, faults);
            ok = !s->failed;
        }
        moments += s->moments;
        doubled += s->journal.doubled;
        runs += s->n_runs;
        if (!ok) {
            tell_broken(s, o, seed, faults);
            (void)printf("sim: schedule %lld, after %.1f s\n", i + 1, seconds_now() - from);
            return false;
        }
        seed = random_next(&seeds) >> 1;
    }
    double took = seconds_now() - from;
    (void)printf("sim: %lld schedules in %.1f s (%.2f ms each), %lld runs of tasks, %lld of them "
                 "again, %lld steps; all held\n",
                 i, took, i ? took * 1000 / (double)i : 0.0, runs, doubled, moments);
    return true;
}

int main(int argc, char **argv)
{
    struct run_options o = {.seed = 1, .runs = 1, .faults = 1};
    if (!parse_options(argc, argv, &o)) {
        (void)fputs(usage, stderr);
        return 64;
    }
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 20); /* the same memory for each schedule */
    (void)mallopt(M_TRIM_THRESHOLD, 256 << 20);
    struct sim *s = calloc(1, sizeof *s);
    if (!s) {
        return 1;
    }
    (void)printf("sim: from seed %" PRIu64 "\n", o.seed);
    bool ok = run_all(s, &o);
    free(s);
    return ok != o.expect_broken ? 0 : 1;
}
