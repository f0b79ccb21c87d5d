#include "intake/intake.h"

#include "core/amqp/amqp_url.h"
#include "core/base/insecure.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/service.h"
#include "core/base/stop.h"
#include "core/base/thread.h"
#include "core/db/schema.h"
#include "intake/metrics.h"
#include "intake/note.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
    SOURCES_MAX = 64,
    TICK_MS = 1000,
    REPORT_MS = 60000,
    STOP_LIMIT_S = 3, /* from SIGTERM to the end, whatever hangs */
};

struct intake {
    const char *database_url, *amqp_url;
    struct rules rules;
    struct source *sources[SOURCES_MAX];
    size_t n;
    struct batch_counts reported[SOURCES_MAX];
    int64_t report_ms;
    struct intake_metrics *metrics;
    struct intake_note *note;
    bool ready;
};

static void wait_until(int64_t due_ms)
{
    struct pollfd fd = {.fd = stop_fd(), .events = POLLIN};
    int64_t wait_ms = due_ms - now_ms();
    wait_ms = wait_ms < 0 ? 0 : wait_ms;
    struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
    if (ppoll(&fd, 1, &wait, NULL) > 0 && !stop_wanted()) {
        wakefd_clear(stop_fd());
    }
}

/* --- the start -------------------------------------------------------------------------------- */

static void log_started(const struct intake *in, const struct db *db)
{
    char amqp[256], insecure[INSECURE_BYTES];
    amqp_url_mask(in->amqp_url, amqp, sizeof amqp);
    log_event(LOG_INFO, LOG_EVENT("intake_started"), LOG_TEXT("version", TENON_VERSION),
              LOG_TEXT("database", db_where(db)), LOG_TEXT("amqp", amqp),
              LOG_TEXT("insecure", insecure_text(db_insecure(db), in->amqp_url, NULL, insecure)));
}

static bool try_database(const struct intake *in, struct fault *f)
{
    struct db *db = NULL;
    bool ok = db_open(in->database_url, DB_PLAIN, "tenon intake", &db, f) &&
              schema_check_home(db, f);
    if (ok) {
        log_started(in, db);
    }
    db_close(db);
    return ok;
}

/* A wrong password or a missing schema is for a person; a database that is away is waited for. */
static bool await_database(struct intake *in, struct fault *f)
{
    int failures = 0;
    while (!stop_wanted() && !try_database(in, f)) {
        if (!fault_passes(f)) {
            return false;
        }
        if (failures++ == 0) {
            log_fault(LOG_WARNING, "database_down", f);
        }
        fault_clear(f);
        for (int64_t due_ms =
                 now_ms() + now_pause_ms(failures, SOURCE_PAUSE_MIN_MS, SOURCE_PAUSE_MAX_MS);
             !stop_wanted() && now_ms() < due_ms;) {
            service_alive(now_ms());
            wait_until(due_ms);
        }
    }
    return true;
}

static bool open_source(struct intake *in, const char *queue, bool is_stream, struct fault *f)
{
    const struct source_settings settings = {.database_url = in->database_url,
                                             .amqp_url = in->amqp_url,
                                             .queue = queue,
                                             .is_stream = is_stream,
                                             .rules = &in->rules,
                                             .wake_fd = stop_fd()};
    if (in->n == SOURCES_MAX) {
        return fault_set(f, FAULT_CONFIG, "at most %d queues and streams are allowed", SOURCES_MAX);
    }
    for (size_t i = 0; i < in->n; i++) {
        if (strcmp(source_queue(in->sources[i]), queue) == 0) {
            return fault_set(f, FAULT_CONFIG, "%s is given twice", queue);
        }
    }
    bool ok = source_open(&settings, &in->sources[in->n], f);
    in->n += ok;
    return ok;
}

