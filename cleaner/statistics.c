#include "cleaner/statistics.h"

#include "cleaner/statements.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/db/db.h"
#include "core/http/metric.h"
#include "core/statements.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_BYTES_MAX = 4 << 20 };
enum { QUEUES, UNHANDLED, FLEET, LIMITS, BLOCKED, PAUSES, CALLS };

/* The columns of status_queues.sql ... */
enum { Q_NAME, Q_PAUSED, Q_READY, Q_OLDEST_S, Q_STATES, Q_AT_LEAST = 9 };
enum { U_QUEUE, U_KIND, U_READY };
/* ... statistics_fleet.sql, statistics_limits.sql, statistics_blocked.sql, statistics_pauses.sql */
enum {
    F_ENQUEUED,
    F_ALIVE,
    F_DRAINING,
    F_SLOTS,
    F_LATE,
    F_LATE_MS,
    F_PAUSED,
    F_DEPTH_MS,
    F_OLDEST_MS,
    F_WAITING,
    F_REFUSED,
    F_MESSAGE_MS
};
enum { L_NAME, L_PAUSED, L_WAITING, L_HELD, L_MAX };
enum { B_PARENT, B_LIMIT, B_TIME, B_SIGNAL, B_SUSPECT, B_FLOWS };
enum { P_WHAT, P_MS };

struct statistics {
    const char *url;
    pthread_mutex_t mutex; /* holds all that follows; other readers wait meanwhile */
    struct db *db;         /* NULL = not connected */
    struct buf text;       /* what was gathered */
    int64_t gathered_ms;   /* when; 0 = never */
    bool failed;           /* the last time */
};

/* --- as text -------------------------------------------------------------------------------- */

static void put_gauges(struct buf *b, const struct rows *r, int column, const char *name,
                       const char *help)
{
    metric_head(b, name, "gauge", help);
    for (size_t i = 0; i < rows_count(r); i++) {
        metric_int(b, name, LABELS({"queue", rows_text(r, i, Q_NAME)}),
                   column == Q_PAUSED ? rows_bool(r, i, column) : rows_int(r, i, column));
    }
}

/* A lower bound is not told: a queue that is too large to be counted here is there again when the
 * leader has counted all tasks, some seconds after it began to lead. */
static void put_queues(struct buf *b, const struct rows *r)
{
    static const struct {
        const char *state;
        int column;
    } states[] = {{"ready", Q_READY},          {"running", Q_STATES},
                  {"scheduled", Q_STATES + 1}, {"retrying", Q_STATES + 2},
                  {"blocked", Q_STATES + 3},   {"dead", Q_STATES + 4}};
    metric_head(b, "tenon_queue_tasks", "gauge",
                "Tasks by queue and state, counted at most tenon_depth_age_seconds ago.");
    for (size_t i = 0; i < rows_count(r); i++) {
        bool known = !rows_bool(r, i, Q_AT_LEAST);
        for (size_t j = 0; known && j < sizeof states / sizeof *states; j++) {
            metric_int(b, "tenon_queue_tasks",
                       LABELS({"queue", rows_text(r, i, Q_NAME)}, {"state", states[j].state}),
                       rows_int(r, i, states[j].column));
        }
    }
    put_gauges(b, r, Q_OLDEST_S, "tenon_queue_latency_seconds",
               "Age of the oldest ready task of a queue; 0 = none is ready.");
    put_gauges(b, r, Q_PAUSED, "tenon_queue_paused", "Is the queue itself paused?");
}

static void put_unhandled(struct buf *b, const struct rows *r)
{
    static const char name[] = "tenon_unhandled_tasks";
    metric_head(b, name, "gauge", "Ready tasks that no living worker takes, by queue and kind.");
    for (size_t i = 0; i < rows_count(r); i++) {
        metric_int(b, name,
                   LABELS({"queue", rows_text(r, i, U_QUEUE)}, {"kind", rows_text(r, i, U_KIND)}),
                   rows_int(r, i, U_READY));
    }
}

static void put_age(struct buf *b, const struct rows *r, int column, const char *name,
                    const char *help)
{
    if (!rows_is_null(r, 0, column)) {
        metric_head(b, name, "gauge", help);
        metric_seconds(b, name, NO_LABELS, rows_int(r, 0, column) * 1000);
    }
}

