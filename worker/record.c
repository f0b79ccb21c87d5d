#include "worker/record.h"

#include "core/buf.h"
#include "core/log.h"
#include "core/now.h"
#include "worker/record_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct record {
    int fd; /* -1 = it has ended */
    char path[RECORD_PATH_BYTES], older[RECORD_PATH_BYTES];
    int64_t bytes_max, bytes; /* of the file; those written so far */
    struct buf text, sealed;  /* not yet written; with sums */
    uint32_t sum;             /* of the lines of the file */
    int64_t at_ms;            /* of the last line */
    int64_t write_ms;
    size_t n_told; /* of the decider's actions */
};

/* --- the digest of an action --- */

static uint64_t hash(uint64_t h, uint64_t n)
{
    h = (h ^ n) * 0x9e3779b97f4a7c15ULL;
    return h ^ (h >> 29);
}

static uint64_t hash_claims(uint64_t h, struct claim *const *claims, size_t n)
{
    h = hash(h, n);
    for (size_t i = 0; i < n; i++) {
        h = hash(hash(h, (uint64_t)claims[i]->id), (uint64_t)claims[i]->outcome);
    }
    return h;
}

/* What a round asks. */
static uint64_t hash_round(uint64_t h, const struct decider *d)
{
    const struct round *x = &d->round;
    h = hash_claims(h, x->finish, x->n_finish);
    h = hash_claims(h, x->requeue, x->n_requeue);
    for (size_t i = 0; i < x->n_progress; i++) {
        h = hash(hash(h, (uint64_t)x->progress[i].id), (uint64_t)x->progress[i].timeout_ms);
    }
    for (size_t i = 0; i < x->n_steps; i++) {
        h = hash(h, (uint64_t)x->steps[i]->id);
    }
    for (size_t i = 0; i < x->n_verify; i++) {
        h = hash(h, (uint64_t)x->verify[i].id);
    }
    for (size_t i = 0; i < x->n_ids; i++) {
        h = hash(h, (uint64_t)x->ids[i]);
    }
    for (int i = 0; x->leaves_out && i < d->n_handlers; i++) { /* else they are of another round */
        h = hash(h, x->left_out[i]);
    }
    h = hash(h, (uint64_t)(x->own | x->unlocked << 1 | x->chores << 2));
    h = hash(h, (uint64_t)x->reach_ms);
    h = hash(h, (uint64_t)x->alone);
    return hash(hash(hash(hash(h, (uint64_t)x->n_poll), (uint64_t)x->way), x->turn),
                (uint64_t)x->limit_ms);
}

uint32_t record_digest(const struct decider *d, const struct action *a)
{
    uint64_t h = hash(1, (uint64_t)a->type);
    h = hash(h, (uint64_t)a->slot);
    h = hash(h, (uint64_t)a->handler);
    h = hash(h, (uint64_t)a->n);
    h = hash(h, a->claim ? (uint64_t)a->claim->id : 0);
    h = hash(h, a->claim ? (uint64_t)a->claim->claims : 0);
    h = hash(h, (uint64_t)a->epoch);
    h = hash(h, a->tag);
    h = hash(h, (uint64_t)a->note);
    h = hash(h, (uint64_t)a->task);
    h = a->type == ACTION_ROUND ? hash_round(h, d) : h;
    return (uint32_t)(h ^ (h >> 32));
}

/* --- sums --- */

/* A space and eight digits. */
static void put_hex(char *to, uint32_t n)
{
    static const char digits[] = "0123456789abcdef";
    to[0] = ' ';
    for (int i = 8; i > 0; i--, n >>= 4) {
        to[i] = digits[n & 15];
    }
}

void record_seal(uint32_t *sum, const char *line, size_t bytes, char ret[RECORD_SUM_BYTES])
{
    uint64_t h = hash(*sum, bytes), word = 0;
    size_t at = 0;
    for (; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&word, line + at, sizeof word);
        h = hash(h, word);
    }
    word = 0;
    memcpy(&word, line + at, bytes - at);
    h = hash(h, word);
    *sum = (uint32_t)(h ^ (h >> 32));
    put_hex(ret, *sum);
}

static void seal_lines(struct record *r)
{
    const char *line = buf_text(&r->text), *end;
    for (; (end = strchr(line, '\n')); line = end + 1) {
        char sum[RECORD_SUM_BYTES];
        size_t bytes = (size_t)(end - line);
        record_seal(&r->sum, line, bytes, sum);
        buf_put(&r->sealed, line, bytes);
        buf_put(&r->sealed, sum, sizeof sum);
        buf_put_char(&r->sealed, '\n');
    }
    r->sealed.failed = r->sealed.failed || r->text.failed;
    buf_empty(&r->text);
}

