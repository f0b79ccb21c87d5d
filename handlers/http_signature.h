/* Signatures of what is sent, by which the receiver knows that it is ours and not old. */
#ifndef TENON_HANDLERS_HTTP_SIGNATURE_H
#define TENON_HANDLERS_HTTP_SIGNATURE_H

#include "handlers/pool.h"

enum { SECRETS_MAX = 4, SECRET_BYTES_MIN = 16, SECRET_FILE_BYTES_MAX = 4096 };

/* A file with a secret on each line: all sign, so that one can be exchanged for another. */
struct secrets {
    struct buf text;
    const char *each[SECRETS_MAX];
    size_t n;
};

MUST_CHECK bool secrets_read(struct secrets *s, const char *path, struct fault *f);
void secrets_clear(struct secrets *s);

/* "Tenon-Signature: t=1767225600,v2=5257a869...": HMAC-SHA256 in hexadecimal digits, one v2 for
 * each secret, over the time, the task's id, kind and attempt and the URL, a line each, and the
 * body.
 *   time_s   seconds since 1970 */
void signature_put(struct buf *b, const struct secrets *s, int64_t time_s,
                   const struct pool_task *task, const char *url);

#endif
