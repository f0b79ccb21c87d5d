#include "include/tenon/tenon.h"

#include "core/base/array.h"
#include "core/base/point.h"
#include "enqueue/errtext.h"
#include "enqueue/params.h"
#include "enqueue/pending.h"
#include "enqueue/prepared.h"
#include "enqueue/statements.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

enum {
    FREE_FLUSH_MS = 1000, /* the rest of TENON_FREE_LIMIT_MS is for the thread's end */
    PAYLOADS_BYTES_MAX = 512 << 20,
};

struct tenon {
    pthread_mutex_t lock; /* guards `pending`, `publisher` and `seen` */
    _Atomic pid_t pid;    /* whose publisher it is */
    char *url;            /* NULL = no broker */
    struct publisher *publisher;
    struct pending pending;
    int64_t seen; /* wake-ups that did not arrive, as of the last flush */
};

static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;

int tenon_should_retry(int code)
{
    return code == TENON_RETRY;
}

const char *tenon_version(void)
{
    return TENON_VERSION;
}

/* --- the handle ------------------------------------------------------------------------------- */

static bool start_publisher(tenon *t, struct fault *f)
{
    char name[128];
    (void)snprintf(name, sizeof name, "libtenon %s", program_invocation_short_name);
    struct publisher_settings settings = {.url = t->url, .name = name};
    return !t->url || publisher_open(&settings, &t->publisher, f);
}

tenon *tenon_new(const char *amqp_url)
{
    struct fault f = {0};
    const char *url = amqp_url ? amqp_url : getenv("AMQP_URL");
    if (!url || !*url) {
        (void)errtext_set(TENON_MISUSE,
                          "no AMQP URL was given and AMQP_URL is not set; \"none\" = no RabbitMQ");
        return NULL;
    }
    bool none = strcmp(url, "none") == 0;
    tenon *t = calloc(1, sizeof *t);
    char *copy = none ? NULL : strdup(url);
    if (!t || (!none && !copy)) {
        (void)fault_memory(&f);
    } else {
        (void)pthread_mutex_init(&t->lock, NULL);
        atomic_store(&t->pid, getpid());
        t->url = copy;
        (void)start_publisher(t, &f);
    }
    if (f.code == FAULT_NONE) {
        (void)errtext_ok();
        return t;
    }
    (void)errtext_set(f.code == FAULT_MEMORY ? TENON_MEMORY : TENON_MISUSE, "%s", f.text);
    free(copy);
    free(t);
    return NULL;
}

/* In a forked child the thread is gone, and whatever it or another thread was changing is in some
 * state in between: leave all of it where it is and begin again. */
static void after_fork(tenon *t)
{
    struct fault ignored = {0};
    (void)pthread_mutex_lock(&fork_lock);
    if (atomic_load(&t->pid) != getpid()) {
        (void)pthread_mutex_init(&t->lock, NULL);
        publisher_abandon(t->publisher);
        t->publisher = NULL;
        t->pending = (struct pending){0};
        t->seen = 0;
        (void)start_publisher(t, &ignored); /* without one, tasks are left to the cleaner */
        atomic_store(&t->pid, getpid());
    }
    (void)pthread_mutex_unlock(&fork_lock);
}

static void enter(tenon *t)
{
    if (atomic_load(&t->pid) != getpid()) {
        after_fork(t);
    }
    (void)pthread_mutex_lock(&t->lock);
}

static void leave(tenon *t)
{
    (void)pthread_mutex_unlock(&t->lock);
}

void tenon_free(tenon *t)
{
    if (!t) {
        return;
    }
    if (atomic_load(&t->pid) == getpid()) {
        publisher_close(t->publisher, FREE_FLUSH_MS);
        pending_clear(&t->pending);
    } else {
        publisher_abandon(t->publisher);
    }
    free(t->url);
    free(t);
}

/* --- what is remembered ----------------------------------------------------------------------- */