/* --- lines --- */

static void put(struct record *r, int64_t n)
{
    buf_put_char(&r->text, ' ');
    buf_put_int(&r->text, n);
}

static void begin(struct record *r, char letter, int64_t now_ms)
{
    buf_put_char(&r->text, letter);
    put(r, now_ms - r->at_ms);
    r->at_ms = now_ms;
}

static void put_ids(struct record *r, const int64_t *ids, size_t n)
{
    put(r, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        put(r, ids[i]);
    }
}

/* A digit for each; "-" for none. */
#define PUT_DIGITS(r, n, digit)                                                                    \
    do {                                                                                           \
        buf_put_text(&(r)->text, (n) > 0 ? " " : " -");                                            \
        for (size_t i = 0; i < (n); i++) {                                                         \
            buf_put_char(&(r)->text, (char)('0' + (int)(digit)));                                  \
        }                                                                                          \
    } while (0)

static void put_claim(struct record *r, const struct claim *c)
{
    buf_put_char(&r->text, 'c');
    const int64_t fields[] = {c->id,
                              c->claims,
                              record_state_key(c->key),
                              c->timeout_ms,
                              c->attempt,
                              c->failures,
                              c->max_attempts,
                              c->priority,
                              c->handler,
                              (int64_t)c->payload_bytes,
                              (int64_t)c->steps_bytes};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        put(r, fields[i]);
    }
    buf_put_char(&r->text, ' ');
    buf_put_text(&r->text, c->queue);
    buf_put_char(&r->text, ' ');
    buf_put_text(&r->text, c->kind);
    buf_put_char(&r->text, '\n');
}

static void put_owned(struct record *r, const struct claim *c)
{
    buf_put_char(&r->text, 'm');
    put(r, c->id);
    put(r, c->claims);
    put(r, record_state_key(c->key));
    buf_put_char(&r->text, '\n');
}

static void put_round_done(struct record *r, const struct round *x, int64_t now_ms)
{
    for (size_t i = 0; i < x->n_claimed; i++) {
        put_claim(r, x->claimed[i]);
    }
    for (size_t i = 0; i < x->n_owned; i++) {
        put_owned(r, x->owned[i]);
    }
    begin(r, 'D', now_ms);
    put(r, x->end);
    put(r, x->has_turn);
    PUT_DIGITS(r, x->n_finish, x->finished[i]);
    PUT_DIGITS(r, x->n_requeue, x->requeue_state[i]);
    PUT_DIGITS(r, x->n_verify, x->verdicts[i]);
    PUT_DIGITS(r, x->n_progress, x->progress[i].state);
    PUT_DIGITS(r, x->n_steps, x->steps[i]->state);
    for (size_t i = 0; i < x->n_verify; i++) {
        put(r, x->timeouts_ms[i]);
    }
}

static int64_t bytes_of(const char *text)
{
    return text ? (int64_t)strlen(text) : -1;
}

static void put_slot(struct record *r, char letter, int64_t now_ms, int slot)
{
    begin(r, letter, now_ms);
    put(r, slot);
}

/* What a child says of a task. */
static void put_said(struct record *r, char letter, const struct event *e, int64_t now_ms,
                     const int64_t fields[3], int n)
{
    put_slot(r, letter, now_ms, e->slot);
    put(r, e->id);
    for (int i = 0; i < n; i++) {
        put(r, fields[i]);
    }
}

static void put_child(struct record *r, const struct event *e, int64_t now_ms)
{
    switch ((int)e->type) {
    case EVENT_CHILD_READY:
        put_slot(r, 'H', now_ms, e->slot);
        put(r, e->room);
        put(r, e->hears_stop);
        break;
    case EVENT_REPLY:
        put_said(r, 'R', e, now_ms, (const int64_t[]){e->outcome, bytes_of(e->reply), e->delay_ms},
                 3);
        break;
    case EVENT_PROGRESS:
        put_said(r, 'G', e, now_ms, (const int64_t[]){bytes_of(e->progress), e->extend_ms, 0}, 2);
        break;
    case EVENT_STEP:
        put_said(r, 'S', e, now_ms, (const int64_t[]){bytes_of(e->step), 0, 0}, 1);
        break;
    case EVENT_CHILD_PIPE_CLOSED:
        put_slot(r, 'C', now_ms, e->slot);
        break;
    case EVENT_CHILD_RETIRES:
        put_slot(r, 'Y', now_ms, e->slot);
        break;
    default:
        put_slot(r, 'X', now_ms, e->slot);
        put(r, e->failed_start);
        put(r, e->exited_well);
        break;
    }
}

