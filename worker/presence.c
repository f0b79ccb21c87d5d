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
#include "worker/notice.h"
#include "worker/statements.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct requests {
    bool ping, drain, quit;
};

enum { STATE_BYTES = 16 };

struct presence {
    const char *url;
    const char *insecure; /* how its first session is, see db_insecure() */
    const struct served *served;
    int slots;
    const char *release;
    struct mailbox *mailbox;
    pthread_t thread;
    int wake; /* readable when there is a request */

    /* under the mutex */
    pthread_mutex_t mutex;
    struct requests asked;
    struct fault refused; /* why it gave up for good */
    struct presence_note note;
    struct db *db; /* only the thread writes it; presence_close() may cut it off */

    /* the rest is the thread's */
    int failures;      /* of the session and of connecting, in a row; 0 = the session is up */
    int64_t retry_ms;  /* when to connect again */
    struct fault told; /* why there is no session, as the main loop knows it */
    int64_t silent_ms; /* without a ping; only waits count, each up to PRESENCE_WATCH_MS, so that a
                          frozen process does not end when it is thawed */
    int64_t held_ms;   /* the last time at which the lock is known to have been ours */
    struct presence_note noted; /* what the row says */
    struct minute *minute;
    bool minute_failed;      /* the last counts could not be written */
    bool drained;            /* the row says that the worker drains */
    bool drain_told;         /* an operator wrote that, and the main loop knows it */
    int64_t *paused, *heard; /* numbers of kinds, n_paused of them; room for the next list */
    size_t n_paused;
    int64_t peers_ms;       /* when to ask next how many workers serve the same */
    bool pause_said;        /* somebody has notified us that pauses have changed */
    struct throttle pauses; /* of the questions which ones */
    char worker_id[WORKER_ID_BYTES];
    char lock_key[24]; /* of this session */
    char exchange[TOPOLOGY_EXCHANGE_BYTES];
};

