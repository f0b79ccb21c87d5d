#include "core/base/ration.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t ration_due(const struct ration *r)
{
    return r->until_ms - RATION_AHEAD_MS;
}

void ration_charge(struct ration *r, int64_t now_ms)
{
    int64_t from_ms = r->until_ms > now_ms ? r->until_ms : now_ms;
    r->until_ms = least(from_ms, now_ms + RATION_AHEAD_MS) + RATION_REST_MS;
}
