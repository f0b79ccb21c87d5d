#include "ui/pool.h"

#include "core/base/now.h"
#include "core/db/schema.h"
#include "core/statements.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct pool {
    const char *url;
    char where[256];
    pthread_mutex_t lock;
    pthread_cond_t given;
    bool answers; /* did it, when it was asked at this time? */
    int64_t asked_ms;
    struct {
        struct db *db; /* NULL = not connected */
        bool taken;
    } sessions[POOL_SESSIONS];
};

static bool session_open(const char *url, struct db **ret, struct fault *f)
{
    char limit[64];
    (void)snprintf(limit, sizeof limit, "SET statement_timeout = %d", POOL_STATEMENT_LIMIT_MS);
    if (!db_open(url, DB_LEADER | DB_ANY, "tenon ui", ret, f)) {
        return false;
    }
    if (schema_check(*ret, f) && db_script(*ret, limit, f)) {
        return true;
    }
    db_close(*ret);
    *ret = NULL;
    return false;
}

/* Clocks of conditions are CLOCK_REALTIME unless one says otherwise. */
static bool pool_locks_open(struct pool *p)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) {
        return false;
    }
    bool ok = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&p->given, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    return ok && pthread_mutex_init(&p->lock, NULL) == 0;
}

bool pool_open(const char *url, struct pool **ret, struct fault *f)
{
    struct pool *p = calloc(1, sizeof *p);
    if (!p || !pool_locks_open(p)) {
        free(p);
        return fault_memory(f);
    }
    p->url = url;
    if (!session_open(url, &p->sessions[0].db, f)) {
        pool_close(p);
        return false;
    }
    p->answers = true; /* it just did */
    (void)snprintf(p->where, sizeof p->where, "%s", db_where(p->sessions[0].db));
    *ret = p;
    return true;
}

void pool_close(struct pool *p)
{
    if (p) {
        for (int i = 0; i < POOL_SESSIONS; i++) {
            db_close(p->sessions[i].db);
        }
        (void)pthread_cond_destroy(&p->given);
        (void)pthread_mutex_destroy(&p->lock);
        free(p);
    }
}

const char *pool_where(const struct pool *p)
{
    return p->where;
}

/* The first that is free: so most are never opened. -1: none is. */
static int free_one(const struct pool *p)
{
    for (int i = 0; i < POOL_SESSIONS; i++) {
        if (!p->sessions[i].taken) {
            return i;
        }
    }
    return -1;
}

static int take(struct pool *p, struct fault *f)
{
    struct timespec until = now_after(POOL_WAIT_LIMIT_MS);
    int i, code = 0;
    (void)pthread_mutex_lock(&p->lock);
    while ((i = free_one(p)) < 0 && code != ETIMEDOUT) {
        code = pthread_cond_timedwait(&p->given, &p->lock, &until);
    }
    if (i >= 0) {
        p->sessions[i].taken = true;
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (i < 0) {
        (void)fault_set(f, FAULT_RETRY, "none of the %d sessions with PostgreSQL was free in %d ms",
                        POOL_SESSIONS, POOL_WAIT_LIMIT_MS);
    }
    return i;
}

static void give(struct pool *p, int i)
{
    if (p->sessions[i].db && !db_is_open(p->sessions[i].db)) {
        db_close(p->sessions[i].db);
        p->sessions[i].db = NULL;
    }
    (void)pthread_mutex_lock(&p->lock);
    p->sessions[i].taken = false;
    (void)pthread_cond_signal(&p->given);
    (void)pthread_mutex_unlock(&p->lock);
}

/* In a session that is ours alone for now. */
static bool run_in(struct pool *p, int i, struct db_call *calls, size_t n, bool again,
                   struct fault *f)
{
    bool was_open = p->sessions[i].db != NULL;
    if (!was_open && !session_open(p->url, &p->sessions[i].db, f)) {
        return false;
    }
    if (db_batch(p->sessions[i].db, calls, n, POOL_ANSWER_LIMIT_MS, NULL, f)) {
        return true;
    }
    if (!again || !was_open || db_is_open(p->sessions[i].db)) {
        return false;
    }
    db_close(p->sessions[i].db);
    p->sessions[i].db = NULL;
    fault_clear(f);
    return run_in(p, i, calls, n, false, f);
}

bool pool_run(struct pool *p, struct db_call *calls, size_t n, bool again, struct fault *f)
{
    int i = take(p, f);
    if (i < 0) {
        return false;
    }
    bool ok = run_in(p, i, calls, n, again, f);
    give(p, i);
    return ok;
}

static bool ask(struct pool *p)
{
    struct fault f = {.code = FAULT_NONE};
    struct db_call call = {.statement = &sql_schema_version};
    bool answers = pool_run(p, &call, 1, true, &f);
    rows_free(call.rows);
    return answers;
}

/* While one request asks, the others get the answer before. */
bool pool_answers(struct pool *p)
{
    int64_t at_ms = now_ms();
    (void)pthread_mutex_lock(&p->lock);
    bool due = at_ms - p->asked_ms >= POOL_ASK_MS, answers = p->answers;
    p->asked_ms = due ? at_ms : p->asked_ms;
    (void)pthread_mutex_unlock(&p->lock);
    if (due) {
        answers = ask(p);
        (void)pthread_mutex_lock(&p->lock);
        p->answers = answers;
        (void)pthread_mutex_unlock(&p->lock);
    }
    return answers;
}
