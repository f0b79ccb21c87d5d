/* What a worker has counted goes into tenon.minute, bit by bit. */
#ifndef TENON_WORKER_MINUTE_H
#define TENON_WORKER_MINUTE_H

#include "core/db/db.h"
#include "core/http/series.h"

struct minute;

/* `s` is what tally_started() and tally_ended() fill; borrowed. NULL when there is no memory. */
struct minute *minute_new(struct series *s);
void minute_free(struct minute *c); /* NULL is fine */

/* Write what came since the last time; nothing came: nothing is sent. What could not be written is
 * written the next time; if only the answer was lost, it counts twice. */
MUST_CHECK bool minute_write(struct minute *c, struct db *db, const char *worker_id,
                             struct fault *f);

#endif
