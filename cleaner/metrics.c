#include "cleaner/metrics.h"

#include "cleaner/chores.h"
#include "cleaner/relay.h"
#include "cleaner/statistics.h"
#include "core/base/now.h"
#include "core/http/metric.h"
#include "core/http/probes.h"

#include <pthread.h>
#include <stdlib.h>

/* The state of the cleaner. */
struct standing {
    int64_t moved_ms; /* 0 = its loop has not begun */
    bool up, leads, led, broker, broker_up;
    bool failing[CHORE_COUNT], depth_failing, relay_failing;
    struct counts totals;
    struct publisher_stats published;
    struct relay_stats relay;
};

struct cleaner_metrics {
    struct probes *probes;
    struct probed probed;
    struct statistics *statistics;
    pthread_mutex_t mutex;
    struct standing standing; /* under the mutex, which nobody holds for long */
};

void cleaner_metrics_note(const struct cleaner *c, int64_t now_ms)
{
    struct cleaner_metrics *m = c->metrics;
    if (!m) {
        return;
    }
    struct standing s = {.moved_ms = now_ms,
                         .up = c->hot,
                         .leads = c->leader,
                         .led = !c->leaderless,
                         .broker = c->publisher,
                         .broker_up = c->broker.connected,
                         .depth_failing = c->depth_failure.is_told,
                         .totals = report_totals(c),
                         .relay_failing = c->relay_failure.is_told,
                         .published = c->broker};
    relay_stats(c->relay, &s.relay);
    for (size_t i = 0; i < CHORE_COUNT; i++) {
        s.failing[i] = c->chores[i].logged;
    }
    (void)pthread_mutex_lock(&m->mutex);
    m->standing = s;
    (void)pthread_mutex_unlock(&m->mutex);
}

static struct standing standing_of(struct cleaner_metrics *m)
{
    (void)pthread_mutex_lock(&m->mutex);
    struct standing s = m->standing;
    (void)pthread_mutex_unlock(&m->mutex);
    return s;
}

/* --- answers -------------------------------------------------------------------------------- */

static bool is_live(void *owner, struct buf *sentence)
{
    struct standing s = standing_of(owner);
    return probes_moves(s.moved_ms, now_ms(), CLEANER_STILL_MAX_MS, sentence);
}

/* The first chore that keeps failing; NULL = none does. */
static const char *failing_chore(const struct standing *s)
{
    for (size_t i = 0; i < CHORE_COUNT; i++) {
        if (s->failing[i]) {
            return chore_name((enum chore_id)i);
        }
    }
    return NULL;
}

static bool is_ready(void *owner, struct buf *sentence)
{
    struct standing s = standing_of(owner);
    struct buf moves;
    buf_init(&moves, 200);
    bool live = probes_moves(s.moved_ms, now_ms(), CLEANER_STILL_MAX_MS, &moves);
    const char *chore = failing_chore(&s);
    if (live && s.up && chore) {
        buf_printf(sentence, "its chore %s keeps failing: see its log, or tenon doctor", chore);
    } else {
        buf_put_text(sentence, !live     ? buf_text(&moves)
                               : !s.up   ? "it has no session with PostgreSQL: see its log"
                               : s.leads ? "it leads"
                                         : "it stands by: another cleaner leads");
    }
    buf_clear(&moves);
    return live && s.up && !chore;
}

static void write_broker(const struct standing *s, struct buf *b)
{
    metric_gauge(b, "tenon_broker_up", "Is this process connected to RabbitMQ?", s->broker_up);
    metric_counter(b, "tenon_wakeups_published_total", "Wake-ups that RabbitMQ has confirmed.",
                   s->published.published);
    metric_counter(b, "tenon_wakeups_held_back_total",
                   "Wake-ups that RabbitMQ refused: its window was full.", s->published.held_back);
    metric_counter(b, "tenon_wakeups_dropped_total",
                   "Wake-ups that were not sent: RabbitMQ was away or slow.", s->published.dropped);
    metric_counter(b, "tenon_messages_sent_total",
                   "Messages of tenon.publish that RabbitMQ has confirmed.", s->relay.sent);
    metric_counter(b, "tenon_messages_refused_total",
                   "Times that RabbitMQ refused a message, or no queue got it.", s->relay.refused);
    metric_counter(b, "tenon_messages_expired_total",
                   "Messages that expired or were deleted before they were sent.",
                   s->relay.expired);
}

