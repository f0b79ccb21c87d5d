/* The pool protocol as a child speaks it: tasks in on stdin, answers out on stdout.
 * docs/protocol.md is the contract. One thread at a time. */
#ifndef TENON_HANDLERS_POOL_H
#define TENON_HANDLERS_POOL_H

#include "core/base/buf.h"

enum {
    POOL_LINE_BYTES_MAX = 128 << 20, /* a task line; the worker holds 64 MiB of payloads */
    POOL_REPLY_BYTES_MAX = 2 << 20,  /* a reply without its line feed */
    POOL_PROGRESS_BYTES_MAX = 64 << 10,
    POOL_IN_FLIGHT_MAX = 1024,
};

struct pool {
    struct buf in, out;
    size_t taken; /* of `in`, by pool_take() */
    bool ended;   /* no more lines come */
    int fd;       /* answers go there: stdout */
};

/* A task as it came: all texts are in `line`, and the payload is what PostgreSQL printed. */
struct pool_task {
    char *line;
    int64_t id, timeout_ms, attempt, failures, max_attempts;
    const char *kind, *queue, *claim, *progress, *payload;
    const char *trace; /* NULL = none */
    size_t payload_bytes;
};

enum pool_type { POOL_NOTHING, POOL_TASK, POOL_STOP, POOL_DRAIN };

struct pool_message {
    enum pool_type type;
    struct pool_task task; /* of POOL_TASK; the caller frees it with pool_task_clear() */
    int64_t stop;          /* of POOL_STOP: which task */
};

struct pool_answer {
    const char *outcome, *error, *class; /* error, class: NULL = none */
    int64_t delay_ms;                    /* 0 = none */
};

/* Say hello: `n` tasks at once, and stop lines are understood. */
void pool_open(struct pool *p, int in_flight);
void pool_close(struct pool *p);

/* Read what is there, or wait for it; sets `ended` at the end of stdin. */
MUST_CHECK bool pool_read(struct pool *p, struct fault *f);

/* The next whole line of what was read; POOL_NOTHING when there is none.
 *   false   it is nothing that a worker says, or no memory */
MUST_CHECK bool pool_take(struct pool *p, struct pool_message *ret, struct fault *f);
void pool_task_clear(struct pool_task *task);

/* Answers, kept until pool_flush().
 *   result     JSON, also on many lines; NULL = none
 *   otherwise  a note in place of a result that is not JSON, or too long; NULL = then no result */
void pool_done(struct pool *p, int64_t id, const char *result, size_t bytes, const char *otherwise);
void pool_answer(struct pool *p, int64_t id, const struct pool_answer *answer);
/* About a task that runs. False: that is no JSON, or longer than the worker takes. */
bool pool_progress(struct pool *p, int64_t id, const char *json, size_t bytes);
void pool_extend(struct pool *p, int64_t id, int64_t ms);

/* From now on `n` tasks at once; more than that may still come. */
void pool_in_flight(struct pool *p, int n);

/* No more tasks: what is answered by the end of this process counts, the rest is released. */
void pool_bye(struct pool *p);

MUST_CHECK bool pool_flush(struct pool *p, struct fault *f);

#endif