static bool open_sources(struct intake *in, const struct options *o, struct fault *f)
{
    static const enum option_id ids[] = {OPTION_FROM, OPTION_FROM_STREAM};
    bool ok = true;
    for (int is_stream = 0; is_stream <= 1; is_stream++) {
        for (size_t i = 0; ok && i < option_items(o, ids[is_stream]); i++) {
            ok = open_source(in, option_item(o, ids[is_stream], i), is_stream, f);
        }
    }
    return ok;
}

static bool intake_open(struct intake *in, const struct options *o, struct fault *f)
{
    const char *http = option_text(o, OPTION_HTTP);
    in->database_url = option_text(o, OPTION_DATABASE_URL);
    in->amqp_url = option_text(o, OPTION_AMQP_URL);
    in->report_ms = now_ms() + REPORT_MS;
    if (strcmp(in->amqp_url, "none") == 0) {
        return fault_set(f, FAULT_CONFIG, "--amqp-url none: tenon intake needs RabbitMQ");
    }
    return rules_read(o, &in->rules, f) && stop_open(STOP_LIMIT_S, f) && await_database(in, f) &&
           open_sources(in, o, f) &&
           intake_note_open(in->database_url, in->sources, in->n, &in->note, f) &&
           (!http || intake_metrics_open(http, in->sources, in->n, &in->metrics, f));
}

/* --- the loop --------------------------------------------------------------------------------- */

/* The service is ready when each queue has been consumed once. */
static void look(struct intake *in)
{
    size_t n_up = 0;
    for (size_t i = 0; i < in->n; i++) {
        struct source_stats s;
        source_stats(in->sources[i], &s);
        n_up += s.up;
    }
    if (!in->ready && n_up == in->n) {
        in->ready = true;
        service_ready();
        log_event(LOG_INFO, LOG_EVENT("intake_ready"), LOG_NUM("queues", in->n));
    }
}

static void report(struct intake *in)
{
    static const struct batch_counts nothing;
    for (size_t i = 0; i < in->n; i++) {
        struct source_stats s;
        source_stats(in->sources[i], &s);
        const struct batch_counts *was = &in->reported[i];
        const struct batch_counts n = {.taken = s.total.taken - was->taken,
                                       .repeated = s.total.repeated - was->repeated,
                                       .rejected = s.total.rejected - was->rejected,
                                       .kept = s.total.kept - was->kept,
                                       .unkeyed = s.total.unkeyed - was->unkeyed};
        in->reported[i] = s.total;
        if (memcmp(&n, &nothing, sizeof n) != 0) {
            log_event(LOG_INFO, LOG_EVENT("intake_stats"),
                      LOG_TEXT("queue", source_queue(in->sources[i])), LOG_NUM("taken", n.taken),
                      LOG_NUM("repeated", n.repeated), LOG_NUM("rejected", n.rejected),
                      LOG_NUM("kept", n.kept), LOG_NUM("unkeyed", n.unkeyed),
                      LOG_NUM("waiting", s.waiting), LOG_NUM("prefetch", s.prefetch));
        }
    }
}

static void loop(struct intake *in)
{
    while (!stop_wanted()) {
        int64_t now = now_ms();
        service_alive(now);
        intake_metrics_note(in->metrics, now);
        look(in);
        if (now >= in->report_ms) {
            report(in);
            in->report_ms = now + REPORT_MS;
        }
        wait_until(now + TICK_MS);
    }
}

static void intake_close(struct intake *in)
{
    intake_metrics_close(in->metrics);
    intake_note_close(in->note);
    for (size_t i = 0; i < in->n; i++) {
        source_close(in->sources[i]);
    }
}

int intake_main(const struct options *o)
{
    static struct intake in; /* a thread that does not end in time goes on to read it */
    struct fault f = {.code = FAULT_NONE};
    int code = 0;
    service_open();
    if (!intake_open(&in, o, &f)) {
        log_fault(LOG_ERROR, "intake_failed", &f);
        code = fault_exit_code(&f);
    } else {
        loop(&in);
        service_stopping();
        report(&in);
        log_event(LOG_INFO, LOG_EVENT("intake_stopped"), LOG_NUM("code", code));
    }
    intake_close(&in);
    return code;
}
