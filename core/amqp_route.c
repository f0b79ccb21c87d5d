#include "core/amqp_route.h"

#include "core/amqp_publisher.h"

void route_forget(struct route *r)
{
    r->answered = false;
    r->ready = 0;
    r->published_then = r->published;
}

static bool is_fresh(const struct route *r, int64_t now_ms)
{
    return r->answered && now_ms - r->answered_ms < ROUTE_FRESH_MS;
}

static int64_t left(const struct route *r, int64_t window)
{
    return window - r->ready - (r->published - r->published_then);
}

int64_t route_room(const struct route *r, int64_t window, int64_t now_ms)
{
    if (r->shut_until_ms > now_ms) {
        return 0;
    }
    int64_t room = left(r, window) - r->pending;
    return !r->answered ? -1 : room > 0 ? room : 0;
}

bool route_accepts(const struct route *r, int64_t window, int64_t now_ms)
{
    return r->shut_until_ms <= now_ms && (!is_fresh(r, now_ms) || left(r, window) > r->pending);
}

/* Before the first answer a few may go at once: an idle producer's first id must not wait. */
enum route_verdict route_verdict(const struct route *r, int64_t window, int64_t now_ms)
{
    if (r->shut_until_ms > now_ms) {
        return ROUTE_DROP;
    }
    if (!r->answered) {
        int64_t at_once = window < PUBLISHER_ASK_EVERY ? window : PUBLISHER_ASK_EVERY;
        return r->published - r->published_then < at_once ? ROUTE_GO : ROUTE_HOLD;
    }
    if (left(r, window) > 0) {
        return ROUTE_GO;
    }
    return is_fresh(r, now_ms) ? ROUTE_DROP : ROUTE_HOLD;
}

bool route_is_due(const struct route *r, int64_t now_ms)
{
    int64_t since = r->published - r->published_then;
    bool used = since > 0 || (r->pending > 0 && r->shut_until_ms <= now_ms);
    return r->wants_ask || (used && (!is_fresh(r, now_ms) || since >= PUBLISHER_ASK_EVERY));
}

void route_asked(struct route *r)
{
    r->wants_ask = false;
    r->published_asked = r->published;
}

void route_answered(struct route *r, int64_t ready, int64_t now_ms)
{
    r->answered = true;
    r->answered_ms = now_ms;
    r->ready = ready;
    r->published_then = r->published_asked;
}

void route_shut(struct route *r, int64_t now_ms, int64_t jitter_ms)
{
    r->shut_until_ms = now_ms + ROUTE_SHUT_MS + jitter_ms;
}
