/* The thread that runs rounds: one database session, one round at a time. */
#ifndef TENON_WORKER_ROUND_H
#define TENON_WORKER_ROUND_H

#include "worker/decide/round.h"
#include "worker/handler.h"
#include "worker/log_lines.h"
#include "worker/mailbox.h"

enum {
    ROUND_LIMIT_MS = 20000, /* a round without an answer for this long is given up */
    ROUND_CLOSE_LIMIT_MS = 1000,
    ROUND_TEXT_BYTES_MAX = 256 << 20, /* of one parameter; ROUND_REPLY_BYTES_MAX bounds it before */
    WORKER_ID_BYTES = 37,
};

struct round_thread;

/* `url` and what is served are borrowed while it is open; the mailbox gets ROUND_DONE and
 * ROUND_FAILED. */
MUST_CHECK bool round_thread_open(const char *url, const struct served *served,
                                  struct mailbox *mailbox, struct round_thread **ret,
                                  struct fault *f);

/* Run `x` for this worker id; `x` belongs to the thread until it answers by mail. */
void round_thread_run(struct round_thread *e, struct round *x, const char *worker_id);

/* Write the line to tenon.log_line soon. */
void round_thread_log(struct round_thread *e, const struct log_line *line);

/* End the thread. Log lines that wait are written, if that takes no longer than the limit; a
 * statement that hangs is cut off. NULL is fine.
 *   false   it still tries to connect after ROUND_CLOSE_LIMIT_MS: end the process */
bool round_thread_close(struct round_thread *e);

#endif
