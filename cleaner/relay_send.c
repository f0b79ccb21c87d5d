#include "cleaner/relay_state.h"

#include "core/base/now.h"
#include "core/base/point.h"

#include <string.h>
#include <utlist.h>

enum { BURST = 256 }; /* messages, before it reads what RabbitMQ says */

bool relay_may_send(const struct relay *r)
{
    size_t window = r->careful > 0 ? 1 : RELAY_WINDOW;
    return r->ready && !r->thread.link->blocked && r->n_sent < window &&
           (r->n_sent == 0 || r->sent_bytes + r->ready->body.len <= RELAY_WINDOW_BYTES) &&
           link_can_send(r->thread.link);
}

static struct message *take_ready(struct relay *r)
{
    struct message *m = r->ready;
    DL_DELETE(r->ready, m);
    r->n_ready--;
    return m;
}

/* False: not to be sent, and what became of it is noted. */
static bool is_sendable(struct relay *r, struct message *m, int64_t now)
{
    if (m->deadline_ms > 0 && m->deadline_ms <= now) {
        relay_end_well(r, m, true);
        return false;
    }
    if (now < r->bad_until_ms && strcmp(m->exchange, r->bad_exchange) == 0) {
        relay_end_badly(r, m, r->bad_error, false);
        return false;
    }
    return true;
}

static bool send_one(struct relay *r, struct message *m, int64_t now, struct fault *f)
{
    struct fault why = {.code = FAULT_NONE};
    int status = AMQP_STATUS_OK;
    if (!message_publish(r->thread.link->conn, m, now, &status, &why)) {
        relay_end_badly(r, m, why.text, false);
        return true;
    }
    m->tag = ++r->tag;
    DL_APPEND(r->sent, m);
    r->n_sent++;
    r->sent_bytes += m->body.len;
    return link_sent(r->thread.link, status, "could not send a message", f) &&
           !POINT_FAILS(relay_sent, f);
}

bool relay_send_ready(struct relay *r, struct fault *f)
{
    bool ok = true;
    int64_t now = now_ms();
    for (int i = 0; ok && i < BURST && relay_may_send(r); i++) {
        struct message *m = take_ready(r);
        ok = !is_sendable(r, m, now) || send_one(r, m, now, f);
    }
    return ok;
}
