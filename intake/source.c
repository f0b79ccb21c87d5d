#include "intake/source.h"

#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/thread.h"
#include "intake/source_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* --- the link --------------------------------------------------------------------------------- */

/* All that has arrived is delivered again. */
void source_forget(struct source *s)
{
    struct incoming *m, *next;
    DL_FOREACH_SAFE(s->waiting, m, next)
    {
        incoming_free(m);
    }
    s->waiting = NULL;
    s->n_waiting = 0;
    assembly_clear(&s->assembly);
    s->consumers = 0;
    s->prefetch.now = 0;
    s->read_offset = -1;
    s->proof_ms = 0;
}

void source_note(struct source *s, bool in_database, const char *error)
{
    (void)pthread_mutex_lock(&s->lock);
    s->stats.in_database = in_database;
    s->stats.up = s->consumers > 0;
    s->stats.waiting = s->n_waiting;
    s->stats.prefetch = s->prefetch.now;
    s->stats.next_offset = s->next_offset;
    (void)snprintf(s->stats.error, sizeof s->stats.error, "%s", error ? error : "");
    (void)pthread_mutex_unlock(&s->lock);
}

static void note_connected(struct source *s, bool connected)
{
    (void)pthread_mutex_lock(&s->lock);
    s->stats.connected = connected;
    (void)pthread_mutex_unlock(&s->lock);
}

static bool up(void *owner, struct fault *f)
{
    struct source *s = owner;
    (void)f;
    note_connected(s, true);
    return true;
}

