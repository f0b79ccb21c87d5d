/* The kinds that a child of the handler "*" names in its hello: a text of them, sorted, with commas
 * between. */
#ifndef TENON_WORKER_KINDS_H
#define TENON_WORKER_KINDS_H

#include "core/base/fault.h"
#include "core/base/scan.h"

enum { NAMED_KINDS_MAX = 1000 };

/* Read them from the array of the hello.
 *   ret      the caller frees it; NULL if they are refused
 *   false    REFUSED: there is no array, or something in it is not a kind; or no memory */
MUST_CHECK bool kinds_read(const struct scanned *array, char **ret, struct fault *f);

/* The first kind that only `a` has, of two such texts; NULL = none. Each is read once: a worker
 * with a thousand kinds asks for each child. */
const char *kinds_other(const char *a, const char *b, size_t *bytes);

#endif
