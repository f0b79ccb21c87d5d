/* The question before what cannot be undone. */
#ifndef TENON_CLI_CONFIRM_H
#define TENON_CLI_CONFIRM_H

#include "core/base/fault.h"

/* Ask "continue?" at the terminal.
 *   what   "3 tasks would be deleted": where nobody can be asked, it is said
 *   false  CONFIG: nobody can be asked, and --yes was not given */
MUST_CHECK bool confirm(const char *what, bool *ret, struct fault *f);

#endif
