/* Inside of `tenon schedule`: what cli/schedules/schedule.c calls for the actions that have files
 * of their own. Each answers on stdout. */
#ifndef TENON_CLI_SCHEDULE_H
#define TENON_CLI_SCHEDULE_H

#include "core/db/db.h"
#include "core/options/option.h"

/* All schedules, or all about one. false: ABSENT, and what the database says */
MUST_CHECK bool schedule_list(struct db *db, const struct options *o, struct fault *f);
MUST_CHECK bool schedule_show(struct db *db, const struct options *o, struct fault *f);

/* The coming ticks of a schedule, or of --cron. */
MUST_CHECK bool schedule_next(struct db *db, const struct options *o, struct fault *f);

/* Make the database's schedules those of a file, docs/schedules.md#a-file-of-schedules.
 *   false   CONFIG: the file cannot be read, or a line, which is named */
MUST_CHECK bool schedule_sync(struct db *db, const struct options *o, struct fault *f);

#endif