static void put_event(struct record *r, const struct decider *d, const struct event *e,
                      int64_t now_ms)
{
    switch (e->type) {
    case EVENT_WAKEUPS:
        begin(r, 'W', now_ms);
        put(r, e->epoch);
        put(r, (int64_t)e->last_tag);
        put_ids(r, e->ids, e->n);
        break;
    case EVENT_BROKER:
        begin(r, 'B', now_ms);
        put(r, e->up);
        put(r, e->epoch);
        break;
    case EVENT_PRESENCE:
        begin(r, 'P', now_ms);
        put(r, e->up);
        put(r, e->renewed);
        put(r, e->since_ms);
        break;
    case EVENT_ROUND_DONE:
        put_round_done(r, &d->round, now_ms);
        break;
    case EVENT_ROUND_FAILED:
        begin(r, 'F', now_ms);
        put(r, e->failure);
        break;
    case EVENT_PAUSED:
        begin(r, 'U', now_ms);
        put_ids(r, e->ids, e->n);
        break;
    case EVENT_POLL:
        begin(r, 'L', now_ms);
        break;
    case EVENT_FROZEN:
        begin(r, 'Z', now_ms);
        break;
    case EVENT_STOP:
        begin(r, 'T', now_ms);
        break;
    case EVENT_CHILD_READY:
    case EVENT_REPLY:
    case EVENT_PROGRESS:
    case EVENT_STEP:
    case EVENT_CHILD_PIPE_CLOSED:
    case EVENT_CHILD_RETIRES:
    case EVENT_CHILD_GONE:
        put_child(r, e, now_ms);
        break;
    }
    buf_put_char(&r->text, '\n');
}

static bool is_over(const struct record *r)
{
    return !r || r->fd < 0;
}

void record_event(struct record *r, const struct decider *d, const struct event *e, int64_t now_ms)
{
    if (!is_over(r)) {
        put_event(r, d, e, now_ms);
    }
}

static void put_digests(struct record *r, const struct decider *d)
{
    for (; r->n_told < d->actions.n; r->n_told++) {
        char text[RECORD_SUM_BYTES];
        put_hex(text, record_digest(d, &d->actions.items[r->n_told]));
        buf_put(&r->text, text, sizeof text);
    }
    buf_put_char(&r->text, '\n');
}

void record_answer(struct record *r, const struct decider *d, int64_t due_ms)
{
    if (!is_over(r)) {
        put(r, due_ms == INT64_MAX ? -1 : due_ms - r->at_ms);
        put_digests(r, d);
    }
}

void record_acted(struct record *r, const struct decider *d)
{
    if (!is_over(r) && r->n_told < d->actions.n) {
        buf_put_char(&r->text, '+');
        put_digests(r, d);
    }
    if (r) {
        r->n_told = 0;
    }
}

/* --- the file --- */

static void stop(struct record *r, const char *why)
{
    log_event(LOG_WARNING, LOG_EVENT("recording_stopped"), LOG_TEXT("file", r->path),
              LOG_TEXT("error", why));
    if (r->fd >= 0) {
        (void)close(r->fd);
    }
    r->fd = -1;
    buf_clear(&r->text);
    buf_clear(&r->sealed);
}

