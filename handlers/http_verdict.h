/* What the answer of an endpoint means for the task. */
#ifndef TENON_HANDLERS_HTTP_VERDICT_H
#define TENON_HANDLERS_HTTP_VERDICT_H

#include "handlers/pool.h"

#include <time.h>

enum {
    RESPONSE_BYTES_MAX = 64 << 10,         /* what is read of a response's body */
    EXCERPT_BYTES_MAX = 512,               /* how much of it an error shows */
    RETRY_AFTER_MS_MIN = 1000,             /* for 0, and what has passed */
    RETRY_AFTER_MS_UNREAD = 60000,         /* for what cannot be read */
    RETRY_AFTER_MS_MAX = 24 * 3600 * 1000, /* a receiver may not ask for more patience */
};

struct http_reply {
    long status;            /* 0 = there was none */
    int64_t retry_after_ms; /* of its header; -1 = it had none */
    const char *body;       /* its first RESPONSE_BYTES_MAX bytes */
    const char *error;      /* why the transfer failed; NULL = it did not */
    const char *class;      /* of that error */
};

enum { VERDICT_TEXT_BYTES = 1024, VERDICT_CLASS_BYTES = 24 };

struct verdict {
    struct pool_answer answer; /* its texts are here, or in the reply */
    char text[VERDICT_TEXT_BYTES], class[VERDICT_CLASS_BYTES];
};

/* How long to wait for a Retry-After that says this: seconds, also "1.5", or a date of HTTP. */
int64_t retry_after_ms(const char *said, time_t now_s);

/* 2xx is done. 429 and 503 with a Retry-After, whatever it says: later, uncharged: the receiver is
 * well and says when, and a pause of his, however long, is to kill no task. Without one, all other
 * 5xx, 408, 425 and whatever fails on the way: failed. The rest, 3xx and 4xx, cannot get better by
 * itself: dead, or failed if `retry_4xx`. */
void verdict_of(const struct http_reply *reply, bool retry_4xx, struct verdict *ret);

#endif
