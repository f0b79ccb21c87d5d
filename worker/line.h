/* What worker and handler say to each other: task lines, hello and reply lines of a pool child,
 * variables and exit status of an exec child. docs/protocol.md is the contract. */
#ifndef TENON_WORKER_LINE_H
#define TENON_WORKER_LINE_H

#include "core/base/scan.h"
#include "worker/child.h"
#include "worker/decide/event.h"
#include "worker/decide/writes.h"

enum {
    RESULT_BYTES_MAX = 256 << 10,       /* stdout of an exec handler */
    LINE_BYTES_MAX = 2 << 20,           /* one line of a pool child */
    LINE_SKIPPED_BYTES_MAX = 64 << 20,  /* a longer one ends its child */
    PRINTED_BYTES_MAX = LINE_BYTES_MAX, /* a result, as PostgreSQL prints it */
};
enum {
    EXIT_DONE = 0,
    EXIT_DEAD = 65,
    EXIT_SNOOZE = 75
}; /* EX_DATAERR and EX_TEMPFAIL of sysexits.h */
enum { STEP_LINE_BYTES_MAX = STEPS_BYTES_MAX + 1024 }; /* with its name */
enum { SNOOZE_DELAY_MS = 60000, DELAY_MS_MAX = 30 * 24 * 3600 * 1000LL };
#define WAIT_MS_MAX (365 * 24 * 3600 * 1000LL)

/* The text of TENON_TASK_CLAIM: "id/claims/key in hexadecimal". */
void line_put_claim(struct buf *b, const struct claim *task);

/* The line before `n` task lines, which belong together. */
void line_put_number(struct buf *b, int n);

/* One task line, with its newline. The payload is copied as PostgreSQL printed it. */
void line_put_task(struct buf *b, const struct claim *task);

/* A copy of text from a handler as PostgreSQL can store it: what is not UTF-8, and NUL, becomes
 * U+FFFD. NULL when there is no memory. */
char *line_clean_text(const char *text, size_t bytes);

/* The environment of a child: that of its handler, borrowed, and for an exec child the task's
 * variables. One allocation; NULL when there is no memory. */
char **line_environment(char *const *own_env, const struct claim *task);

/* The line that asks a pool child to stop a task, 0 = all that it has. */
void line_put_stop(struct buf *b, int64_t task, const char *why);

/* The line that tells a pool child what became of a step. */
void line_put_step(struct buf *b, int64_t task, const char *name, bool recorded);

struct hello {
    int in_flight;
    bool stop;                     /* it understands the line that asks it to stop, */
    bool chunks;                   /* and the one that says how many tasks follow together */
    struct scanned kinds;          /* what it can run, not judged; within the line */
    char starting[STARTING_BYTES]; /* it is none yet, but says what the child does; else "" */
};

/* The first line of a pool child, and the next ones while it starts. `bytes` without the newline,
 * where the text is NUL-terminated. */
MUST_CHECK bool line_parse_hello(const char *line, size_t bytes, struct hello *ret,
                                 struct fault *f);

/* Any other line of a pool child, or the beginning of one that is longer than LINE_BYTES_MAX. Sets
 * type: REPLY, PROGRESS, STEP, LOG, CHILD_RETIRES, or CHILD_READY with room, the number of tasks
 * that it takes at once from now on; for a reply id, outcome, delay_ms, and reply, error and
 * signal, which the caller frees; for PROGRESS id, extend_ms, and progress, which the caller frees
 * too; for STEP id, name, and step, the same; for LOG id, and what handler_log_read() sets. If the
 * line names its task, a mistake concerns that task alone: a reply with a mistake becomes a
 * failure, and a result that PostgreSQL cannot store a note. Progress and steps that it cannot
 * store become an empty text, and a time that cannot be added -1: these are refused.
 *   false   nobody can tell which task is meant, or no memory */
MUST_CHECK bool line_parse(const char *line, size_t bytes, struct event *event, struct fault *f);

/* How a child ended, what it did if it had not said hello, and the last that it said on stderr.
 * NULL when there is no memory. */
char *line_child_error(const struct child *c, const char *how);

/* The outcome of an exec child from its exit status (-1 = a signal) and its output. */
void line_exec_outcome(const struct child *c, int status, const char *text, struct event *event);

#endif
