/* Which tasks a command is about: ids on its command line, or a filter of its options. */
#ifndef TENON_CLI_FILTER_H
#define TENON_CLI_FILTER_H

#include "core/base/buf.h"
#include "core/options/option.h"

struct db; /* core/db/db.h */

enum { FILTER_BYTES_MAX = 4 << 20 };

/* Is this a task's number? false: CONFIG */
MUST_CHECK bool id_check(const char *text, struct fault *f);

/* The filter as JSON for tenon.find and tenon.change; arguments that begin at `first` are ids. Only
 * what is on the command line counts.
 *   b       is initialised here, the caller clears it
 *   false   CONFIG: an argument is no id; MEMORY */
MUST_CHECK bool filter_read(struct buf *b, const struct options *o, size_t first, struct fault *f);

/* "{}": any task. */
bool filter_is_empty(const struct buf *b);

/* After no task has fitted: if an error was asked for, say on stderr which classes of errors those
 * tasks have that match except for it.
 *   act     as tenon.find takes it, or NULL
 *   false   the fault of the session */
MUST_CHECK bool filter_tell_errors(const struct buf *filter, const struct options *o,
                                   const char *act, struct db *db, struct fault *f);

/* Put ,"key": or, as the first of an object, "key": */
void json_put_key(struct buf *b, const char *key);
/* And a text, if it is one. */
void json_put_pair(struct buf *b, const char *key, const char *text);

#endif
