#include "cleaner/cleaner.h"

#include "cleaner/chores.h"
#include "cleaner/depth.h"
#include "cleaner/metrics.h"
#include "cleaner/relay.h"
#include "cleaner/session.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/service.h"
#include "core/base/stop.h"
#include "core/base/thread.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Wait for the next chore, a NOTIFY, or a signal. */
static void cleaner_wait(struct cleaner *c, int64_t next_ms)
{
    struct pollfd fds[] = {{.fd = stop_fd(), .events = POLLIN},
                           {.fd = c->hot ? db_fd(c->hot) : -1, .events = POLLIN}};
    int64_t wait_ms = next_ms - now_ms();
    wait_ms = wait_ms < 0 ? 0 : wait_ms;
    struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
    (void)ppoll(fds, 2, &wait, NULL);
}

/* Notifications come by themselves, or with the answer to a statement: there is something to
 * settle, or there are fresh rows. ret: chores are due */
static bool take_notified(struct cleaner *c, int64_t at_ms)
{
    struct fault f = {.code = FAULT_NONE};
    char text[DB_NOTIFIED_BYTES];
    bool any = false;
    while (db_next_notified(c->hot, text)) {
        any = true;
        if (strcmp(text, "settle") == 0) {
            settle_call(c, at_ms);
        } else {
            if (strcmp(text, "relay") == 0) {
                relay_call(c->relay);
            }
            c->notified = true; /* and stays awake while messages come */
            chores_hurry_within(c, CHORE_FRESH, &c->reads, at_ms);
        }
    }
    if (!db_is_open(c->hot)) {
        (void)fault_set(&f, FAULT_RETRY, "the server closed the session");
        session_lost(c, &f);
    }
    return any;
}

/* Do all that is due. ret: when to be called again. */
static int64_t cleaner_step(struct cleaner *c)
{
    int64_t at_ms = now_ms();
    service_alive(at_ms);
    cleaner_metrics_note(c, at_ms);
    if (!c->hot) {
        return session_connect(c, at_ms);
    }
    (void)take_notified(c, at_ms);
    int64_t next_ms = chores_step(c, at_ms);
    if (c->hot && take_notified(c, at_ms)) {
        next_ms = at_ms;
    }
    c->ended = c->ended || next_ms == INT64_MAX;
    return c->hot ? next_ms : c->reconnect_ms;
}

static void cleaner_loop(struct cleaner *c)
{
    while (!stop_wanted() && !c->ended) {
        int64_t next_ms = cleaner_step(c);
        depth_lead(c->depth, c->leader);
        relay_lead(c->relay, c->leader);
        if (!c->ended) {
            cleaner_wait(c, next_ms);
        }
    }
}

/* A URL that cannot be read is a mistake to find before anything else. */
static bool url_check(const char *url, struct fault *f)
{
    struct amqp_url parts = {0};
    bool ok = !url || amqp_url_parse(url, &parts, f);
    amqp_url_clear(&parts);
    return ok;
}

static bool cleaner_open(struct cleaner *c, const struct options *o, struct fault *f)
{
    const char *url = option_text(o, OPTION_AMQP_URL);
    c->database_url = option_text(o, OPTION_DATABASE_URL);
    c->amqp_url = url && strcmp(url, "none") != 0 ? url : NULL;
    c->otlp_url = option_text(o, OPTION_OTLP_URL);
    c->once = option_flag(o, OPTION_ONCE);
    c->report_ms = now_ms() + CLEANER_REPORT_MS;
    c->recover_rows = CLEANER_ROWS_MAX;
    bool alone = options_command(o) == COMMAND_CLEANER; /* else beside a worker, whose that is */
    const char *http = option_text(o, alone ? OPTION_HTTP : OPTION_CLEANER_HTTP);
    return stop_open(CLEANER_STOP_LIMIT_S, f) && url_check(c->amqp_url, f) &&
           (!http || cleaner_metrics_open(http, c->database_url, &c->metrics, f)) &&
           otlp_open(c->otlp_url, &c->otlp, f) &&
           (!c->amqp_url || relay_open(c->database_url, c->amqp_url, &c->relay, f)) &&
           (c->once || depth_open(c->database_url, &c->depth, f));
}

static void once_end(struct cleaner *c)
{
    struct fault f = {.code = FAULT_NONE};
    if (c->leader) {
        relay_call(c->relay);
        (void)relay_flush(c->relay, CLEANER_FLUSH_LIMIT_MS); /* the next one continues */
    }
    if (c->publisher && !publisher_flush(c->publisher, CLEANER_FLUSH_LIMIT_MS)) {
        (void)fault_set(&f, FAULT_RETRY, "RabbitMQ did not confirm all wake-ups within %d ms",
                        CLEANER_FLUSH_LIMIT_MS);
        log_fault(LOG_ERROR, "cleaner_failed", &f);
        c->exit_code = c->exit_code ? c->exit_code : fault_exit_code(&f);
    }
}

static void cleaner_close(struct cleaner *c)
{
    db_close(c->hot);
    publisher_close(c->publisher, CLEANER_STOP_LIMIT_MS / 2);
    relay_close(c->relay);
    (void)depth_close(c->depth);
    (void)otlp_close(c->otlp, stop_wanted() ? CLEANER_SPANS_LIMIT_MS : OTLP_FLUSH_LIMIT_MS);
    cleaner_metrics_close(c->metrics); /* the last: a scrape may ask the database for 2 s */
    free(c);
}

int cleaner_main(const struct options *o)
{
    struct fault f = {.code = FAULT_NONE};
    struct cleaner *c = calloc(1, sizeof *c);
    service_open();
    if (!c) {
        (void)fault_memory(&f);
    }
    if (!c || !cleaner_open(c, o, &f)) {
        log_fault(LOG_ERROR, "cleaner_failed", &f);
        free(c);
        return fault_exit_code(&f);
    }
    cleaner_loop(c);
    service_stopping();
    if (c->once && !stop_wanted()) {
        once_end(c);
    }
    report_now(c);
    int code = c->exit_code;
    log_event(LOG_INFO, LOG_EVENT("cleaner_stopped"), LOG_NUM("code", code));
    cleaner_close(c);
    return code;
}