/* Takes the list of paused kinds, NULL = none. The main loop gets it when it has changed. */
static void hear_paused(struct presence *p, const char *list)
{
    const struct handlers *h = &p->served->handlers;
    size_t n = 0;
    for (size_t i = 0; list && i < h->n_kinds; i++) {
        if (notice_lists(list, h->kinds[i].name)) {
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
    const char *params[] = {
        host,        pid,           slots,     array_end(&queues), array_end(&kinds),
        p->lock_key, TENON_VERSION, p->release};
    struct rows *rows = NULL;
    bool ok = params[3] && params[4] ? db_exec(p->db, &sql_register, params, 8, &rows, f)
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

/* Run sql_presence_ping or sql_presence_renew, which return the state in the worker's row: "alive",
 * "dead" ...; "" when there is no row. An answer proves that the session, and so the lock, was ours
 * when it was asked. */
static bool ask_state(struct presence *p, const struct statement *statement, int n_params,
                      char ret_state[STATE_BYTES], struct fault *f)
{
    struct rows *rows = NULL;
    const char *params[] = {p->worker_id, p->lock_key};
    int64_t asked_ms = now_ms();
    if (!db_exec(p->db, statement, params, n_params, &rows, f)) {
        return fault_add(f, "could not ask for the worker's state");
    }
    bool found = rows_count(rows) > 0;
    (void)snprintf(ret_state, STATE_BYTES, "%s", found ? rows_text(rows, 0, 0) : "");
    if (found) {
        hear_paused(p, rows_text(rows, 0, 1));
    }
    rows_free(rows);
    p->held_ms = asked_ms;
    return true;
}

/* Does the lock count as the sign that this worker lives? */
static bool check_lock(struct presence *p, const struct rows *rows, struct fault *f)
{
    enum { KEY, HELD, ROLE, COUNTS };
    if (!rows_bool(rows, 0, COUNTS)) {
        return fault_set(f, FAULT_CONFIG,
                         "the role %s may not register a worker: grant it the rights itself with "
                         "tenon setup --grant-worker, not a role that it can become",
                         rows_text(rows, 0, ROLE));
    }
    (void)snprintf(p->lock_key, sizeof p->lock_key, "%s", rows_text(rows, 0, KEY));
    return rows_bool(rows, 0, HELD) ||
           fault_set(f, FAULT_RETRY, "another session holds the lock %s", p->lock_key);
}

/* Each session locks a new random key, which is written to the worker's row afterwards: nobody can
 * have taken that lock before. */
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

/* Open a new session. presence_close() may have begun meanwhile and found no session to cut. */
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
    bool quit = p->asked.quit;
    (void)pthread_mutex_unlock(&p->mutex);
    return !quit || fault_set(f, FAULT_RETRY, "the worker stops");
}

/* Connect, take a lock, and stay the same worker if its row still allows that; else register
 * as a new one: `*ret_renewed`. */
static bool establish(struct presence *p, bool *ret_renewed, struct fault *f)
{
    char state[STATE_BYTES] = "";
    if (!connect_session(p, f) || !schema_check_home(p->db, f) ||
        !db_script(p->db, "LISTEN tenon_wakeup", f) || !take_lock(p, f) ||
        (p->worker_id[0] && !ask_state(p, &sql_presence_renew, 2, state, f))) {
        return false;
    }
    *ret_renewed = state[0] == '\0';
    if (!*ret_renewed) {
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

/* If another transaction has locked the row, the next ping tries again. To give up the session for
 * it would give up the lock. */
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

/* It may fail, for instance because the row is locked: the next ping tries again. */
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

/* A failure is logged once; the next ping tries again. */
static void write_minute(struct presence *p, int64_t limit_ms)
{
    struct fault f = {0};
    bool ok = minute_write(p->minute, p->db, p->worker_id, limit_ms, &f);
    if (!ok && !p->minute_failed) {
        log_fault(LOG_WARNING, "minute_failed", &f);
    }
    p->minute_failed = !ok;
}

/* The row says that the worker drains, and not because the main loop said so. */
static void hear_drain(struct presence *p)
{
    if (!p->drain_told) {
        p->drain_told = true;
        log_event(LOG_INFO, LOG_EVENT("drain_told"), LOG_TEXT("worker", p->worker_id));
        mailbox_push(p->mailbox, &(struct event){.type = EVENT_DRAIN});
    }
}

/* Write that the worker drains, if it does. Then: does the session answer, and does the row still
 * say that the worker lives? */
static bool ping_server(struct presence *p, bool drain, struct fault *f)
{
    char state[STATE_BYTES];
    if (drain && !p->drained && !tell_drain(p, f)) {
        return false;
    }
    if (!ask_state(p, &sql_presence_ping, 1, state, f)) {
        return false;
    }
    bool drains = strcmp(state, "draining") == 0;
    if (drains && !drain) {
        hear_drain(p);
    }
    return drains || strcmp(state, "alive") == 0 ||
           fault_set(f, FAULT_RETRY, "the worker has been declared dead");
}

/* No later attempt can succeed. Without the lock others may start our tasks, so the main loop stops
 * at once, as after a second SIGTERM. */
static void refuse(struct presence *p, const struct fault *f)
{
    (void)pthread_mutex_lock(&p->mutex);
    p->refused = *f;
    p->asked.quit = true;
    (void)pthread_mutex_unlock(&p->mutex);
    mailbox_push(p->mailbox, &(struct event){.type = EVENT_STOP});
    mailbox_push(p->mailbox, &(struct event){.type = EVENT_STOP});
}

/* A main loop that hangs starts no task and ignores signals. Ending the process frees the lock, so
 * that others take over. Nothing in the main loop may take PRESENCE_STUCK_MS. */
static void watch(struct presence *p, int64_t since_ms)
{
    int64_t waited_ms = now_ms() - since_ms;
    p->silent_ms += waited_ms < PRESENCE_WATCH_MS ? waited_ms : PRESENCE_WATCH_MS;
    if (p->silent_ms >= PRESENCE_STUCK_MS) {
        log_event(LOG_ERROR, LOG_EVENT("worker_stuck"), LOG_NUM("silent_ms", p->silent_ms),
                  LOG_TEXT("error",
                           "the main loop hangs; the process ends, so that others take over"));
        _exit(EXIT_FAILURE);
    }
}

/* Wait for a request, for `fd`, or for up to limit_ms, and watch the main loop meanwhile.
 * ret: `fd` is readable */
static bool wait_for(struct presence *p, int fd, int64_t limit_ms)
{
    struct pollfd fds[] = {{.fd = p->wake, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    int64_t since_ms = now_ms();
    int wait_ms = limit_ms < PRESENCE_WATCH_MS ? (int)limit_ms : PRESENCE_WATCH_MS;
    bool any = poll(fds, 2, wait_ms) > 0;
    wakefd_clear(p->wake);
    watch(p, since_ms);
    return any && fds[1].revents;
}

/* The session is lost, or could not be replaced. The main loop gets the reason when it is new: a
 * person may have to act. The first attempt to connect follows at once, the next after a pause. */
static void lose(struct presence *p, const struct fault *f)
{
    if (strcmp(p->told.text, f->text) != 0) {
        p->told = *f;
        report(p, false, false, f->text);
    }
    if (f->code == FAULT_SCHEMA) {
        refuse(p, f);
    }
    p->retry_ms = now_ms();
    if (p->failures > 0) {
        p->retry_ms += now_pause_ms(p->failures, PRESENCE_RECONNECT_MIN_MS,
                                    PRESENCE_RECONNECT_MAX_MS);
    }
    p->failures++;
}

/* Connect again when that is due, else wait for it. */
static void come_back(struct presence *p)
{
    struct fault f = {0};
    bool renewed = false;
    int64_t left_ms = p->retry_ms - now_ms();
    if (left_ms > 0) {
        (void)wait_for(p, -1, left_ms);
    } else if (establish(p, &renewed, &f)) {
        p->failures = 0;
        p->told = (struct fault){0};
        p->drained = false;
        p->noted = (struct presence_note){0};
        report(p, true, renewed, p->worker_id);
    } else {
        lose(p, &f);
    }
}

/* While RabbitMQ cannot deliver wake-ups, the cleaner sends them by NOTIFY; tenon.pause() notifies
 * "pause". ret: there was a notification */
static bool take_notified(struct presence *p)
{
    char words[DB_NOTIFIED_BYTES];
    bool any = false;
    while (db_next_notified(p->db, words)) {
        any = true;
        p->pause_said = p->pause_said || strcmp(words, "pause") == 0;
        if (notice_concerns(p->served, words)) {
            mailbox_push(p->mailbox, &(struct event){.type = EVENT_POLL, .n = notice_tasks(words)});
        }
    }
    return any;
}

/* Is it time to ask what is paused? Anyone who may log in can send that NOTIFY: it is throttled. */
static bool pause_due(struct presence *p)
{
    bool due = p->pause_said && now_ms() >= throttle_due(&p->pauses);
    if (due) {
        throttle_charge(&p->pauses, now_ms());
    }
    return due;
}

/* Is it time to ask the server? Else wait. A session that the server has ended is readable and has
 * no notification: it is noticed at once, not with the next ping, because the lock must be ours
 * again before a cleaner has seen it free twice. */
static bool ask_due(struct presence *p, bool ping)
{
    return ping || pause_due(p) || !db_is_open(p->db) ||
           (wait_for(p, db_fd(p->db), p->pause_said ? THROTTLE_REST_MS : PRESENCE_WATCH_MS) &&
            !take_notified(p));
}

/* If it fails, the next ping shows why. */
static void count_peers(struct presence *p)
{
    struct fault ignored = {0};
    struct rows *rows = NULL;
    const char *const params[] = {p->worker_id};
    if (now_ms() >= p->peers_ms &&
        db_exec(p->db, &sql_presence_peers, params, 1, &rows, &ignored)) {
        p->peers_ms = now_ms() + PRESENCE_PEERS_MS;
        mailbox_push(p->mailbox,
                     &(struct event){.type = EVENT_PEERS, .n = (size_t)rows_int(rows, 0, 0)});
    }
    rows_free(rows);
}

static void keep_up(struct presence *p, bool drain)
{
    struct fault f = {0};
    p->pause_said = false;
    if (ping_server(p, drain, &f)) {
        (void)take_notified(p); /* what came with the answers */
        write_note(p);
        write_minute(p, DB_ANSWER_LIMIT_MS);
        count_peers(p);
    } else {
        lose(p, &f);
    }
}

static struct requests take_requests(struct presence *p)
{
    (void)pthread_mutex_lock(&p->mutex);
    struct requests asked = p->asked;
    p->asked.ping = false;
    (void)pthread_mutex_unlock(&p->mutex);
    return asked;
}

static void *presence_thread(void *arg)
{
    struct presence *p = arg;
    struct requests asked;
    while (!(asked = take_requests(p)).quit) {
        p->silent_ms = asked.ping ? 0 : p->silent_ms;
        if (p->failures > 0) {
            come_back(p);
        } else if (ask_due(p, asked.ping)) {
            keep_up(p, asked.drain);
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

bool presence_open(const char *url, const struct served *served, int slots, const char *release,
                   struct series *series, struct mailbox *mailbox, struct presence **ret,
                   struct fault *f)
{
    struct presence *p = malloc(sizeof *p);
    if (!p) {
        return fault_memory(f);
    }
    bool renewed;
    *p = (struct presence){.url = url,
                           .served = served,
                           .slots = slots,
                           .release = release,
                           .mailbox = mailbox,
                           .wake = -1};
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
    p->insecure = db_insecure(p->db);
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
    p->asked.ping = true;
    p->note = *note;
    (void)pthread_mutex_unlock(&p->mutex);
    wakefd_set(p->wake);
}

void presence_drain(struct presence *p)
{
    (void)pthread_mutex_lock(&p->mutex);
    p->asked.ping = p->asked.drain = true;
    (void)pthread_mutex_unlock(&p->mutex);
    wakefd_set(p->wake);
}

const char *presence_exchange(const struct presence *p)
{
    return p->exchange;
}

const char *presence_insecure(const struct presence *p)
{
    return p->insecure;
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
    p->asked.quit = true;
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
    /* Optional: the cleaner sees the free lock anyway. A worker that was refused does not say
     * "left", because the cleaner must recover its tasks. */
    struct fault ignored = {0};
    if (p->refused.code == FAULT_NONE && p->db && db_is_open(p->db) &&
        !POINT_FAILS(leave_due, &ignored)) {
        write_minute(p, PRESENCE_LEAVE_LIMIT_MS);
        (void)set_state(p, "left", PRESENCE_LEAVE_LIMIT_MS, &ignored);
    }
    presence_free(p);
    return true;
}
