/* What of the worker's own environment its handlers get: all but what the worker connects with.
 * docs/handlers-file.md, "Environment", has the rule. */
#ifndef TENON_WORKER_ENVIRONMENT_H
#define TENON_WORKER_ENVIRONMENT_H

#include "core/options/option.h"

/* The variables that a handler gets, borrowed from `environ`; ends with NULL, free(). NULL when
 * there is no memory.
 *   names    what is passed on all the same, besides what --pass-env names; ends with NULL, or is
 *            NULL
 *   only     besides those, what it gets of the rest; NULL or empty = all of it
 *   instead  "NAME=value", borrowed, each in the place of the variable of that name, and beside the
 *            rest where all of it is passed on, or `only` names it; ends with NULL */
char **environment_of(const struct options *o, char *const *names, char *const *only,
                      char *const *instead);

#endif
