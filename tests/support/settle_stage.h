/* What sql_settle_test stands on, in its database: limits, and functions that say what is wrong. */
#ifndef TENON_TESTS_SUPPORT_SETTLE_STAGE_H
#define TENON_TESTS_SUPPORT_SETTLE_STAGE_H

#include "tests/support/fixture.h"

/* Makes public.wrong(): what is wrong, NULL = nothing; public.clear(): no task is there; and the
 * table public.made, which has a row for each task. */
void settle_stage(struct fixture *fx);

#endif