static void publish(tenon *t, struct wakeup *w)
{
    if (t->publisher) {
        (void)publisher_offer(t->publisher, w);
    } else {
        free(w);
    }
}

static void publish_all(tenon *t, PGconn *conn)
{
    struct wakeup *wakeups = pending_take(&t->pending, conn), *w, *next;
    DL_FOREACH_SAFE(wakeups, w, next)
    {
        publish(t, w);
    }
}

void tenon_committed(tenon *t, PGconn *conn)
{
    if (t) {
        enter(t);
        publish_all(t, conn);
        leave(t);
    }
}

void tenon_forget(tenon *t, PGconn *conn)
{
    if (t) {
        enter(t);
        struct wakeup *wakeups = pending_take(&t->pending, conn);
        wakeups_free(&wakeups);
        leave(t);
    }
}

/* --- enqueueing ------------------------------------------------------------------------------- */

static int look_at(const tenon *t, PGconn *conn, bool *ret_in_transaction)
{
    return t ? errtext_look_at(conn, ret_in_transaction)
             : errtext_set(TENON_MISUSE, "the handle is NULL");
}

/* The caller's struct may be older and shorter than ours. */
static int copy_task(const tenon_task *from, tenon_task *to)
{
    if (!from || from->struct_size < offsetof(tenon_task, prepared) ||
        from->struct_size > sizeof *from) {
        return errtext_set(TENON_MISUSE,
                           from ? "struct_size of a tenon_task is %zu: set it to TENON_TASK_INIT"
                                : "the task is NULL",
                           from ? from->struct_size : 0);
    }
    *to = (tenon_task)TENON_TASK_INIT;
    memcpy(to, from, from->struct_size);
    if (!to->kind) {
        return errtext_set(TENON_MISUSE, "the task has no kind");
    }
    return TENON_OK;
}

/* A call that enqueues. */
struct call {
    tenon *t;
    PGconn *conn;
    bool in_transaction;
    tenon_task task;
    struct params p;
};

/* `n` wake-ups may follow. After OK params_clear() is due. */
static int call_begin(struct call *c, const tenon_task *task, size_t n)
{
    tenon *t = c->t;
    int code = look_at(t, c->conn, &c->in_transaction);
    code = code == TENON_OK ? copy_task(task, &c->task) : code;
    if (code != TENON_OK) {
        return code;
    }
    enter(t);
    if (!c->in_transaction) {
        /* an earlier transaction ended behind our back: what it enqueued may be there */
        publish_all(t, c->conn);
    }
    bool can = t->publisher && !publisher_is_away(t->publisher) &&
               pending_count(&t->pending, c->conn) + n <= TENON_TRANSACTION_IDS_MAX;
    leave(t);
    if (!params_fill(&c->p, &c->task, can)) {
        params_clear(&c->p);
        return errtext_set(TENON_MEMORY,
                           "no memory for the parents and limit keys, or over %d bytes",
                           PARAMS_ARRAY_BYTES_MAX);
    }
    return TENON_OK;
}

/* An id was enqueued. Without memory it is not published; the polls of the workers find it. */
static void call_remember(const struct call *c, const char *exchange, const char *key, int64_t id)
{
    if (!c->p.announced) {
        return;
    }
    struct wakeup *w = wakeup_new(exchange, key, id);
    enter(c->t);
    if (c->in_transaction) {
        (void)pending_add(&c->t->pending, c->conn, w);
    } else {
        publish(c->t, w);
    }
    leave(c->t);
}

/* Prepared, where its session has it. A session that lost it, and no transaction with it, is asked
 * the other way. */
static PGresult *enqueue_one(PGconn *conn, const struct params *p)
{
    PGresult *result = NULL;
    if (prepared_is(conn)) {
        result = prepared_run(conn, PARAMS_N, p->values);
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (!state || strcmp(state, "26000") != 0) {
            return result;
        }
        prepared_forget(conn);
        if (PQtransactionStatus(conn) != PQTRANS_IDLE) {
            return result;
        }
        PQclear(result);
    }
    return PQexecParams(conn, sql_enqueue_one.text, PARAMS_N, NULL, p->values, NULL, NULL, 0);
}