static void put_pauses(struct buf *b, const struct rows *r)
{
    static const char name[] = "tenon_oldest_pause_seconds";
    metric_head(b, name, "gauge", "How long the oldest pause has lasted, by what is paused.");
    for (size_t i = 0; i < rows_count(r); i++) {
        metric_seconds(b, name, LABELS({"what", rows_text(r, i, P_WHAT)}),
                       rows_int(r, i, P_MS) * 1000);
    }
}

static void put_fleet(struct buf *b, const struct rows *r)
{
    metric_counter(b, "tenon_tasks_enqueued_total",
                   "Tasks that were inserted, counted by PostgreSQL, including those that were "
                   "rolled back.",
                   rows_int(r, 0, F_ENQUEUED));
    metric_head(b, "tenon_workers", "gauge", "Workers that are registered, by state.");
    metric_int(b, "tenon_workers", LABELS({"state", "alive"}), rows_int(r, 0, F_ALIVE));
    metric_int(b, "tenon_workers", LABELS({"state", "draining"}), rows_int(r, 0, F_DRAINING));
    metric_gauge(b, "tenon_slots", "Slots of all workers that are alive.", rows_int(r, 0, F_SLOTS));
    metric_gauge(b, "tenon_schedules_late", "Schedules whose tick is over a minute late.",
                 rows_int(r, 0, F_LATE));
    metric_head(b, "tenon_schedule_late_seconds", "gauge",
                "How late the latest tick of a schedule is; 0 = none is over a minute late.");
    metric_seconds(b, "tenon_schedule_late_seconds", NO_LABELS, rows_int(r, 0, F_LATE_MS) * 1000);
    put_age(b, r, F_DEPTH_MS, "tenon_depth_age_seconds",
            "How long ago the leader counted all tasks.");
    put_age(b, r, F_OLDEST_MS, "tenon_oldest_transaction_seconds",
            "Age of the oldest transaction that keeps rows of ended tasks; 0 = there is none.");
    metric_gauge(b, "tenon_everything_paused", "Is everything paused, by tenon pause --all?",
                 rows_bool(r, 0, F_PAUSED));
}

static void put_outbox(struct buf *b, const struct rows *r)
{
    metric_gauge(b, "tenon_outbox_waiting",
                 "Messages that RabbitMQ does not have yet and did not refuse, counted in the "
                 "newest 10,000.",
                 rows_int(r, 0, F_WAITING));
    metric_gauge(b, "tenon_outbox_refused",
                 "Messages that RabbitMQ refused and that are still in the outbox, counted to "
                 "10,000.",
                 rows_int(r, 0, F_REFUSED));
    metric_head(b, "tenon_outbox_oldest_seconds", "gauge",
                "Age of the oldest message that is to be sent; 0 = none is.");
    metric_seconds(b, "tenon_outbox_oldest_seconds", NO_LABELS,
                   rows_is_null(r, 0, F_MESSAGE_MS) ? 0 : rows_int(r, 0, F_MESSAGE_MS) * 1000);
}

/* One line for each limit that has a value. */
static void put_limit(struct buf *b, const struct rows *r, int column, const char *name,
                      const char *help)
{
    metric_head(b, name, "gauge", help);
    for (size_t i = 0; i < rows_count(r); i++) {
        if (!rows_is_null(r, i, column)) {
            metric_int(b, name, LABELS({"limit", rows_text(r, i, L_NAME)}),
                       column == L_PAUSED ? rows_bool(r, i, column) : rows_int(r, i, column));
        }
    }
}

static void put_limits(struct buf *b, const struct rows *r)
{
    put_limit(b, r, L_WAITING, "tenon_limit_waiting",
              "Tasks that wait in line at a limit, counted to 1,000.");
    put_limit(b, r, L_HELD, "tenon_limit_held",
              "Tasks that a limit has released and that are ready or run, counted to 1,000.");
    put_limit(b, r, L_MAX, "tenon_limit_max_running",
              "Maximum tasks of one key that are ready or run at once.");
    put_limit(b, r, L_PAUSED, "tenon_limit_paused", "Is the limit paused?");
}

static void put_blocked(struct buf *b, const struct rows *r)
{
    static const char *const reasons[] = {"parent", "limit", "time", "signal", "suspect"};
    metric_head(b, "tenon_blocked_tasks", "gauge",
                "Blocked tasks by what they wait for, each counted to 10,000.");
    for (int i = B_PARENT; i <= B_SUSPECT; i++) {
        metric_int(b, "tenon_blocked_tasks", LABELS({"reason", reasons[i]}), rows_int(r, 0, i));
    }
    metric_gauge(b, "tenon_flows_unfinished",
                 "Flows and batches that have not ended, counted to 10,000.",
                 rows_int(r, 0, B_FLOWS));
}