static void write_standing(const struct standing *s, struct buf *b)
{
    const struct counts *n = &s->totals;
    metric_gauge(b, "tenon_database_up", "Does PostgreSQL answer this process?", s->up);
    metric_gauge(b, "tenon_cleaner_leads", "Is this cleaner the leader?", s->leads);
    if (s->up) {
        metric_gauge(b, "tenon_leader_present",
                     "Did this cleaner see a leader in the last 10 seconds?", s->led);
    }
    metric_head(b, "tenon_chore_failing", "gauge",
                "Does this chore keep failing? PostgreSQL's message is in the log and in "
                "tenon doctor.");
    for (size_t i = 0; i < CHORE_COUNT; i++) {
        metric_int(b, "tenon_chore_failing", LABELS({"chore", chore_name((enum chore_id)i)}),
                   s->failing[i]);
    }
    metric_int(b, "tenon_chore_failing", LABELS({"chore", "depth"}), s->depth_failing);
    metric_int(b, "tenon_chore_failing", LABELS({"chore", "relay"}), s->relay_failing);
    metric_counter(b, "tenon_recoveries_total",
                   "Tasks that were recovered: from dead workers, or past their deadline.",
                   n->recovered);
    metric_counter(b, "tenon_recoveries_dead_total", "Recovered tasks that are dead now.", n->dead);
    metric_counter(b, "tenon_workers_dead_total", "Workers that were declared dead.", n->workers);
    metric_counter(b, "tenon_schedule_ticks_total", "Ticks of schedules that made a task.",
                   n->ticks);
    metric_head(
        b, "tenon_wakeups_total", "counter",
        "Tasks for which this cleaner woke workers, by reason: new ones that were not announced, "
        "those that became due, and with --once all that were ready.");
    metric_int(b, "tenon_wakeups_total", LABELS({"reason", "fresh"}), n->fresh);
    metric_int(b, "tenon_wakeups_total", LABELS({"reason", "due"}), n->due);
    metric_int(b, "tenon_wakeups_total", LABELS({"reason", "ready"}), n->ready);
    metric_counter(b, "tenon_notifies_total", "NOTIFYs sent instead of wake-ups.", n->notices);
    if (s->broker) {
        write_broker(s, b);
    }
}

static void write_metrics(void *owner, struct buf *b)
{
    struct cleaner_metrics *m = owner;
    struct standing s = standing_of(m);
    probes_write(b, "cleaner");
    write_standing(&s, b);
    if (s.leads) {
        statistics_write(m->statistics, b);
    } else {
        statistics_rest(m->statistics);
    }
}

/* --- life ----------------------------------------------------------------------------------- */

bool cleaner_metrics_open(const char *address, const char *url, struct cleaner_metrics **ret,
                          struct fault *f)
{
    struct cleaner_metrics *m = calloc(1, sizeof *m);
    if (!m) {
        return fault_memory(f);
    }
    (void)pthread_mutex_init(&m->mutex, NULL);
    m->probed =
        (struct probed){.owner = m, .live = is_live, .ready = is_ready, .metrics = write_metrics};
    if (!statistics_open(url, &m->statistics, f) ||
        !probes_open(address, &m->probed, &m->probes, f)) {
        cleaner_metrics_close(m);
        return false;
    }
    *ret = m;
    return true;
}

void cleaner_metrics_close(struct cleaner_metrics *m)
{
    if (m) {
        probes_close(m->probes);
        statistics_close(m->statistics);
        (void)pthread_mutex_destroy(&m->mutex);
        free(m);
    }
}