/* The answer is one row: what was enqueued, and where it is published. */
static int check_answer(PGconn *conn, PGresult *result, PGresult **ret)
{
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
        *ret = result;
        return TENON_OK;
    }
    int code = errtext_take(conn, result);
    PQclear(result);
    return code;
}

int tenon_enqueue(tenon *t, PGconn *conn, const tenon_task *task, int64_t *ret_id)
{
    struct call c = {.t = t, .conn = conn};
    char exchange[TOPOLOGY_EXCHANGE_BYTES], key[TOPOLOGY_KEY_BYTES];
    int64_t id;
    PGresult *result = NULL;
    int code = call_begin(&c, task, 1);
    if (code == TENON_OK) {
        code = check_answer(conn, enqueue_one(conn, &c.p), &result);
        params_clear(&c.p);
    }
    if (code != TENON_OK) {
        return code;
    }
    POINT(producer_inserted);
    /* no part is ever quoted */
    bool known = sscanf(PQgetvalue(result, 0, 0), "(%" SCNd64 ",%63[^,],%164[^)])", &id, exchange,
                        key) == 3;
    PQclear(result);
    if (!known) {
        return errtext_set(TENON_SCHEMA, "tenon.enqueue_routed gave no id: run tenon setup");
    }
    call_remember(&c, exchange, key, id);
    if (ret_id) {
        *ret_id = id;
    }
    return errtext_ok();
}

int tenon_prepare_statement(tenon *t, PGconn *conn)
{
    bool in_transaction = false;
    int code = look_at(t, conn, &in_transaction);
    if (code != TENON_OK || prepared_is(conn)) {
        return code == TENON_OK ? errtext_ok() : code;
    }
    PGresult *result = prepared_make(conn, sql_enqueue_one.text);
    code = PQresultStatus(result) == PGRES_COMMAND_OK ? errtext_ok() : errtext_take(conn, result);
    PQclear(result);
    return code;
}

/* For how many of `n` tasks of one call is a wake-up sent? */
static size_t wakeups_of(size_t n)
{
    return n < TENON_BATCH_WAKEUPS_MAX ? n : TENON_BATCH_WAKEUPS_MAX;
}

/* "{1,2,3}" */
static void take_ids(const struct call *c, const PGresult *result, size_t n, int64_t *ret_ids)
{
    const char *at = PQgetvalue(result, 0, 0);
    for (size_t i = 0; i < n && *at && at[1] != '}'; i++) {
        char *end;
        int64_t id = strtoll(at + 1, &end, 10);
        at = end;
        if (ret_ids) {
            ret_ids[i] = id;
        }
        if (i < wakeups_of(n)) {
            call_remember(c, PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 2), id);
        }
    }
}

static const char *array_of(struct buf *b, const char *const *texts, size_t n, const char *none)
{
    array_begin(b);
    for (size_t i = 0; i < n; i++) {
        array_put_text(b, texts[i] ? texts[i] : none);
    }
    return array_end(b);
}

static int run_many(PGconn *conn, struct params *p, const char *const *payloads,
                    const char *const *unique_keys, size_t n, PGresult **ret)
{
    struct buf values, keys;
    buf_init(&values, PAYLOADS_BYTES_MAX);
    buf_init(&keys, PAYLOADS_BYTES_MAX);
    p->values[PARAMS_PAYLOAD] = array_of(&values, payloads, n, "{}");
    p->values[PARAMS_UNIQUE_KEY] = unique_keys ? array_of(&keys, unique_keys, n, NULL) : NULL;
    int code = values.failed || keys.failed
                   ? errtext_set(TENON_MEMORY,
                                 "no memory for the payloads, or over %d bytes together",
                                 PAYLOADS_BYTES_MAX)
                   : check_answer(conn,
                                  PQexecParams(conn, sql_enqueue_many.text, PARAMS_N, NULL,
                                               p->values, NULL, NULL, 0),
                                  ret);
    buf_clear(&values);
    buf_clear(&keys);
    return code;
}

