#include "core/db/sqlstate.h"

#include <string.h>

bool sqlstate_is(const char *state, const char *list)
{
    for (const char *at = list; *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        if (strncmp(state, at, len) == 0) {
            return true;
        }
        at += len;
    }
    return false;
}

enum fault_code sqlstate_fault(const char *state)
{
    if (!*state || sqlstate_is(state, "08 57P 25006 53")) {
        return FAULT_RETRY;
    }
    if (sqlstate_is(state, "40 55P03 57014")) {
        return FAULT_AGAIN;
    }
    if (sqlstate_is(state, "22 23 54")) { /* 54: too deep, too large */
        return FAULT_ROW;
    }
    if (sqlstate_is(state, "28 3D 42501 3F")) {
        return FAULT_CONFIG;
    }
    return FAULT_BUG;
}
