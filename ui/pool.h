/* The sessions with PostgreSQL: a few for all requests, which wait for a free one. */
#ifndef TENON_UI_POOL_H
#define TENON_UI_POOL_H

#include "core/db/db.h"

enum {
    POOL_SESSIONS = 4,
    POOL_WAIT_LIMIT_MS = 5000,      /* for a free session */
    POOL_STATEMENT_LIMIT_MS = 5000, /* statement_timeout */
    POOL_ANSWER_LIMIT_MS = 8000,
    POOL_ASK_MS = 1000, /* pool_answers() asks once in this time */
};

struct pool;

/* Open the first session, to see that it can be had and that the schema fits.
 *   url     borrowed for ever
 *   false   as db_open() and schema_check() */
MUST_CHECK bool pool_open(const char *url, struct pool **ret, struct fault *f);
void pool_close(struct pool *p); /* NULL is fine; nobody may use it any more */

/* What the sessions are connected to, without secrets. */
const char *pool_where(const struct pool *p);

/* Run calls as db_batch() does, in whichever session is free.
 *   again   they may run twice: once more, if the session turns out to have been broken
 *   false   RETRY: no session was free in time, or as db_batch() */
MUST_CHECK bool pool_run(struct pool *p, struct db_call *calls, size_t n, bool again,
                         struct fault *f);

/* Does PostgreSQL answer? It is asked once in a second, however often the caller asks. */
bool pool_answers(struct pool *p);

#endif
