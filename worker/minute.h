/* Writes what a worker has counted into tenon.minute. */
#ifndef TENON_WORKER_MINUTE_H
#define TENON_WORKER_MINUTE_H

#include "core/db/db.h"
#include "core/http/series.h"

struct minute;

/* `s` is what tally_started() and tally_ended() fill; borrowed. NULL when there is no memory. */
struct minute *minute_new(struct series *s);
void minute_free(struct minute *m); /* NULL is fine */

/* Write the difference since the last successful write; nothing is sent if there is none. After a
 * failure the next call writes it again, so it counts twice if only the answer was lost.
 *   limit_ms   how long the answer may take */
MUST_CHECK bool minute_write(struct minute *m, struct db *db, const char *worker_id,
                             int64_t limit_ms, struct fault *f);

#endif
