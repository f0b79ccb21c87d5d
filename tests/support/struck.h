/* One round of tests/faults/crash_points_test.c: what an armed process left behind,
 * and the verdict. */
#ifndef TENON_TESTS_SUPPORT_STRUCK_H
#define TENON_TESTS_SUPPORT_STRUCK_H

#include "tests/support/fixture.h"

#include <sys/types.h>

/* What a process of the round gets, so that it strikes and can be told from the others. */
struct struck {
    struct fixture *fx;
    char point[128];   /* TENON_POINT=... */
    char log[300];     /* TENON_POINT_LOG=... */
    char journal[300]; /* TEST_JOURNAL=..., of its handlers alone */
    const char *env[4];
    int64_t base; /* tasks of this round have ids above */
};

/* A new round. `nth` is how often the point is reached until it strikes. */
void struck_init(struct struck *s, struct fixture *fx, const char *point, int nth,
                 const char *action);

/* Two suspects of the round, and an ordinary task that is not due. */
void struck_suspects(const struct struck *s);

/* Wait until both are done and nobody has the turn; the ordinary one is cancelled. */
void struck_await_suspects(const struct struck *s, int64_t limit_ms);

/* Wait until the point was reached and there are tasks of the round, which a worker has claimed if
 * `claimed` says so: in a slow flow there may be none for a moment. */
void struck_await(const struct struck *s, bool claimed, int64_t limit_ms);

/* Wait for the first run by the armed process. */
void struck_await_run(const struct struck *s, int64_t limit_ms);

/* Wait until the kernel says that a process is stopped. */
void struck_await_stopped(pid_t pid, int64_t limit_ms);

/* Wait until every task of the round has ended. Retries of failed tasks need not wait out their
 * delay when `hurry` says so. */
void struck_await_ended(struct struck *s, bool hurry, int64_t limit_ms);

/* Remember what the worker with this process id has claimed at this moment, of those tasks that
 * take their time when they run again. */
void struck_note_claims(struct struck *s, pid_t pid);

/* Wait until another worker holds, or has ended, the one of those tasks whose run ended first. */
void struck_await_elsewhere(struct struck *s, int64_t limit_ms);

/* Remember what has ended so far: the verdict finds a change of it. */
void struck_record_end_of(struct struck *s);

/* The verdict by the application's tables and the journals: nothing lost, nothing run that was
 * rolled back, no claim run twice, nothing done before its run was, nothing run after its end,
 * effects once; and every run for nothing was one of the armed process, or there was none if
 * `excused` is false; and what was noted as ended is as it was. */
void struck_judge(struct struck *s, bool excused);

#endif