/* --- gathering ------------------------------------------------------------------------------ */

static bool connect_session(struct statistics *s, struct fault *f)
{
    char limit[64];
    if (s->db && db_is_open(s->db)) {
        return true;
    }
    db_close(s->db);
    s->db = NULL;
    (void)snprintf(limit, sizeof limit, "SET statement_timeout = %d",
                   STATISTICS_STATEMENT_LIMIT_MS);
    return db_open(s->url, DB_LEADER, "tenon cleaner statistics", &s->db, f) &&
           db_script(s->db, limit, f);
}

static bool ask(struct statistics *s, struct db_call *calls, struct fault *f)
{
    return connect_session(s, f) &&
           db_batch(s->db, calls, CALLS, STATISTICS_ANSWER_LIMIT_MS, NULL, f);
}

static void take(struct statistics *s, const struct db_call *calls)
{
    put_queues(&s->text, calls[QUEUES].rows);
    put_unhandled(&s->text, calls[UNHANDLED].rows);
    put_fleet(&s->text, calls[FLEET].rows);
    put_outbox(&s->text, calls[FLEET].rows);
    put_limits(&s->text, calls[LIMITS].rows);
    put_blocked(&s->text, calls[BLOCKED].rows);
    put_pauses(&s->text, calls[PAUSES].rows);
}

static void note_outcome(struct statistics *s, bool ok, struct fault *f)
{
    if (!ok && !s->failed) {
        (void)fault_add(f, "could not gather statistics for /metrics");
        log_fault(LOG_WARNING, "statistics_failed", f);
    }
    s->failed = !ok;
}

static void gather(struct statistics *s)
{
    static const char *const bounded[] = {STATISTICS_ROWS_MAX, STATISTICS_QUEUES_MAX};
    static const char *const limits[] = {STATISTICS_LIMITS_MAX};
    struct db_call calls[CALLS] = {
        [QUEUES] = {.statement = &sql_status_queues, .params = bounded, .n_params = 2},
        [UNHANDLED] = {.statement = &sql_status_unhandled, .params = bounded, .n_params = 2},
        [FLEET] = {.statement = &sql_statistics_fleet, .params = bounded, .n_params = 1},
        [LIMITS] = {.statement = &sql_statistics_limits, .params = limits, .n_params = 1},
        [BLOCKED] = {.statement = &sql_statistics_blocked, .params = bounded, .n_params = 1},
        [PAUSES] = {.statement = &sql_statistics_pauses},
    };
    struct fault f = {.code = FAULT_NONE};
    bool ok = ask(s, calls, &f);
    buf_empty(&s->text);
    if (ok) {
        take(s, calls);
    }
    for (int i = 0; i < CALLS; i++) {
        rows_free(calls[i].rows);
    }
    note_outcome(s, ok, &f);
    s->gathered_ms = now_ms();
}

void statistics_write(struct statistics *s, struct buf *b)
{
    (void)pthread_mutex_lock(&s->mutex);
    if (s->gathered_ms == 0 || now_ms() - s->gathered_ms >= STATISTICS_EVERY_MS) {
        gather(s);
    }
    metric_gauge(b, "tenon_statistics_up", "Could the statistics of the database be gathered?",
                 !s->failed);
    buf_put(b, buf_text(&s->text), s->text.len);
    b->failed = b->failed || s->text.failed;
    (void)pthread_mutex_unlock(&s->mutex);
}

void statistics_rest(struct statistics *s)
{
    (void)pthread_mutex_lock(&s->mutex);
    db_close(s->db);
    s->db = NULL;
    s->gathered_ms = 0;
    (void)pthread_mutex_unlock(&s->mutex);
}

/* --- life ----------------------------------------------------------------------------------- */

bool statistics_open(const char *url, struct statistics **ret, struct fault *f)
{
    struct statistics *s = calloc(1, sizeof *s);
    if (!s) {
        return fault_memory(f);
    }
    s->url = url;
    (void)pthread_mutex_init(&s->mutex, NULL);
    buf_init(&s->text, TEXT_BYTES_MAX);
    *ret = s;
    return true;
}

void statistics_close(struct statistics *s)
{
    if (s) {
        db_close(s->db);
        buf_clear(&s->text);
        (void)pthread_mutex_destroy(&s->mutex);
        free(s);
    }
}