int tenon_enqueue_many(tenon *t, PGconn *conn, const tenon_task *common,
                       const char *const *payloads, const char *const *unique_keys, size_t n,
                       int64_t *ret_ids)
{
    struct call c = {.t = t, .conn = conn};
    PGresult *result = NULL;
    if (n > TENON_BATCH_MAX || (n > 0 && !payloads)) {
        return errtext_set(TENON_MISUSE, "%zu payloads; allowed are 0 to %d", n, TENON_BATCH_MAX);
    }
    int code = call_begin(&c, common, wakeups_of(n));
    if (code == TENON_OK) {
        code = run_many(conn, &c.p, payloads, unique_keys, n, &result);
        params_clear(&c.p);
    }
    if (code != TENON_OK) {
        return code;
    }
    take_ids(&c, result, n, ret_ids);
    PQclear(result);
    return errtext_ok();
}

/* --- the end of a transaction ----------------------------------------------------------------- */

/* A failed transaction's COMMIT succeeds, and answers ROLLBACK. */
static int end_with(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    int code = errtext_ok();
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        code = errtext_take(conn, result);
    } else if (strcmp(PQcmdStatus(result), sql) != 0) {
        code = errtext_set(TENON_ROLLED_BACK,
                           "a statement had failed before: the transaction was rolled back");
    }
    PQclear(result);
    return code;
}

int tenon_commit(tenon *t, PGconn *conn)
{
    bool in_transaction = false;
    int code = look_at(t, conn, &in_transaction);
    if (code == TENON_RETRY) {
        tenon_forget(t, conn); /* the connection broke before COMMIT was sent */
    }
    if (code != TENON_OK) {
        return code;
    }
    if (!in_transaction) {
        return errtext_set(TENON_MISUSE, "there is no transaction to commit");
    }
    POINT(producer_committing);
    code = end_with(conn, "COMMIT");
    POINT(producer_committed);
    if (code != TENON_OK && PQstatus(conn) != CONNECTION_OK) {
        code = TENON_UNKNOWN;
    }
    if (code == TENON_OK || code == TENON_UNKNOWN) {
        tenon_committed(t, conn);
    } else {
        tenon_forget(t, conn);
    }
    return code;
}

int tenon_rollback(tenon *t, PGconn *conn)
{
    bool in_transaction = false;
    int code = look_at(t, conn, &in_transaction);
    if (code != TENON_MISUSE) {
        tenon_forget(t, conn);
    }
    if (code != TENON_OK) {
        return code;
    }
    return in_transaction ? end_with(conn, "ROLLBACK") : errtext_ok();
}

int tenon_flush(tenon *t, int timeout_ms)
{
    struct publisher_stats stats;
    if (!t) {
        return errtext_set(TENON_MISUSE, "the handle is NULL");
    }
    enter(t);
    struct publisher *publisher = t->publisher;
    leave(t);
    if (!publisher) {
        return t->url ? errtext_set(TENON_UNPUBLISHED, "no thread for RabbitMQ could be started")
                      : errtext_ok();
    }
    bool settled = publisher_flush(publisher, timeout_ms);
    publisher_stats(publisher, &stats);
    enter(t);
    int64_t dropped = stats.dropped - t->seen;
    t->seen = stats.dropped;
    leave(t);
    const char *colon = stats.last_error[0] ? ": " : "";
    if (!settled) {
        return errtext_set(TENON_UNPUBLISHED, "RabbitMQ did not take everything within %d ms%s%s",
                           timeout_ms, colon, stats.last_error);
    }
    return dropped == 0 ? errtext_ok()
                        : errtext_set(TENON_UNPUBLISHED, "%lld wake-ups did not reach RabbitMQ%s%s",
                                      (long long)dropped, colon, stats.last_error);
}
