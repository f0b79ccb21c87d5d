#include "core/ration.h"

int64_t ration_due(const struct ration *r)
{
    return r->until_ms - RATION_AHEAD_MS;
}

void ration_charge(struct ration *r, int64_t now_ms)
{
    r->until_ms = (r->until_ms > now_ms ? r->until_ms : now_ms) + RATION_REST_MS;
}
