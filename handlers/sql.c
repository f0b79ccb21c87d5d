/* tenon-sql: a pool handler that calls a PostgreSQL function for each task, in the transaction that
 * finishes it. */
#include "core/base/now.h"
#include "handlers/sql_session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

enum {
    BATCH_MS = 50,              /* a batch is made so large that it takes no longer */
    BATCH_BYTES_MAX = 16 << 20, /* of payloads, without the last one */
};

struct sql {
    struct sql_settings settings;
    struct pool pool;
    struct sql_session sessions[CONNECTIONS_MAX];
    int open;
    struct sql_work *waiting; /* in the order in which they are to run */
    int n_waiting;
    int batch; /* how many tasks commit together: 1 after a failure, then more and more */
    int room; /* how many are taken for each connection: the number that commits together at best */
    int told; /* how many in all the worker knows of */
    bool retires; /* a connection is lost: another child makes new ones */
};

static bool open_all(struct sql *q, struct fault *f)
{
    while (q->open < q->settings.connections) {
        if (!sql_session_open(&q->sessions[q->open++], &q->settings, f)) {
            return false;
        }
    }
    return true;
}

static int idle_sessions(const struct sql *q)
{
    int n = 0;
    for (int i = 0; i < q->open; i++) {
        n += sql_session_is_idle(&q->sessions[i]);
    }
    return n;
}

static void refuse(struct sql *q, struct sql_work *w, const char *outcome, const char *error)
{
    pool_answer(&q->pool, w->task.id, &(struct pool_answer){.outcome = outcome, .error = error});
    sql_work_free(w);
}

static void refuse_waiting(struct sql *q)
{
    struct sql_work *w, *next;
    DL_FOREACH_SAFE(q->waiting, w, next)
    {
        refuse(q, w, "interrupted", NULL);
    }
    q->waiting = NULL;
    q->n_waiting = 0;
}

/* --- the end of a batch --- */

static void grow(struct sql *q)
{
    q->batch = q->batch * 2 < q->settings.batch ? q->batch * 2 : q->settings.batch;
    q->room = q->room > q->batch ? q->room : q->batch;
}

static int half(int n)
{
    return n > 1 ? n / 2 : 1;
}

/* How large the next ones are to be, after one of `n` tasks. */
static void learn(struct sql *q, const struct sql_session *s, int n)
{
    int64_t took_ms = now_ms() - s->begun_ms;
    if (s->failed && n > 1) {
        q->batch = 1;
    } else if (took_ms > BATCH_MS) {
        q->batch = half(q->batch);
        q->room = half(q->room);
    } else if (!s->failed && !s->batch->alone && took_ms * q->batch * 2 <= (int64_t)BATCH_MS * n) {
        grow(q);
    }
}

/* Nothing of it counts, and who is to blame is not known for sure: its tasks run again, each by
 * itself. If the connection is lost, in another child. */
static void again(struct sql *q, const struct sql_session *s, struct sql_work *batch)
{
    struct sql_work *w, *next;
    DL_FOREACH_SAFE(batch, w, next)
    {
        if (s->lost || w->stopped) {
            DL_DELETE(batch, w);
            refuse(q, w, "interrupted", NULL);
        } else {
            w->alone = true;
            q->n_waiting++;
        }
    }
    DL_CONCAT(batch, q->waiting);
    q->waiting = batch;
}

static void end_batch(struct sql *q, struct sql_session *s)
{
    struct sql_work *w, *next;
    int n;
    DL_COUNT(s->batch, w, n);
    learn(q, s, n);
    struct sql_work *batch = sql_session_take(s);
    if (s->failed && n > 1) {
        again(q, s, batch);
        return;
    }
    DL_FOREACH_SAFE(batch, w, next)
    {
        if (s->failed) {
            pool_answer(&q->pool, w->task.id, &s->verdict.answer);
        } else {
            pool_done(&q->pool, w->task.id, NULL, 0, NULL); /* the result is in the row already */
        }
        sql_work_free(w);
    }
}

