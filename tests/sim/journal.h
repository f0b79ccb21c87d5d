/* What handlers would append to a file: one entry for each run. */
#ifndef TENON_TESTS_SIM_JOURNAL_H
#define TENON_TESTS_SIM_JOURNAL_H

#include "tests/sim/statements.h"

struct node;

enum run_end {
    RUN_GOES_ON,
    RUN_DONE,    /* it said so */
    RUN_FAILED,  /* it said so; later and dead too */
    RUN_CRASHED, /* of itself */
    RUN_KILLED,  /* by the worker */
    RUN_DIED,    /* with the worker */
    RUN_RETIRED, /* its child answered another task, and ended well */
};

struct run_entry {
    struct fence fence;
    int heard;                /* what its worker heard last of its progress */
    int worker, node, before; /* before: the entry of the task's last run, -1 = none */
    int64_t claimed_us, start_us, end_us;
    enum run_end end;
    bool bad; /* said done, with a result that cannot be stored */
};

struct journal {
    struct run_entry *entries;
    int n, cap;
    int64_t doubled; /* runs of a task that ran already, to its end or still */
};

int journal_start(struct sim *s, const struct node *n, int worker, struct fence fence);
void journal_end(struct sim *s, int entry, enum run_end end, bool bad);
void journal_hear(struct sim *s, int64_t id, int claims, int said);
const struct run_entry *journal_find(const struct sim *s, int64_t id, int claims);
void journal_free(struct sim *s);

#endif
