#include "intake/source_state.h"

#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/point.h"
#include "core/db/schema.h"
#include "intake/statements.h"

#include <stdio.h>
#include <string.h>
#include <utlist.h>

enum {
    WAITING_TIMES = 4, /* a body that is longer than so many payloads is not kept in memory */
    LOCK_PAUSE_MS = 100,
    LOCKS_QUIET = 10, /* in a row */
};

/* --- the session ------------------------------------------------------------------------------ */

static void tell(struct source *s, const struct fault *f)
{
    if (strcmp(s->database_error, f->text) != 0) {
        (void)snprintf(s->database_error, sizeof s->database_error, "%s", f->text);
        log_fault(LOG_WARNING, "intake_waits", f);
    }
}

/* A lock now and then is usual: another intake has the same messages. */
static void note_failure(struct source *s, struct fault *f)
{
    bool locked = f->code == FAULT_AGAIN;
    bool quiet = locked && ++s->locks <= LOCKS_QUIET;
    (void)fault_add(f, "could not take messages of %s into the database", s->settings.queue);
    if (!quiet) {
        tell(s, f);
    }
    if (!locked) { /* another session reads the limits again, too */
        db_close(s->db);
        s->db = NULL;
    }
    s->failures += !locked;
    s->due_ms = now_ms() +
                (locked ? LOCK_PAUSE_MS
                        : now_pause_ms(s->failures, SOURCE_PAUSE_MIN_MS, SOURCE_PAUSE_MAX_MS));
    source_note(s, quiet, quiet ? NULL : f->text);
}

static void read_limits(struct source *s, const struct rows *rows)
{
    s->batch.payload_bytes_max = rows_int(rows, 0, 0);
    s->assembly.bytes_max = (uint64_t)s->batch.payload_bytes_max * WAITING_TIMES;
    s->next_offset = rows_is_null(rows, 0, 1) ? -1 : rows_int(rows, 0, 1);
}

static bool begin(struct source *s, struct fault *f)
{
    struct rows *rows = NULL;
    const char *const params[] = {s->settings.queue};
    if (!db_open(s->settings.database_url, DB_PLAIN, "tenon intake", &s->db, f) ||
        !schema_check_home(s->db, f) || !db_exec(s->db, &sql_begin, params, 1, &rows, f)) {
        return false;
    }
    read_limits(s, rows);
    rows_free(rows);
    return true;
}

bool source_has_session(struct source *s)
{
    struct fault f = {.code = FAULT_NONE};
    if (s->db) {
        return true;
    }
    if (now_ms() < s->due_ms) {
        return false;
    }
    if (!begin(s, &f)) {
        note_failure(s, &f);
        return false;
    }
    s->due_ms = 0;
    return true;
}

/* --- after the commit ------------------------------------------------------------------------- */

static void tell_rejected(struct source *s, const struct incoming *m)
{
    int64_t now = now_ms();
    if (now - s->told_ms >= 60000) {
        s->told_ms = now;
        s->told = 0;
    }
    if (s->told++ < SOURCE_TOLD_MAX) {
        char offset[24];
        (void)snprintf(offset, sizeof offset, "%lld", (long long)m->offset);
        log_event(LOG_WARNING, LOG_EVENT("message_rejected"), LOG_TEXT("queue", s->settings.queue),
                  LOG_TEXT("message_id", m->message_id[0] ? m->message_id : NULL),
                  LOG_TEXT("routing_key", m->routing_key),
                  LOG_TEXT("offset", m->offset >= 0 ? offset : NULL), LOG_NUM("bytes", m->bytes),
                  LOG_TEXT("why", m->rejected));
    }
}

/* Those that are rejected one by one, the others up to the last of them at once. A stream knows no
 * reject: its messages stay where they are. */
static bool acknowledge(struct source *s, size_t n, struct fault *f)
{
    amqp_connection_state_t conn = s->thread.link->conn;
    struct incoming *m = s->waiting;
    uint64_t last = 0;
    bool ok = true;
    for (; ok && n > 0; m = m->next, n--) {
        if (m->rejected) {
            tell_rejected(s, m);
        }
        if (m->rejected && !s->settings.is_stream) {
            ok = link_sent(s->thread.link, amqp_basic_reject(conn, LINK_CHANNEL, m->tag, 0),
                           "could not reject a message", f);
        } else {
            last = m->tag;
        }
    }
    return ok &&
           (last == 0 || link_sent(s->thread.link, amqp_basic_ack(conn, LINK_CHANNEL, last, 1),
                                   "could not acknowledge messages", f));
}

static void drop(struct source *s, size_t n)
{
    for (; n > 0; n--) {
        struct incoming *m = s->waiting;
        s->next_offset = s->settings.is_stream ? m->offset + 1 : -1;
        DL_DELETE(s->waiting, m);
        s->n_waiting--;
        incoming_free(m);
    }
}

static void count(struct source *s)
{
    const struct batch_counts *n = &s->batch.counts;
    (void)pthread_mutex_lock(&s->lock);
    s->stats.total.taken += n->taken;
    s->stats.total.repeated += n->repeated;
    s->stats.total.rejected += n->rejected;
    s->stats.total.kept += n->kept;
    s->stats.total.unkeyed += n->unkeyed;
    s->stats.commits++;
    (void)pthread_mutex_unlock(&s->lock);
    s->failures = s->locks = 0;
    s->due_ms = 0;
    s->database_error[0] = '\0';
}

bool source_take(struct source *s, struct fault *f)
{
    struct fault refused = {.code = FAULT_NONE};
    int64_t bytes, begun_us = now_us();
    size_t n = batch_size(s->waiting, &bytes);
    if (now_ms() < s->due_ms) {
        return true;
    }
    s->due_ms = 0; /* else the thread would not sleep any more if nothing waits */
    if (n == 0) {
        return true;
    }
    if (POINT_FAILS(intake_arrived, f)) {
        return false;
    }
    if (!batch_take(&s->batch, s->db, s->waiting, n, &refused)) {
        note_failure(s, &refused);
        return true;
    }
    prefetch_note(&s->prefetch, (int64_t)n, bytes, now_us() - begun_us);
    count(s);
    if (POINT_FAILS(intake_committed, f) || !acknowledge(s, n, f) ||
        POINT_FAILS(intake_acknowledged, f)) {
        return false;
    }
    drop(s, n);
    source_note(s, true, NULL);
    return true;
}
