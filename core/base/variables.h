/* ${NAME} in a file that libconfuse reads: it takes a variable that is not set for an empty text,
 * which nobody would see. */
#ifndef TENON_CORE_VARIABLES_H
#define TENON_CORE_VARIABLES_H

#include "core/base/fault.h"

/* Is every variable set that the text names? ${NAME:-VALUE} has a value of its own.
 *   path    for messages
 *   false   CONFIG: file, line and name of the first that is not */
MUST_CHECK bool variables_are_set(const char *path, const char *text, struct fault *f);

#endif
