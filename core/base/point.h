/* Named points between two steps, at which a test makes a process fail.
 *
 * Only builds with TENON_POINTS know them (the preset dev); else POINT() and POINT_FAILS() are
 * nothing, and no environment is read. One point of a process is armed by its environment:
 *
 *   TENON_POINT=NAME:NTH:ACTION     the NTH time (1, 2, ...) that NAME is reached, do
 *      kill        SIGKILL to itself             error      the function fails with a fault RETRY
 *      freeze      SIGSTOP to itself             sleep=MS   the thread sleeps
 *      exit        _exit(70)
 *   TENON_POINT_LOG=FILE            made first, with the name in it, so that a test can see that
 *                                   the point was reached. Who finds the file there does nothing:
 *                                   of several processes with one environment one strikes, once.
 *
 * tests/faults/crash_points_test.c strikes at every point of the list. */
#ifndef TENON_CORE_POINT_H
#define TENON_CORE_POINT_H

#include "core/base/fault.h"

/* name, and what has happened when it is reached */
#define POINT_LIST(X)                                                                              \
    /* producer: libtenon */                                                                       \
    X(producer_inserted, "the row is inserted, its id not yet remembered")                         \
    X(producer_committing, "COMMIT is not yet sent")                                               \
    X(producer_committed, "committed, nothing is given to the publisher")                          \
    /* publisher: libtenon's and the cleaner's thread */                                           \
    X(publish_taken, "ids are taken from the ring, not yet sent")                                  \
    X(publish_sent, "sent, not confirmed")                                                         \
    /* worker */                                                                                   \
    X(worker_registered, "the row is there, its lock is free")                                     \
    X(worker_locked, "the lock is held, nothing else is open")                                     \
    X(round_planned, "the round is made up, not yet sent")                                         \
    X(finish_planned, "the same, and it finishes tasks")                                           \
    X(hot_sent, "a batch is sent, its answer is not read; the cleaner's too")                      \
    X(claims_committed, "tasks are claimed, nobody has looked at the answer")                      \
    X(finish_committed, "tasks are finished, nobody has looked at the answer")                     \
    X(requeue_committed, "tasks are requeued, nobody has read the answer")                         \
    X(turn_taken, "it has the turn to run suspects, nobody knows")                                 \
    X(turn_over, "its turn is given back, nobody knows")                                           \
    X(task_claimed, "the main loop knows the claim, no child has it")                              \
    X(child_spawned, "the child of an exec handler runs, nobody knows")                            \
    X(task_written, "a task is written to its child")                                              \
    X(reply_received, "the child has answered, nobody knows")                                      \
    X(ack_due, "a round has committed, its wake-ups are not acked")                                \
    X(ack_sent, "the ack is sent")                                                                 \
    X(drain_begun, "the row says draining, tasks still run")                                       \
    X(leave_due, "all is over, the row does not say left")                                         \
    /* a test's handler (tests/support/handlers/pool.c) */                                         \
    X(handler_begun, "the task is read, nothing is done")                                          \
    X(handler_effect, "effect and tenon.finish() are committed, no answer is given")               \
    X(handler_answered, "the answer is written")                                                   \
    /* cleaner */                                                                                  \
    X(leader_elected, "the leader's lock is held, nothing is started")                             \
    X(fresh_read, "fresh rows are read, none is published")                                        \
    X(fresh_published, "some of the fresh rows are published")                                     \
    X(due_read, "rows were read as due, none is published")                                        \
    X(worker_found_dead, "workers are dead, their rows say alive")                                 \
    X(worker_declared_dead, "their rows say dead, none of their tasks is requeued")                \
    X(tasks_recovered, "up to 500 tasks are requeued, not counted, none is published")             \
    X(recover_rest, "more than those 500 are theirs")                                              \
    /* the relay in the cleaner; tests/cleaner/relay_faults_test.c strikes there */                \
    X(relay_read, "messages are read, none of them is sent")                                       \
    X(relay_sent, "a message is sent, not confirmed")                                              \
    X(relay_confirmed, "messages are confirmed, not deleted")                                      \
    X(relay_deleted, "they are deleted, nobody has read the answer")                               \
    /* intake */                                                                                   \
    X(intake_arrived, "messages have arrived, none is in the database")                            \
    X(intake_committed, "they are tasks, none is acknowledged")                                    \
    X(intake_acknowledged, "the acknowledgement is sent")

#ifdef TENON_POINTS

#define POINT_ENUM(name, what) POINT_##name,
enum point { POINT_LIST(POINT_ENUM) POINTS };
#undef POINT_ENUM

#define POINT(name) ((void)point_reached(POINT_##name, NULL))
#define POINT_FAILS(name, f) point_reached(POINT_##name, (f))

/* Does nothing unless this point is armed and it is its turn. Any thread.
 *   f     NULL where no error is possible: to ask for one there ends the process with a message
 *   ret   true when the function must fail; `f` is set */
bool point_reached(enum point point, struct fault *f);

#else

#define POINT(name) ((void)0)
#define POINT_FAILS(name, f) ((void)(f), false)

#endif

#endif
