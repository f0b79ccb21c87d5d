#include "core/base/throttle.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t throttle_due(const struct throttle *r)
{
    return r->until_ms - THROTTLE_AHEAD_MS;
}

void throttle_charge(struct throttle *r, int64_t now_ms)
{
    int64_t from_ms = r->until_ms > now_ms ? r->until_ms : now_ms;
    r->until_ms = least(from_ms, now_ms + THROTTLE_AHEAD_MS) + THROTTLE_REST_MS;
}
