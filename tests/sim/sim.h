/* One schedule: workers, cleaners, applications, PostgreSQL and RabbitMQ in one process, in virtual
 * time, all of it drawn from one seed. */
#ifndef TENON_TESTS_SIM_SIM_H
#define TENON_TESTS_SIM_SIM_H

#include "tests/sim/apps.h"
#include "tests/sim/broker.h"
#include "tests/sim/check.h"
#include "tests/sim/cleaner.h"
#include "tests/sim/faults.h"
#include "tests/sim/journal.h"
#include "tests/sim/node.h"
#include "tests/sim/plan.h"
#include "tests/sim/server.h"

enum { LAST_LINES = 50, LINE_BYTES = 200 };

/* Rules of the statements and of the edge that can be broken on purpose. */
enum mutant {
    MUTANT_NONE,
    MUTANT_NO_FENCE, /* a finish by id alone */

    MUTANTS
};

extern const char *const mutant_words[MUTANTS];

struct sim {
    uint64_t seed;
    struct random random;
    struct plan plan;
    enum mutant mutant;
    int64_t now_us;
    struct timeline timeline;
    struct server server;
    struct broker broker;
    struct node nodes[NODES_MAX];
    struct cleaner cleaners[CLEANERS_MAX];
    struct apps apps;
    struct journal journal;
    struct request *requests;
    int64_t last_request, last_incarnation, last_child, last_turn;
    int64_t calm_since_us; /* nothing went wrong with what all share since */
    bool healed, over;     /* no faults any more; all has ended */
    int64_t moments, n_runs;
    uint64_t digest; /* of all moments: the same schedule has the same */

    bool failed;
    char why[LINE_BYTES];
    bool tracing, keeping; /* each line at once; the last ones */
    size_t n_lines;
    char lines[LAST_LINES][LINE_BYTES];
};

/* Run the schedule of `seed`. ret: no invariant was broken */
bool sim_run(struct sim *s, uint64_t seed, bool faults, enum mutant mutant, bool tracing,
             bool keeping);

void sim_at(struct sim *s, int64_t at_us, moment_act *act, int who, int64_t arg);
void sim_after(struct sim *s, int64_t us, moment_act *act, int who, int64_t arg);
int64_t sim_hop(struct sim *s); /* how long one message takes */
void sim_faulted(struct sim *s, int64_t us);

/* An invariant is broken: the first one counts. */
void sim_broken(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_say(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define TRACE(s, ...) ((s)->tracing || (s)->keeping ? sim_say((s), __VA_ARGS__) : (void)0)

#endif
