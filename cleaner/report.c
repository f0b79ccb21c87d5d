#include "cleaner/chores.h"

#include "cleaner/depth.h"
#include "cleaner/failure.h"
#include "cleaner/relay.h"

#include "core/base/log.h"
#include "core/base/now.h"

#include <string.h>

/* A line when the broker comes or goes; never one per try. */
static void report_broker(struct cleaner *c)
{
    struct publisher_stats now;
    publisher_stats(c->publisher, &now);
    bool was_down = c->broker.last_error[0] != '\0', is_down = now.last_error[0] != '\0';
    if (now.connected && !c->broker.connected) {
        log_event(LOG_INFO, LOG_EVENT("broker_up"));
    } else if (!now.connected && is_down && (c->broker.connected || !was_down)) {
        log_event(LOG_WARNING, LOG_EVENT("broker_down"), LOG_TEXT("error", now.last_error));
    }
    c->broker = now;
    if (now.connected) {
        failure_end(c, &c->broker_failure, "broker");
    } else if (is_down) {
        failure_note(c, &c->broker_failure, "broker", now.last_error, now_ms());
    }
}

/* The thread that counts tasks logs why it fails; the row is ours to write. */
static void report_depth(struct cleaner *c)
{
    char error[FAULT_TEXT_BYTES_MAX];
    depth_error(c->depth, error);
    if (error[0] == '\0') {
        failure_end(c, &c->depth_failure, "depth");
    } else {
        failure_note(c, &c->depth_failure, "depth", error, now_ms());
    }
}

/* The relay, likewise: why it cannot send while RabbitMQ is there. */
static void report_relay(struct cleaner *c)
{
    struct relay_stats now;
    relay_stats(c->relay, &now);
    if (now.error[0] == '\0' || !c->broker.connected) {
        failure_end(c, &c->relay_failure, "relay");
    } else {
        failure_note(c, &c->relay_failure, "relay", now.error, now_ms());
    }
}

/* Those of the publisher add up by themselves. */
static void add_totals(struct counts *totals, const struct counts *n)
{
    totals->fresh += n->fresh;
    totals->due += n->due;
    totals->ready += n->ready;
    totals->ticks += n->ticks;
    totals->notices += n->notices;
    totals->recovered += n->recovered;
    totals->dead += n->dead;
    totals->workers += n->workers;
}

struct counts report_totals(const struct cleaner *c)
{
    struct counts totals = c->totals;
    add_totals(&totals, &c->counts);
    return totals;
}

static void report_counts(struct cleaner *c)
{
    static const struct counts nothing;
    struct counts *n = &c->counts;
    struct otlp_stats spans;
    struct relay_stats relay;
    otlp_stats(c->otlp, &spans);
    relay_stats(c->relay, &relay);
    n->published = c->broker.published - c->reported.published;
    n->held_back = c->broker.held_back - c->reported.held_back;
    n->dropped = c->broker.dropped - c->reported.dropped;
    n->sent = relay.sent - c->relayed.sent;
    n->refused = relay.refused - c->relayed.refused;
    n->expired = relay.expired - c->relayed.expired;
    n->spans_sent = spans.sent - c->spans.sent;
    n->spans_dropped = spans.dropped - c->spans.dropped;
    if (memcmp(n, &nothing, sizeof nothing) != 0) {
        log_event(LOG_INFO, LOG_EVENT("cleaner_stats"), LOG_NUM("fresh", n->fresh),
                  LOG_NUM("due", n->due), LOG_NUM("ready", n->ready), LOG_NUM("ticks", n->ticks),
                  LOG_NUM("notices", n->notices), LOG_NUM("recovered", n->recovered),
                  LOG_NUM("dead", n->dead), LOG_NUM("workers_dead", n->workers),
                  LOG_NUM("published", n->published), LOG_NUM("held_back", n->held_back),
                  LOG_NUM("dropped", n->dropped), LOG_NUM("messages_sent", n->sent),
                  LOG_NUM("messages_refused", n->refused), LOG_NUM("messages_expired", n->expired),
                  LOG_NUM("spans_sent", n->spans_sent), LOG_NUM("spans_dropped", n->spans_dropped));
    }
    if (n->refused > 0) {
        log_event(LOG_WARNING, LOG_EVENT("messages_refused"), LOG_NUM("messages", n->refused),
                  LOG_TEXT("exchange", relay.exchange), LOG_TEXT("error", relay.refusal));
    }
    c->reported = c->broker;
    c->relayed.sent = relay.sent;
    c->relayed.refused = relay.refused;
    c->relayed.expired = relay.expired;
    add_totals(&c->totals, n);
    c->spans = spans;
    *n = (struct counts){0};
}

void report_now(struct cleaner *c)
{
    if (c->publisher) {
        report_broker(c);
    }
    report_counts(c);
}

bool report_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    (void)f;
    if (c->publisher) {
        report_broker(c);
    }
    report_depth(c);
    report_relay(c);
    if (turn->now_ms >= c->report_ms) {
        report_counts(c);
        c->report_ms = turn->now_ms + CLEANER_REPORT_MS;
    }
    return true;
}
