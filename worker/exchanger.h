/* The thread that runs exchanges: one database session, one exchange at a time. */
#ifndef TENON_WORKER_EXCHANGER_H
#define TENON_WORKER_EXCHANGER_H

#include "worker/handler.h"
#include "worker/mailbox.h"

enum {
    EXCHANGE_LIMIT_MS = 20000, /* an exchange without an answer for so long is given up */
    EXCHANGER_CLOSE_LIMIT_MS = 1000,
    EXCHANGE_TEXT_BYTES_MAX = 256 << 20, /* all results of one exchange together */
    WORKER_ID_BYTES = 37,
};

struct exchanger;

struct exchanger_settings {
    const char *url; /* borrowed while it is open, as are the others */
    const struct handler *handlers;
    int n_handlers;
    const char *const *queues;
    size_t n_queues;
    struct mailbox *mailbox; /* gets EXCHANGED and EXCHANGE_FAILED */
};

MUST_CHECK bool exchanger_open(const struct exchanger_settings *settings, struct exchanger **ret,
                               struct fault *f);

/* Run `x` for this worker id; `x` belongs to the thread until it answers by mail. */
void exchanger_run(struct exchanger *e, struct exchange *x, const char *worker_id);

/* End the thread; a statement that hangs is cut off. NULL is fine.
 *   false   it still tries to connect after EXCHANGER_CLOSE_LIMIT_MS: end the process */
bool exchanger_close(struct exchanger *e);

#endif
