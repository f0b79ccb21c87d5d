#include "worker/presence.h"

#include "core/amqp/amqp_topology.h"
#include "core/base/array.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/point.h"
#include "core/base/thread.h"
#include "core/base/throttle.h"
#include "core/db/schema.h"
#include "worker/minute.h"
#include "worker/statements.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct presence {
    const char *url;
    const char *exposed; /* how its first session is, see db_exposed() */
    const struct served *served;
    int slots;
    struct mailbox *mailbox;
    pthread_t thread;
    pthread_mutex_t mutex;
    int wake;                   /* an eventfd: readable when there is a request */
    bool ping, drain, quit;     /* under the mutex: requests to the thread */
    struct fault refused;       /* under the mutex: why it gave up for good */
    struct presence_note note;  /* under the mutex, too */
    struct presence_note noted; /* what the row says */
    struct minute *minute;
    bool minute_failed; /* the last ones could not be written */
    bool drained;
    int64_t silent_ms; /* without a ping; each of our own waits counts, so that a freeze does not */
    int64_t held_ms;   /* the last moment when the lock is known to have been ours */
    int64_t *paused, *heard; /* numbers of kinds, n_paused of them; room for what comes next */
    size_t n_paused;
    bool pause_said;        /* what is paused has changed */
    struct throttle pauses; /* pings because of that */
    struct db *db;
    char worker_id[WORKER_ID_BYTES];
    char lock_key[24]; /* of this session */
    char exchange[TOPOLOGY_EXCHANGE_BYTES];
};

/* Is it among "mail,sms"? "*" has all. */
static bool is_listed(const char *list, const char *kind)
{
    size_t bytes = strlen(kind);
    bool found = strcmp(list, "*") == 0;
    for (const char *at = list; !found && *at; at += strspn(at, ",")) {
        size_t n = strcspn(at, ",");
        found = n == bytes && memcmp(at, kind, n) == 0;
        at += n;
    }
    return found;
}

/* Which of our kinds are paused, NULL = none. The main loop is told when it is something new. */
static void hear_paused(struct presence *p, const char *list)
{
    const struct handlers *h = &p->served->handlers;
    size_t n = 0;
    for (size_t i = 0; list && i < h->n_kinds; i++) {
        if (is_listed(list, h->kinds[i].name)) {
            p->heard[n++] = (int64_t)i;
        }
    }
    if (n == p->n_paused && memcmp(p->heard, p->paused, n * sizeof *p->heard) == 0) {
        return;
    }
    memcpy(p->paused, p->heard, n * sizeof *p->heard);
    p->n_paused = n;
    log_event(LOG_INFO, LOG_EVENT("kinds_paused"), LOG_TEXT("kinds", list ? list : ""));
    mailbox_push(p->mailbox, &(struct event){.type = EVENT_PAUSED, .ids = p->paused, .n = n});
}

/* Each start of a worker process is a new row and a new id. */
static bool register_worker(struct presence *p, struct fault *f)
{
    char host[256] = "", pid[12], slots[12];
    struct buf kinds, queues;
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    (void)snprintf(slots, sizeof slots, "%d", p->slots);
    buf_init(&kinds, 1 << 20);
    buf_init(&queues, 1 << 20);
    array_begin(&kinds);
    for (size_t i = 0; i < p->served->handlers.n_kinds; i++) {
        array_put_text(&kinds, p->served->handlers.kinds[i].name);
    }
    array_begin(&queues);
    for (size_t i = 0; i < p->served->n_queues; i++) {
        array_put_text(&queues, p->served->queues[i]);
    }
    const char *params[] = {host, pid, slots, array_end(&queues), array_end(&kinds), p->lock_key};
    struct rows *rows = NULL;
    bool ok = params[3] && params[4] ? db_exec(p->db, &sql_register, params, 6, &rows, f)
                                     : fault_memory(f);
    if (ok) {
        (void)snprintf(p->worker_id, sizeof p->worker_id, "%s", rows_text(rows, 0, 0));
        (void)snprintf(p->exchange, sizeof p->exchange, "%s", rows_text(rows, 0, 1));
        hear_paused(p, rows_text(rows, 0, 2));
    }
    rows_free(rows);
    buf_clear(&kinds);
    buf_clear(&queues);
    return ok || fault_add(f, "could not register the worker");
}

