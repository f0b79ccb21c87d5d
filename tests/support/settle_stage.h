/* What sql_settle_test stands on, in its database: limits, and functions that say what is wrong. */
#ifndef TENON_TESTS_SUPPORT_SETTLE_STAGE_H
#define TENON_TESTS_SUPPORT_SETTLE_STAGE_H

#include "tests/support/fixture.h"

/* Makes public.wrong(quiet), public.stuck() for when there is nothing to settle, and public.leaks()
 * for when all has ended: what is wrong, NULL = nothing; public.clear(): no task is there, and the
 * limits are as at the beginning; public.take(): tenon.take_limit(); and the tables public.made,
 * which has a row for each task, and public.sent, one for each signal. */
void settle_stage(struct fixture *fx);

/* The functions alone (settle_rules.c). */
void settle_rules(struct fixture *fx);

#endif
