/* One child process and its three pipes. It leads its own process group, and dies with the
 * worker (PR_SET_PDEATHSIG, which the kernel ties to the thread that forked: only the main
 * thread forks). */
#ifndef TENON_WORKER_CHILD_H
#define TENON_WORKER_CHILD_H

#include "core/base/buf.h"
#include "worker/handler.h"

#include <sys/types.h>

enum {
    CHILD_DESCRIPTORS = 5,          /* its three pipes, its pidfd, and how exec failed */
    CHILD_DESCRIPTORS_OWN = 100,    /* a worker's sessions, RabbitMQ, and what a start needs */
    STARTING_BYTES = 128,           /* what it may say that it does before its hello */
    CHILD_TAIL_BYTES = 4096,        /* of stderr, the last of which are kept */
    CHILD_PRINTED_BYTES_MAX = 4096, /* a longer line on stderr is logged as several */
    CHILD_INPUT_BYTES_MAX =
        1 << 30, /* waiting to be written to its stdin; HELD_BYTES_MAX bounds it before */
};

struct child {
    const struct handler *handler; /* NULL = none */
    pid_t pid;                     /* 0 = reaped */
    int pidfd;                     /* readable when it has ended */
    int in;                        /* its stdin, -1 = closed */
    int out;                       /* its stdout */
    int err;                       /* its stderr */
    int failed;                    /* the errno of an exec that failed comes here */
    struct buf input;              /* what is to be written; `input_sent` bytes of it are */
    size_t input_sent;
    struct buf output; /* not yet used */
    size_t searched;   /* bytes of `output` that have no newline */
    size_t skipped; /* pool: bytes of a line that is too long, whose end has not come; 0 = none */
    char tail[CHILD_TAIL_BYTES + 1];
    size_t tail_bytes;
    int64_t err_bytes;             /* of stderr so far; */
    int64_t task_bytes;            /* those before its only task; -1 = it has several, or had */
    struct buf printed;            /* of stderr, if its lines are logged: what is not logged yet */
    bool close_input;              /* once `input` is written */
    bool stopped;                  /* it got a signal, so nothing of its group may outlive it */
    bool output_cut;               /* more than output's limit came; the rest is dropped */
    int64_t task;                  /* exec: the task it runs */
    bool said_hello;               /* pool */
    char starting[STARTING_BYTES]; /* pool: what it does before its hello; "" = it says nothing */
    int64_t answers;               /* pool: tasks that it has answered */
    bool recycled;                 /* pool: it has answered enough, or grown too large */
    bool pipe_closed;              /* pool: it closed its stdin or stdout */
    char broke[256]; /* pool: how it broke the protocol, and is killed; "" = it did not */
};

/* Before the first child: may this process open the descriptors that `n` children need? Raises the
 * soft limit for it if need be; the children get the old one.
 *   false   CONFIG: the hard limit is lower */
MUST_CHECK bool child_descriptors(int n, struct fault *f);

/* Start `h`, which is borrowed for its life. `env` ends with NULL and is borrowed for the call.
 *   payload      its whole stdin, there before it starts; NULL = a pipe, for `input`
 *   output_max   bytes of stdout kept at once
 *   false        RETRY: no process, no descriptor (one that cannot be executed shows at its end) */
MUST_CHECK bool child_start(struct child *c, const struct handler *h, char *const *env,
                            const char *payload, size_t payload_bytes, size_t output_max,
                            struct fault *f);

/* Bytes of `input` that wait to be written. */
size_t child_unwritten(const struct child *c);

/* Write what can be written; close when all is written and `close_input` says so. */
void child_write(struct child *c);

/* Read some of what is there, so that a flood stops nobody else; close what has ended. */
void child_read_output(struct child *c);
void child_read_error(struct child *c);

/* To the whole process group, and to the child should it have left that. */
void child_signal(struct child *c, int signal);

/* The memory that it holds, in MiB; 0 when that cannot be told. */
int64_t child_rss_mib(const struct child *c);

/* After its pidfd became readable: take what is left in the pipes, kill what it left behind in its
 * group if it was `stopped`, and say how it ended.
 *   text       "exit status 3", "killed by signal 11 (Aborted)", "could not be started: ..."
 *   ret        the exit status, or -1 for a signal, or -2 when it could not be executed */
int child_reap(struct child *c, char *text, size_t size);

/* Close and free everything; the process must have been reaped. */
void child_clear(struct child *c);

#endif
