#include "worker/metrics.h"

#include "core/base/now.h"
#include "core/http/metric.h"
#include "core/http/probes.h"
#include "core/http/series.h"
#include "worker/decide/round_plan.h"
#include "worker/decide/tally.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Each for itself: nobody needs them to be of the same moment. */
enum number {
    MOVED_MS, /* 0 = the loop has not begun */
    PRESENT,
    CLAIMS,
    DRAINING,
    FAILING,
    BROKER,
    SLOTS,
    BUSY,
    RUNNING,
    WAITING,
    HELD,
    BACKING_OFF,
    NUMBERS
};

struct worker_metrics {
    struct probes *probes;
    struct probed probed;
    struct series *series;
    _Atomic int64_t numbers[NUMBERS];
};

static int64_t number_of(struct worker_metrics *m, enum number number)
{
    return atomic_load_explicit(&m->numbers[number], memory_order_relaxed);
}

static void note(struct worker_metrics *m, enum number number, int64_t value)
{
    atomic_store_explicit(&m->numbers[number], value, memory_order_relaxed);
}

static int backing_off(const struct decider *d)
{
    int n = 0;
    for (int i = 0; i < d->n_handlers; i++) {
        n += d->handlers[i].strikes > 0;
    }
    return n;
}

void worker_metrics_note(struct worker_metrics *m, const struct decider *d,
                         enum worker_broker broker, int64_t now_ms)
{
    note(m, PRESENT, d->present);
    note(m, CLAIMS, round_may_claim(d));
    note(m, DRAINING, d->stop_level > 0);
    note(m, FAILING, d->rounds.failing);
    note(m, BROKER, broker);
    note(m, SLOTS, d->n_slots);
    note(m, BUSY, d->n_busy);
    note(m, RUNNING, d->n_given);
    note(m, WAITING, d->n_waiting);
    note(m, HELD, d->n_held);
    if (now_ms / 1000 != number_of(m, MOVED_MS) / 1000) { /* once a second is enough */
        note(m, BACKING_OFF, backing_off(d));
    }
    note(m, MOVED_MS, now_ms);
}

/* --- answers -------------------------------------------------------------------------------- */

static bool is_live(void *owner, struct buf *sentence)
{
    return probes_moves(number_of(owner, MOVED_MS), now_ms(), WORKER_STILL_MAX_MS, sentence);
}

/* Why it does no work; NULL = it does. */
static const char *hindrance(struct worker_metrics *m)
{
    return number_of(m, MOVED_MS) == 0 ? "it starts, and is not registered in the database yet"
           : number_of(m, DRAINING)    ? "it drains: it claims no more tasks, and ends"
           : !number_of(m, PRESENT)    ? "its presence is not held: PostgreSQL is away"
           : number_of(m, FAILING)     ? "rounds with PostgreSQL fail: see its log"
           : !number_of(m, CLAIMS)     ? "it first asks PostgreSQL which claims are its own"
                                       : NULL;
}

static bool is_ready(void *owner, struct buf *sentence)
{
    static const char *const ways[] = {[BROKER_NONE] = "it polls, without RabbitMQ",
                                       [BROKER_AWAY] = "it polls, because RabbitMQ is away",
                                       [BROKER_UP] = "it consumes from RabbitMQ"};
    const char *why = hindrance(owner);
    struct buf ignored;
    buf_init(&ignored, 200);
    bool live = is_live(owner, &ignored);
    buf_put_text(sentence, !live ? buf_text(&ignored) : why ? why : ways[number_of(owner, BROKER)]);
    buf_clear(&ignored);
    return live && !why;
}

static void write_gauges(struct worker_metrics *m, struct buf *b)
{
    int64_t running = number_of(m, RUNNING), waiting = number_of(m, WAITING);
    int64_t ended = number_of(m, HELD) - running - waiting;
    metric_head(b, "tenon_worker_slots", "gauge",
                "Slots of the worker: those that run a task, and "
                "those that do not.");
    metric_int(b, "tenon_worker_slots", LABELS({"state", "busy"}), number_of(m, BUSY));
    metric_int(b, "tenon_worker_slots", LABELS({"state", "free"}),
               number_of(m, SLOTS) - number_of(m, BUSY));
    metric_head(b, "tenon_worker_tasks", "gauge",
                "Tasks that the worker has claimed: running, "
                "waiting for a slot, or ended but not yet recorded "
                "in the database.");
    metric_int(b, "tenon_worker_tasks", LABELS({"state", "running"}), running);
    metric_int(b, "tenon_worker_tasks", LABELS({"state", "waiting"}), waiting);
    metric_int(b, "tenon_worker_tasks", LABELS({"state", "ended"}), ended > 0 ? ended : 0);
    metric_gauge(b, "tenon_worker_handlers_backing_off",
                 "Handlers that do not start; their kinds are not claimed for a time.",
                 number_of(m, BACKING_OFF));
    metric_gauge(b, "tenon_worker_presence_held", "Does the worker hold its presence?",
                 number_of(m, PRESENT));
    metric_gauge(b, "tenon_database_up", "Does PostgreSQL answer this process?",
                 number_of(m, PRESENT) && !number_of(m, FAILING));
    if (number_of(m, BROKER) != BROKER_NONE) {
        metric_gauge(b, "tenon_broker_up", "Is this process connected to RabbitMQ?",
                     number_of(m, BROKER) == BROKER_UP);
    }
}

static void write_metrics(void *owner, struct buf *b)
{
    struct worker_metrics *m = owner;
    probes_write(b, "worker");
    write_gauges(m, b);
    series_write_counters(m->series, b, "tenon_attempts_total",
                          "Runs of tasks that ended, by outcome; each counts once.", "outcome",
                          tally_words, TALLIES);
    series_write_times(m->series, b, TALLY_WAITS, "tenon_task_wait_seconds",
                       "How long tasks were ready before they were started, including retries.");
    series_write_times(m->series, b, TALLY_RUNS, "tenon_task_runtime_seconds",
                       "How long tasks ran, without released and lost runs.");
}

/* --- life ----------------------------------------------------------------------------------- */

bool worker_metrics_open(const char *address, struct series *series, struct worker_metrics **ret,
                         struct fault *f)
{
    struct worker_metrics *m = calloc(1, sizeof *m);
    if (!m) {
        return fault_memory(f);
    }
    m->series = series;
    m->probed =
        (struct probed){.owner = m, .live = is_live, .ready = is_ready, .metrics = write_metrics};
    if (!probes_open(address, &m->probed, &m->probes, f)) {
        free(m);
        return false;
    }
    *ret = m;
    return true;
}

void worker_metrics_close(struct worker_metrics *m)
{
    if (m) {
        probes_close(m->probes);
        free(m);
    }
}
