#include "cleaner/chores.h"

#include "cleaner/recover.h"
#include "cleaner/session.h"
#include "cleaner/statements.h"
#include "core/base/log.h"

#include <stdio.h>

static void say(const char *event, const struct recovered *sum)
{
    if (sum->tasks > 0) {
        log_event(LOG_WARNING, LOG_EVENT(event), LOG_NUM("tasks", sum->tasks),
                  LOG_NUM("dead", sum->dead));
    }
}

bool deadlines_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    char grace[24];
    struct recovered expired = {0}, orphaned = {0};
    (void)turn;
    (void)snprintf(grace, sizeof grace, "%d seconds", CLEANER_GRACE_S);
    bool ok = session_plain(c, f) && recover_all(c, &sql_deadlines_expired, grace, &expired, f) &&
              recover_all(c, &sql_deadlines_orphans, NULL, &orphaned, f);
    say("tasks_expired", &expired);
    say("tasks_orphaned", &orphaned);
    return ok;
}
