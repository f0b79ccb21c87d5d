#include "core/amqp_confirms.h"

static uint64_t *word_of(struct confirms *c, uint64_t tag)
{
    return &c->answered[tag % CONFIRMS_MAX / 64];
}

static uint64_t bit_of(uint64_t tag)
{
    return UINT64_C(1) << tag % 64;
}

void confirms_reset(struct confirms *c)
{
    *c = (struct confirms){.first = 1, .next = 1};
}

bool confirms_full(const struct confirms *c)
{
    return c->next - c->first == CONFIRMS_MAX;
}

void confirms_sent(struct confirms *c)
{
    c->next++;
    c->open++;
}

/* Forget the lowest tag; true when it had no answer until now. */
static bool drop_first(struct confirms *c)
{
    uint64_t *word = word_of(c, c->first), bit = bit_of(c->first);
    bool news = !(*word & bit);
    *word &= ~bit;
    c->first++;
    return news;
}

int64_t confirms_take(struct confirms *c, uint64_t tag, bool multiple)
{
    int64_t n = 0;
    if (multiple && tag == 0) {
        tag = c->next - 1;
    }
    if (tag < c->first || tag >= c->next) {
        return 0;
    }
    while (multiple && c->first <= tag) {
        n += drop_first(c);
    }
    if (!multiple && !(*word_of(c, tag) & bit_of(tag))) {
        *word_of(c, tag) |= bit_of(tag);
        n = 1;
    }
    while (c->first < c->next && (*word_of(c, c->first) & bit_of(c->first))) {
        (void)drop_first(c);
    }
    c->open -= n;
    return n;
}

void refusals_note(struct refusals *r, int64_t now_ms)
{
    if (r->last_ms == 0 || now_ms - r->last_ms > REFUSALS_QUIET_MS) {
        /* a channel that was good for longer than the last pause ends the doubling */
        bool good = now_ms - r->last_ms > r->patience_ms + REFUSALS_QUIET_MS;
        r->patience_ms = good || r->patience_ms == 0 ? REFUSALS_MS_MIN : r->patience_ms;
        r->first_ms = now_ms;
    }
    r->last_ms = now_ms;
}

bool refusals_too_long(struct refusals *r)
{
    if (r->last_ms == 0 || r->last_ms - r->first_ms < r->patience_ms) {
        return false;
    }
    r->first_ms = r->last_ms;
    r->patience_ms = r->patience_ms < REFUSALS_MS_MAX / 2 ? 2 * r->patience_ms : REFUSALS_MS_MAX;
    return true;
}