static void write_all(struct record *r)
{
    size_t at = 0;
    seal_lines(r);
    if (r->sealed.failed) {
        stop(r, "out of memory");
        return;
    }
    while (at < r->sealed.len) {
        ssize_t n = write(r->fd, r->sealed.data + at, r->sealed.len - at);
        if (n < 0 && errno != EINTR) {
            stop(r, strerror(errno));
            return;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    r->bytes += (int64_t)at;
    buf_empty(&r->sealed);
}

void record_write(struct record *r, int64_t now_ms)
{
    if (!is_over(r) && r->text.len > 0 &&
        (r->text.len >= RECORD_BUFFER_BYTES || now_ms >= r->write_ms)) {
        r->write_ms = now_ms + RECORD_BUFFER_MS;
        write_all(r);
    }
}

/* What is there becomes FILE.1, if it is a file and not, say, a device, and no other worker's. */
static bool put_aside(const struct record *r)
{
    struct stat st;
    if (lstat(r->path, &st) != 0) {
        return errno == ENOENT;
    }
    int fd = S_ISREG(st.st_mode) ? open(r->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool free_to_take = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    int error = fd < 0 ? EEXIST : EBUSY;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = error;
    return free_to_take && rename(r->path, r->older) == 0;
}

/* Whoever owns the file alone may read it: kinds and queues are nobody else's business. */
static bool open_file(struct record *r)
{
    if (!put_aside(r)) {
        return false;
    }
    r->fd = open(r->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    r->bytes = 0;
    return r->fd >= 0 && flock(r->fd, LOCK_EX | LOCK_NB) == 0;
}

static void put_head(struct record *r, const struct decider *d, int64_t now_ms)
{
    buf_printf(&r->text, "tenon-record %d %s %zu\n", RECORD_FORMAT, TENON_VERSION, sizeof *d);
    buf_printf(&r->text, "o %d %d %lld %d %d %llu %lld %lld\n", d->n_slots, d->n_handlers,
               (long long)d->drain_limit_ms, d->until_empty, d->starts_max,
               (unsigned long long)d->random, (long long)now_ms,
               (long long)(now_unix_ns() / 1000000));
    for (int i = 0; i < d->n_handlers; i++) {
        const struct decider_handler *h = &d->handlers[i];
        buf_printf(&r->text, "h %d %d %lld %lld %s\n", h->pool, h->take, (long long)h->wait_ms,
                   (long long)h->start_limit_ms, h->kinds);
    }
    r->at_ms = now_ms;
    r->sum = 0;
}

/* The file is full: another one begins with what the decider knows. Not while a round is in flight,
 * whose answer comes from elsewhere. The actions of events that are not yet done are left out. */
static void rotate(struct record *r, const struct decider *d, int64_t now_ms)
{
    buf_put_text(&r->text, ". goes on\n");
    write_all(r);
    if (r->fd < 0) {
        return;
    }
    (void)close(r->fd);
    if (!open_file(r)) {
        stop(r, strerror(errno));
        return;
    }
    put_head(r, d, now_ms);
    r->text.failed = !record_state_put(&r->text, d) || r->text.failed;
    r->n_told = d->actions.n;
}

void record_ask(struct record *r, const struct decider *d, int64_t now_ms)
{
    if (is_over(r)) {
        return;
    }
    int64_t bytes = r->bytes + (int64_t)r->text.len;
    if (bytes >= r->bytes_max && record_state_is_whole(d)) {
        rotate(r, d, now_ms);
    } else if (bytes >= r->bytes_max + RECORD_OVER_BYTES_MAX) {
        stop(r, "the file is full, and what the worker knows cannot be written to another one");
    }
    if (r->fd >= 0) {
        begin(r, '>', now_ms);
    }
}

static const char *why_not(int error)
{
    return error == EBUSY    ? "another worker records to it"
           : error == EEXIST ? "it is there, and is no file of ours"
                             : strerror(error);
}

bool record_open(const char *path, int64_t bytes_max, const struct decider *d, struct record **ret,
                 struct fault *f)
{
    struct record *r = calloc(1, sizeof *r);
    if (!r) {
        return fault_memory(f);
    }
    r->bytes_max = bytes_max;
    buf_init(&r->text, RECORD_TEXT_BYTES_MAX);
    buf_init(&r->sealed, (size_t)4 * RECORD_TEXT_BYTES_MAX);
    int n = snprintf(r->older, sizeof r->older, "%s.1", path);
    (void)snprintf(r->path, sizeof r->path, "%s", path);
    bool fits = n < (int)sizeof r->older;
    if (!fits || !open_file(r)) {
        free(r);
        return fault_set(f, FAULT_CONFIG, "could not make the file %s to record to: %s", path,
                         why_not(fits ? errno : ENAMETOOLONG));
    }
    put_head(r, d, d->absent_since_ms);
    *ret = r;
    return true;
}

void record_close(struct record *r)
{
    if (!is_over(r)) {
        buf_put_text(&r->text, ". end\n");
        write_all(r);
    }
    if (r && r->fd >= 0) {
        (void)close(r->fd);
    }
    if (r) {
        buf_clear(&r->text);
        buf_clear(&r->sealed);
        free(r);
    }
}
