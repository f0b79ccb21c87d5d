#include "core/sqlstate.h"

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