/* False: the connection is gone, and its place taken by the last one. */
static bool look_after(struct sql *q, int i)
{
    struct sql_session *s = &q->sessions[i];
    if (s->over && s->batch) {
        end_batch(q, s);
    }
    if (!s->lost) {
        return true;
    }
    if (!q->retires) {
        pool_bye(&q->pool);
    }
    q->retires = true;
    sql_session_close(s);
    *s = q->sessions[--q->open];
    return false;
}

/* --- the begin of a batch --- */

static bool fits(const struct sql_work *first, const struct sql_work *w)
{
    return w == first || (!first->alone && !w->alone && w->function == first->function);
}

/* At most `n` of those that wait, for the function of the first one: a batch is one statement. One
 * that is to run alone is by itself. */
static struct sql_work *take_batch(struct sql *q, int n)
{
    struct sql_work *batch = NULL, *w, *next;
    const struct sql_work *first = q->waiting;
    size_t bytes = 0;
    DL_FOREACH_SAFE(q->waiting, w, next)
    {
        if (n > 0 && bytes < BATCH_BYTES_MAX && fits(first, w)) {
            DL_DELETE(q->waiting, w);
            DL_APPEND(batch, w);
            q->n_waiting--;
            n--;
            bytes += w->task.payload_bytes;
        }
    }
    return batch;
}

/* To all connections that are idle, evenly: nothing waits for a batch to fill. */
static void begin_batches(struct sql *q)
{
    for (int i = 0; i < q->open && q->waiting; i++) {
        int idle = idle_sessions(q);
        int share = idle > 0 ? (q->n_waiting + idle - 1) / idle : 0;
        if (sql_session_is_idle(&q->sessions[i])) {
            sql_session_begin(&q->sessions[i], take_batch(q, share < q->batch ? share : q->batch),
                              now_ms());
            i -= !look_after(q, i);
        }
    }
    if (q->open == 0) {
        refuse_waiting(q);
    }
}

/* --- lines --- */

static bool take_task(struct sql *q, struct pool_task *task, struct fault *f)
{
    struct sql_work *w = malloc(sizeof *w);
    if (!w) {
        pool_task_clear(task);
        return fault_memory(f);
    }
    *w = (struct sql_work){.task = *task,
                           .function = sql_settings_function(&q->settings, task->kind),
                           .came_ms = now_ms()};
    if (w->function < 0) {
        refuse(q, w, "failed", "tenon-sql has no --function for this kind");
    } else {
        DL_APPEND(q->waiting, w);
        q->n_waiting++;
    }
    return true;
}

/* Its claim is no longer valid, so it cannot commit; the server need not continue it. */
static void stop_task(struct sql *q, int64_t id)
{
    struct sql_work *w;
    for (int i = 0; i < q->open; i++) {
        DL_FOREACH(q->sessions[i].batch, w)
        {
            if (w->task.id == id) {
                w->stopped = true;
                sql_session_cancel(&q->sessions[i], now_ms());
            }
        }
    }
    DL_FOREACH(q->waiting, w)
    {
        if (w->task.id == id) {
            DL_DELETE(q->waiting, w);
            q->n_waiting--;
            refuse(q, w, "interrupted", NULL);
            return;
        }
    }
}

static bool take_lines(struct sql *q, struct fault *f)
{
    struct pool_message m;
    bool ok = pool_read(&q->pool, f);
    do {
        ok = ok && pool_take(&q->pool, &m, f);
        if (ok && m.type == POOL_TASK) {
            ok = take_task(q, &m.task, f);
        } else if (ok && m.type == POOL_STOP) {
            stop_task(q, m.stop);
        } else if (ok && m.type == POOL_DRAIN) {
            refuse_waiting(q);
        }
    } while (ok && m.type != POOL_NOTHING);
    return ok;
}

