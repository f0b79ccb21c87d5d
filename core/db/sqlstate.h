/* SQLSTATEs, the server's codes of errors (PostgreSQL manual, appendix A). */
#ifndef TENON_CORE_SQLSTATE_H
#define TENON_CORE_SQLSTATE_H

#include "core/base/fault.h"

#include <stdbool.h>

/* Does it begin with one of these, which are separated by a space? "08 57P 42P01": two are
 * classes, one is a code. */
bool sqlstate_is(const char *state, const char *list);

/* What it means for the caller; "" = the server has not answered. */
enum fault_code sqlstate_fault(const char *state);

#endif