static void down(void *owner, const struct fault *f)
{
    struct source *s = owner;
    source_forget(s);
    if (s->settings.is_stream) { /* another session reads again how far it is */
        db_close(s->db);
        s->db = NULL;
    }
    note_connected(s, false);
    source_note(s, s->failures == 0, f->text);
    if (strcmp(s->broker_error, f->text) != 0) {
        (void)snprintf(s->broker_error, sizeof s->broker_error, "%s", f->text);
        log_event(LOG_WARNING, LOG_EVENT("intake_down"), LOG_TEXT("queue", s->settings.queue),
                  LOG_TEXT("error", f->text));
    }
    wakefd_set(s->settings.wake_fd);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* A stream that was deleted and made again begins at 0: what is in it would pass for seen. */
static bool is_another(struct source *s, struct fault *f)
{
    return fault_set(f, FAULT_CONFIG,
                     "the stream %s is not at offset %" PRId64
                     ", where the database says that it was: if it was deleted and made again, "
                     "run: DELETE FROM tenon.stream_place WHERE stream = '%s'",
                     s->settings.queue, s->asked_offset, s->settings.queue);
}

static bool check_offset(struct source *s, const struct incoming *m, struct fault *f)
{
    if (s->settings.is_stream != (m->offset >= 0)) {
        return fault_set(f, FAULT_CONFIG, "%s is %s stream: use %s", s->settings.queue,
                         m->offset >= 0 ? "a" : "no", m->offset >= 0 ? "--from-stream" : "--from");
    }
    if (m->offset >= 0 && m->offset < s->asked_offset) {
        return is_another(s, f);
    }
    s->read_offset = m->offset;
    s->proof_ms = 0;
    return true;
}

static bool take_frame(void *owner, const amqp_frame_t *frame, struct fault *f)
{
    struct source *s = owner;
    struct incoming *m = NULL;
    if (frame->frame_type == AMQP_FRAME_METHOD &&
        frame->payload.method.id == AMQP_BASIC_CANCEL_METHOD) {
        return fault_set(f, FAULT_RETRY, "RabbitMQ cancelled the consumer: the queue is gone");
    }
    if (!assembly_take(&s->assembly, frame, &m, f)) {
        return false;
    }
    if (m && !check_offset(s, m, f)) {
        incoming_free(m);
        return false;
    }
    if (m) {
        DL_APPEND(s->waiting, m);
        s->n_waiting++;
    }
    return true;
}

/* --- consuming -------------------------------------------------------------------------------- */

/* Where a stream is read from: behind what has arrived, else from the last message that the
 * database has, else where the options say. That last message is there unless newer ones are; if
 * nothing comes, it is another stream. */
static amqp_table_entry_t offset_argument(struct source *s)
{
    const char *text = s->settings.rules->offset;
    bool is_known = s->read_offset < 0 && s->next_offset > 0;
    int64_t from = s->read_offset >= 0   ? s->read_offset + 1
                   : s->next_offset > 0  ? s->next_offset - 1
                   : s->next_offset == 0 ? 0
                                         : -1;
    amqp_table_entry_t entry = link_entry_text("x-stream-offset", text);
    if (from < 0 && strspn(text, "0123456789") == strlen(text)) {
        from = strtoll(text, NULL, 10);
    }
    if (from >= 0) {
        entry.value.kind = AMQP_FIELD_KIND_I64;
        entry.value.value.i64 = from;
    }
    s->asked_offset = s->consumers == 0 ? from : s->asked_offset;
    s->proof_ms = s->consumers == 0 && is_known ? now_ms() + SOURCE_PROOF_MS : s->proof_ms;
    return entry;
}

static void consumer_tag(const struct source *s, char tag[32])
{
    (void)snprintf(tag, 32, "tenon intake %d", s->consumers);
}

/* RabbitMQ reads a consumer's prefetch when it begins. What the one before had not acknowledged
 * stays with the channel; what arrived before the answer to its end is taken first, since a stream
 * would send it again: its messages need no ids. */
static bool consume(struct source *s, int prefetch, struct fault *f)
{
    struct link *l = s->thread.link;
    char tag[32];
    if (s->consumers > 0) {
        consumer_tag(s, tag);
        (void)amqp_basic_cancel(l->conn, LINK_CHANNEL, amqp_cstring_bytes(tag));
        if (!link_answer(l, "could not cancel a consumer", f) ||
            !link_take_frames(l, take_frame, s, f)) {
            return false;
        }
    }
    amqp_table_entry_t offset = offset_argument(s);
    amqp_table_t arguments = {.num_entries = s->settings.is_stream, .entries = &offset};
    (void)amqp_basic_qos(l->conn, LINK_CHANNEL, 0, (uint16_t)prefetch, 0);
    if (!link_answer(l, "could not set the prefetch", f)) {
        return false;
    }
    s->consumers++;
    consumer_tag(s, tag);
    (void)amqp_basic_consume(l->conn, LINK_CHANNEL, amqp_cstring_bytes(s->settings.queue),
                             amqp_cstring_bytes(tag), 0, 0, 0, arguments);
    if (!link_answer(l, "could not consume", f)) {
        return false;
    }
    s->prefetch.now = prefetch;
    return true;
}

static bool follow_commits(struct source *s, struct fault *f)
{
    bool begins = s->consumers == 0;
    int wanted = prefetch_wanted(&s->prefetch, now_ms());
    if (wanted == s->prefetch.now) {
        return true;
    }
    if (!consume(s, wanted, f)) {
        return false;
    }
    if (begins) {
        log_event(LOG_INFO, LOG_EVENT("intake_up"), LOG_TEXT("queue", s->settings.queue),
                  LOG_TEXT("broker", s->thread.link->where), LOG_NUM("prefetch", wanted));
        s->broker_error[0] = '\0';
        source_note(s, true, NULL);
        wakefd_set(s->settings.wake_fd);
    }
    return true;
}

static bool work(void *owner, struct fault *f)
{
    struct source *s = owner;
    s->thread.due_ms = 0;
    if (!link_take_frames(s->thread.link, take_frame, s, f)) {
        return false;
    }
    if (s->proof_ms > 0 && now_ms() > s->proof_ms) {
        return is_another(s, f);
    }
    bool ok = !source_has_session(s) || (follow_commits(s, f) && source_take(s, f));
    if (ok && (s->n_waiting > 0 || s->due_ms > 0)) {
        s->thread.due_ms = s->due_ms > 0 ? s->due_ms : now_ms();
    }
    return ok;
}

/* --- for everybody ---------------------------------------------------------------------------- */

static void destroy(void *owner)
{
    struct source *s = owner;
    source_forget(s);
    empty_amqp_pool(&s->assembly.pool);
    batch_clear(&s->batch);
    db_close(s->db);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

bool source_open(const struct source_settings *settings, struct source **ret, struct fault *f)
{
    static const struct amqp_duty duty = {up, work, down, destroy};
    struct source *s = calloc(1, sizeof *s);
    if (!s) {
        return fault_memory(f);
    }
    s->settings = *settings;
    s->prefetch.fixed = settings->rules->prefetch;
    s->next_offset = s->read_offset = s->asked_offset = s->stats.next_offset = -1;
    s->stats.in_database = true;
    (void)pthread_mutex_init(&s->lock, NULL);
    assembly_init(&s->assembly, settings->rules, settings->queue);
    batch_init(&s->batch, settings->rules, settings->queue, settings->is_stream);
    if (!amqp_thread_start(&s->thread, settings->amqp_url, "tenon intake", &duty, s, f)) {
        destroy(s);
        return false;
    }
    amqp_thread_want(&s->thread);
    *ret = s;
    return true;
}

const char *source_queue(const struct source *s)
{
    return s->settings.queue;
}

bool source_is_stream(const struct source *s)
{
    return s->settings.is_stream;
}

void source_stats(struct source *s, struct source_stats *ret)
{
    (void)pthread_mutex_lock(&s->lock);
    *ret = s->stats;
    (void)pthread_mutex_unlock(&s->lock);
}

const char *source_problem(const struct source_stats *s)
{
    return s->error[0] ? s->error : s->up ? NULL : "it starts";
}

void source_close(struct source *s)
{
    if (s) {
        amqp_thread_end(&s->thread, SOURCE_CLOSE_LIMIT_MS);
    }
}
