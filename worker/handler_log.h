/* The log lines of a pool child: {"id":17,"log":{"level":"info","message":"..."}}. They go to the
 * worker's log with the task, its kind and its attempt, and to tenon.log_line. Nothing in them
 * fails a task. */
#ifndef TENON_WORKER_HANDLER_LOG_H
#define TENON_WORKER_HANDLER_LOG_H

#include "core/base/scan.h"
#include "worker/decide/event.h"

enum {
    LOG_MESSAGE_BYTES_MAX = 4096, /* of a longer one the middle is left out */
    LOG_FIELDS_BYTES_MAX = 2048,  /* longer ones are left out */
    LOG_LINES_MAX = 1000,         /* of an attempt */
    LOG_BYTES_MAX = 256 << 10,    /* the same: messages and fields */
};

/* Sets type, log_level, message and fields of the event; the caller frees the texts. A value that
 * is not such an object becomes a message. False: no memory. */
MUST_CHECK bool handler_log_read(const struct scanned *log, struct event *event);

struct round_thread;

/* Log it and have it stored, as long as the attempt has not used up its lines and bytes. */
void handler_log_note(struct claim *task, const struct event *event, struct round_thread *rounds);

/* The lines that a failing attempt has written to stderr: the same, as info, with the field stream.
 * `logged`: the worker's log has them already. */
void handler_log_printed(struct claim *task, const struct buf *lines, bool logged,
                         struct round_thread *rounds);

/* A line on stderr, for the worker's log. NULL: the child has no task, or several. */
void handler_log_line(const struct claim *task, const char *text);

#endif