/* What the worker's row says: "alive", "dead" ..., "" when there is none. */
static bool read_state(struct presence *p, char state[16], struct fault *f)
{
    struct rows *rows = NULL;
    const char *params[] = {p->worker_id};
    int64_t asked_ms = now_ms();
    if (!db_exec(p->db, &sql_presence_ping, params, 1, &rows, f)) {
        return fault_add(f, "could not read the worker's state");
    }
    (void)snprintf(state, 16, "%s", rows_count(rows) > 0 ? rows_text(rows, 0, 0) : "");
    if (rows_count(rows) > 0) {
        hear_paused(p, rows_text(rows, 0, 1));
    }
    rows_free(rows);
    p->held_ms = asked_ms;
    return true;
}

static bool is_quitting(struct presence *p)
{
    (void)pthread_mutex_lock(&p->mutex);
    bool quit = p->quit;
    (void)pthread_mutex_unlock(&p->mutex);
    return quit;
}

/* Wait until there is a request, or `fd` is readable, or so long; -1 = for ever. ret: `fd` is. */
static bool hear(struct presence *p, int fd, int64_t limit_ms)
{
    struct pollfd fds[] = {{.fd = p->wake, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    bool any = poll(fds, 2, (int)limit_ms) > 0;
    wakefd_clear(p->wake);
    return any && fds[1].revents;
}

/* Does the lock that was taken say that we live? */
static bool check_lock(struct presence *p, const struct rows *rows, struct fault *f)
{
    enum { KEY, HELD, ROLE, COUNTS };
    if (!rows_bool(rows, 0, COUNTS)) {
        return fault_set(f, FAULT_CONFIG,
                         "the role %s may not register a worker: it needs the rights of tenon "
                         "setup --grant-worker itself, not those of a role it becomes",
                         rows_text(rows, 0, ROLE));
    }
    (void)snprintf(p->lock_key, sizeof p->lock_key, "%s", rows_text(rows, 0, KEY));
    return rows_bool(rows, 0, HELD) ||
           fault_set(f, FAULT_RETRY, "somebody else holds the lock %s", p->lock_key);
}

/* Each session takes a random key and writes it to the worker's row, so it holds one, and nobody
 * can have taken it before. */
static bool take_lock(struct presence *p, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(p->db, &sql_presence_lock, NULL, 0, &rows, f)) {
        return fault_add(f, "could not take the worker's lock");
    }
    bool ok = check_lock(p, rows, f);
    rows_free(rows);
    return ok && !POINT_FAILS(worker_locked, f);
}

/* Stay who we were, if the row still says so. */
static bool renew(struct presence *p, bool *ret_found, struct fault *f)
{
    struct rows *rows = NULL;
    const char *params[] = {p->worker_id, p->lock_key};
    int64_t asked_ms = now_ms();
    if (!db_exec(p->db, &sql_presence_renew, params, 2, &rows, f)) {
        return fault_add(f, "could not renew the worker's lock");
    }
    *ret_found = rows_count(rows) > 0;
    if (*ret_found) {
        hear_paused(p, rows_text(rows, 0, 1));
    }
    rows_free(rows);
    p->held_ms = asked_ms;
    return true;
}

/* A new session; presence_close() may cut it off. */
static bool connect_session(struct presence *p, struct fault *f)
{
    struct db *db = NULL;
    (void)pthread_mutex_lock(&p->mutex);
    db_close(p->db);
    p->db = NULL;
    (void)pthread_mutex_unlock(&p->mutex);
    if (!db_open(p->url, DB_PRESENCE, "tenon worker presence", &db, f)) {
        return false;
    }
    (void)pthread_mutex_lock(&p->mutex);
    p->db = db;
    (void)pthread_mutex_unlock(&p->mutex);
    return !is_quitting(p) || fault_set(f, FAULT_RETRY, "the worker stops");
}

/* Connect and be alive again; `*ret_renewed` when that took a new worker id. */
static bool establish(struct presence *p, bool *ret_renewed, struct fault *f)
{
    bool found = false;
    if (!connect_session(p, f) || !schema_check_home(p->db, f) ||
        !db_script(p->db, "LISTEN tenon_wakeup", f) || !take_lock(p, f) ||
        (p->worker_id[0] && !renew(p, &found, f))) {
        return false;
    }
    *ret_renewed = !found;
    if (found) {
        return true;
    }
    p->held_ms = now_ms();
    return register_worker(p, f) && !POINT_FAILS(worker_registered, f);
}

static void report(struct presence *p, bool up, bool renewed, const char *text)
{
    mailbox_push(p->mailbox, &(struct event){.type = EVENT_PRESENCE,
                                             .up = up,
                                             .renewed = renewed,
                                             .since_ms = p->held_ms,
                                             .text = text});
}

static bool set_state(struct presence *p, const char *state, int64_t limit_ms, struct fault *f)
{
    const char *params[] = {p->worker_id, state};
    struct db_call call = {.statement = &sql_set_state, .params = params, .n_params = 2};
    bool ok = db_batch(p->db, &call, 1, limit_ms, NULL, f);
    rows_free(call.rows);
    return ok;
}

/* While somebody has the row locked, it is tried again with the next ping: the session that would
 * be given up for it is what says that we live. */
static bool tell_drain(struct presence *p, struct fault *f)
{
    if (set_state(p, "draining", DB_ANSWER_LIMIT_MS, f)) {
        p->drained = true;
        return !POINT_FAILS(drain_begun, f);
    }
    bool locked = f->code == FAULT_AGAIN;
    *f = locked ? (struct fault){0} : *f;
    return locked;
}

/* What fails, because somebody has the row locked, is tried again with the next ping. */
static void write_note(struct presence *p)
{
    struct fault ignored = {0};
    (void)pthread_mutex_lock(&p->mutex);
    struct presence_note note = p->note;
    (void)pthread_mutex_unlock(&p->mutex);
    const char *params[] = {p->worker_id, note.backing_off, note.rounds, note.broker,
                            note.starting};
    if (memcmp(&note, &p->noted, sizeof note) != 0 &&
        db_exec(p->db, &sql_presence_note, params, 5, NULL, &ignored)) {
        p->noted = note;
    }
}

/* What fails is told once, and tried again with the next ping. */
static void write_minute(struct presence *p, int64_t limit_ms)
{
    struct fault f = {0};
    bool ok = minute_write(p->minute, p->db, p->worker_id, limit_ms, &f);
    if (!ok && !p->minute_failed) {
        log_fault(LOG_WARNING, "minute_failed", &f);
    }
    p->minute_failed = !ok;
}

/* One ping: the session lives and the row still says alive. */
static bool keep_up(struct presence *p, bool drain, struct fault *f)
{
    char state[16];
    if (drain && !p->drained && !tell_drain(p, f)) {
        return false;
    }
    if (!read_state(p, state, f)) {
        return false;
    }
    if (strcmp(state, "alive") != 0 && strcmp(state, "draining") != 0) {
        return fault_set(f, FAULT_RETRY, "the worker has been declared dead");
    }
    return true;
}

/* No later try can help. Without the lock others may start our tasks, so the main loop stops at
 * once, as for a second SIGTERM. */
static void refuse(struct presence *p, const struct fault *f)
{
    (void)pthread_mutex_lock(&p->mutex);
    p->refused = *f;
    p->quit = true;
    (void)pthread_mutex_unlock(&p->mutex);
    mailbox_push(p->mailbox, &(struct event){.type = EVENT_STOP});
    mailbox_push(p->mailbox, &(struct event){.type = EVENT_STOP});
}

/* A main loop that hangs starts nothing and obeys no signal: to end frees the lock, and others take
 * over. Nothing in it may take so long. */
static void watch(struct presence *p, int64_t since_ms)
{
    int64_t waited_ms = now_ms() - since_ms;
    p->silent_ms += waited_ms < PRESENCE_WATCH_MS ? waited_ms : PRESENCE_WATCH_MS;
    if (p->silent_ms >= PRESENCE_STUCK_MS) {
        log_event(LOG_ERROR, LOG_EVENT("worker_stuck"), LOG_NUM("silent_ms", p->silent_ms),
                  LOG_TEXT("error", "the main loop does not move; the process ends, so that others "
                                    "take over"));
        _exit(EXIT_FAILURE);
    }
}

/* Is there a ping to do? */
static bool take_requests(struct presence *p, bool *ret_drain)
{
    (void)pthread_mutex_lock(&p->mutex);
    bool ping = p->ping;
    p->ping = false;
    *ret_drain = p->drain;
    (void)pthread_mutex_unlock(&p->mutex);
    return ping;
}

/* The main loop is watched meanwhile, too. */
static void pause_ms(struct presence *p, int64_t ms)
{
    int64_t until_ms = now_ms() + ms, left_ms = ms;
    for (; left_ms > 0 && !is_quitting(p); left_ms = until_ms - now_ms()) {
        bool drain;
        int64_t since_ms = now_ms();
        (void)hear(p, -1, left_ms < PRESENCE_WATCH_MS ? left_ms : PRESENCE_WATCH_MS);
        watch(p, since_ms);
        p->silent_ms = take_requests(p, &drain) ? 0 : p->silent_ms;
    }
}

/* Why it is not back yet is told when it is something new: a person may have to mend it. */
static void come_back(struct presence *p, const struct fault *lost)
{
    char told[FAULT_TEXT_BYTES_MAX];
    (void)snprintf(told, sizeof told, "%s", lost->text);
    for (int failures = 1; !is_quitting(p); failures++) {
        struct fault f = {0};
        bool renewed = false;
        if (establish(p, &renewed, &f)) {
            p->drained = false;
            p->noted = (struct presence_note){0};
            report(p, true, renewed, p->worker_id);
            return;
        }
        if (strcmp(told, f.text) != 0) {
            (void)snprintf(told, sizeof told, "%s", f.text);
            report(p, false, false, f.text);
        }
        if (f.code == FAULT_SCHEMA) {
            refuse(p, &f);
            return;
        }
        pause_ms(p, now_pause_ms(failures, PRESENCE_RECONNECT_MIN_MS, PRESENCE_RECONNECT_MAX_MS));
    }
}

static bool is_word(const char *name, const char *word, size_t bytes)
{
    return strlen(name) == bytes && memcmp(name, word, bytes) == 0;
}

/* Does the worker serve this "queue/kind"? */
static bool serves(const struct served *s, const char *word, size_t bytes)
{
    size_t queue = strcspn(word, "/");
    bool queue_found = false, kind_found = false;
    for (size_t i = 0; !queue_found && i < s->n_queues; i++) {
        queue_found = is_word(s->queues[i], word, queue);
    }
    for (size_t i = 0; queue_found && !kind_found && i < s->handlers.n_kinds; i++) {
        kind_found = is_word(s->handlers.kinds[i].name, word + queue + 1, bytes - queue - 1);
    }
    return kind_found;
}

/* "queue/kind queue/kind ...", "" = anything; see cleaner/wake.sql. */
static bool concerns_us(const struct served *s, const char *words)
{
    bool any = *words == '\0';
    for (const char *at = words; !any && *at; at += strspn(at, " ")) {
        size_t bytes = strcspn(at, " ");
        any = memchr(at, '/', bytes) && serves(s, at, bytes);
        at += bytes;
    }
    return any;
}

/* While RabbitMQ cannot wake us, the cleaner does so by NOTIFY; and tenon.pause says "pause".
 * ret: something was said. */
static bool take_notified(struct presence *p)
{
    char words[DB_NOTIFIED_BYTES];
    bool any = false, ours = false;
    while (db_next_notified(p->db, words)) {
        any = true;
        ours = ours || concerns_us(p->served, words);
        p->pause_said = p->pause_said || strcmp(words, "pause") == 0;
    }
    if (ours) {
        mailbox_push(p->mailbox, &(struct event){.type = EVENT_POLL});
    }
    return any;
}

/* Is there something to hear of? Whoever may log in can say so. */
static bool pause_due(struct presence *p)
{
    bool due = p->pause_said && now_ms() >= throttle_due(&p->pauses);
    if (due) {
        throttle_charge(&p->pauses, now_ms());
    }
    return due;
}

/* A session that the server has ended is noticed at once, not with the next ping: the lock must be
 * ours again before a cleaner has looked at it twice. */
static void *presence_thread(void *arg)
{
    struct presence *p = arg;
    while (!is_quitting(p)) {
        struct fault f = {0};
        bool drain, ping = take_requests(p, &drain);
        p->silent_ms = ping ? 0 : p->silent_ms;
        if (!ping && !pause_due(p) && db_is_open(p->db)) {
            int64_t since_ms = now_ms();
            bool spoke = hear(p, db_fd(p->db),
                              p->pause_said ? THROTTLE_REST_MS : PRESENCE_WATCH_MS);
            watch(p, since_ms);
            if (!spoke || take_notified(p)) {
                continue;
            }
        }
        p->pause_said = false;
        if (keep_up(p, drain, &f)) {
            (void)take_notified(p); /* what came with the answers */
            write_note(p);
            write_minute(p, DB_ANSWER_LIMIT_MS);
        } else {
            report(p, false, false, f.text);
            come_back(p, &f);
        }
    }
    return NULL;
}

static void presence_free(struct presence *p)
{
    db_close(p->db);
    if (p->wake >= 0) {
        (void)close(p->wake);
    }
    (void)pthread_mutex_destroy(&p->mutex);
    minute_free(p->minute);
    free(p->paused);
    free(p->heard);
    free(p);
}

bool presence_open(const char *url, const struct served *served, int slots, struct series *series,
                   struct mailbox *mailbox, struct presence **ret, struct fault *f)
{
    struct presence *p = malloc(sizeof *p);
    if (!p) {
        return fault_memory(f);
    }
    bool renewed;
    *p = (struct presence){
        .url = url, .served = served, .slots = slots, .mailbox = mailbox, .wake = -1};
    (void)pthread_mutex_init(&p->mutex, NULL);
    p->paused = calloc(served->handlers.n_kinds + 1, sizeof *p->paused);
    p->heard = calloc(served->handlers.n_kinds + 1, sizeof *p->heard);
    p->minute = minute_new(series);
    if (!p->paused || !p->heard || !p->minute) {
        presence_free(p);
        return fault_memory(f);
    }
    if (!wakefd_open(&p->wake, f) || !establish(p, &renewed, f)) {
        presence_free(p);
        return false;
    }
    p->exposed = db_exposed(p->db);
    report(p, true, false, p->worker_id);
    if (!thread_start(&p->thread, 0, presence_thread, p, "the presence session", f)) {
        presence_free(p);
        return false;
    }
    *ret = p;
    return true;
}

void presence_ping(struct presence *p, const struct presence_note *note)
{
    (void)pthread_mutex_lock(&p->mutex);
    p->ping = true;
    p->note = *note;
    (void)pthread_mutex_unlock(&p->mutex);
    wakefd_set(p->wake);
}

void presence_drain(struct presence *p)
{
    (void)pthread_mutex_lock(&p->mutex);
    p->ping = p->drain = true;
    (void)pthread_mutex_unlock(&p->mutex);
    wakefd_set(p->wake);
}

const char *presence_exchange(const struct presence *p)
{
    return p->exchange;
}

const char *presence_exposed(const struct presence *p)
{
    return p->exposed;
}

bool presence_refused(struct presence *p, struct fault *f)
{
    if (!p) {
        return false;
    }
    (void)pthread_mutex_lock(&p->mutex);
    *f = p->refused;
    (void)pthread_mutex_unlock(&p->mutex);
    return f->code != FAULT_NONE;
}

static bool end_thread(struct presence *p)
{
    (void)pthread_mutex_lock(&p->mutex);
    p->quit = true;
    (void)pthread_mutex_unlock(&p->mutex);
    wakefd_set(p->wake);
    if (thread_join(p->thread, PRESENCE_LEAVE_LIMIT_MS)) {
        return true;
    }
    (void)pthread_mutex_lock(&p->mutex);
    if (p->db) {
        db_cut(p->db);
    }
    (void)pthread_mutex_unlock(&p->mutex);
    return thread_join(p->thread, PRESENCE_CUT_LIMIT_MS);
}

bool presence_close(struct presence *p)
{
    if (!p) {
        return true;
    }
    if (!end_thread(p)) {
        return false;
    }
    /* the cleaner sees the free lock anyway; who was refused has tasks for it to recover */
    struct fault ignored = {0};
    if (p->refused.code == FAULT_NONE && p->db && db_is_open(p->db) &&
        !POINT_FAILS(leave_due, &ignored)) {
        write_minute(p, PRESENCE_LEAVE_LIMIT_MS);
        (void)set_state(p, "left", PRESENCE_LEAVE_LIMIT_MS, &ignored);
    }
    presence_free(p);
    return true;
}