/* --- the loop --- */

enum { CANCELS = CONNECTIONS_MAX, INPUT = 2 * CONNECTIONS_MAX, POLLED };

static bool go_on(struct sql *q, const struct pollfd *ready, struct fault *f)
{
    for (int i = q->open - 1; i >= 0; i--) { /* from the end: a lost one is taken out */
        struct sql_session *s = &q->sessions[i];
        if (ready[CANCELS + i].revents) {
            sql_session_cancelled(s);
        }
        if (ready[i].revents) {
            sql_session_go_on(s);
        }
        sql_session_expire(s, now_ms());
        (void)look_after(q, i);
    }
    return !ready[INPUT].revents || take_lines(q, f);
}

static int turn_ms(const struct sql *q)
{
    int64_t least_ms = -1;
    for (int i = 0; i < q->open; i++) {
        int64_t wait_ms = sql_session_wait_ms(&q->sessions[i], now_ms());
        least_ms = wait_ms >= 0 && (least_ms < 0 || wait_ms < least_ms) ? wait_ms : least_ms;
    }
    return (int)least_ms;
}

/* What is begun is read by the next turn. */
static bool turn(struct sql *q, struct fault *f)
{
    struct pollfd ready[POLLED];
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        const struct sql_session *s = i < q->open ? &q->sessions[i] : NULL;
        ready[i] = (struct pollfd){.fd = s ? sql_session_fd(s) : -1,
                                   .events = s && s->sending ? POLLIN | POLLOUT : POLLIN};
        ready[CANCELS + i] = (struct pollfd){.fd = s ? s->cancel_fd : -1, .events = POLLIN};
    }
    ready[INPUT] = (struct pollfd){.fd = q->pool.ended || q->retires ? -1 : STDIN_FILENO,
                                   .events = POLLIN};
    int n = poll(ready, POLLED, turn_ms(q));
    if (n < 0 && errno != EINTR) {
        return fault_set(f, FAULT_BUG, "could not poll: %s", strerror(errno));
    }
    return n < 0 || go_on(q, ready, f);
}

static int room_of(const struct sql *q)
{
    int n = q->settings.connections * q->room;
    return n < POOL_IN_FLIGHT_MAX ? n : POOL_IN_FLIGHT_MAX;
}

/* What waits here no other worker can take. */
static void tell_room(struct sql *q)
{
    if (q->told != room_of(q)) {
        q->told = room_of(q);
        pool_in_flight(&q->pool, q->told);
    }
}

static bool run(struct sql *q, struct fault *f)
{
    bool ok = true;
    while (ok) {
        begin_batches(q);
        tell_room(q);
        ok = pool_flush(&q->pool, f);
        if (idle_sessions(q) == q->open && (q->pool.ended || q->retires)) {
            break;
        }
        ok = ok && turn(q, f);
    }
    return ok;
}

static void close_all(struct sql *q)
{
    for (int i = 0; i < q->open; i++) {
        sql_session_close(&q->sessions[i]);
    }
    refuse_waiting(q); /* nobody reads it: only after a fault there are any */
    pool_close(&q->pool);
}

int main(int argc, char **argv)
{
    static struct sql q;
    struct fault f = {.code = FAULT_NONE};
    (void)signal(SIGPIPE, SIG_IGN);
    bool ok = sql_settings_read(&q.settings, argc, argv, &f);
    if (ok && q.settings.help) {
        sql_settings_help();
    } else if (ok && open_all(&q, &f)) {
        q.batch = q.room = 1;
        q.told = room_of(&q);
        pool_open(&q.pool, q.told);
        ok = run(&q, &f);
    }
    close_all(&q);
    if (f.code != FAULT_NONE) {
        (void)fprintf(stderr, "tenon-sql: %s\n", f.text);
    }
    return f.code == FAULT_NONE && ok ? 0 : fault_exit_code(&f);
}
