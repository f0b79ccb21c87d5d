#include "handlers/sql_verdict.h"

#include "core/db/sqlstate.h"
#include "core/options/option.h"

#include <stdio.h>
#include <string.h>

enum { SNOOZE_MS_MAX = 30 * 24 * 3600 * 1000LL };

static int64_t later_ms(const char *detail)
{
    int64_t ms = 0;
    bool ok = detail && duration_parse(detail, &ms) && ms >= 1 && ms <= SNOOZE_MS_MAX;
    return ok ? ms : 0;
}

static void decide(const struct sql_error *e, struct pool_answer *answer)
{
    answer->outcome = "failed";
    if (sqlstate_is(e->sqlstate, SQLSTATE_DEAD)) {
        answer->outcome = "dead";
    } else if (sqlstate_is(e->sqlstate, SQLSTATE_SNOOZE)) {
        answer->outcome = "snooze";
        answer->delay_ms = later_ms(e->detail);
    } else if (sqlstate_is(e->sqlstate, "57P01 57P02 57P03")) {
        answer->outcome = "interrupted";
    } else if (sqlstate_is(e->sqlstate, "40001 40P01")) {
        answer->delay_ms = AGAIN_MS;
    }
}

void sql_verdict_of(const struct sql_error *e, struct sql_verdict *v)
{
    v->answer = (struct pool_answer){.error = v->text, .class = v->class};
    decide(e, &v->answer);
    (void)snprintf(v->class, sizeof v->class, "%s", e->sqlstate);
    (void)snprintf(v->text, sizeof v->text, "%s%s%s%s%s%s", e->message, e->detail ? " (" : "",
                   e->detail ? e->detail : "", e->detail ? ")" : "", e->context ? "\n" : "",
                   e->context ? e->context : "");
}
