#include "tests/support/held.h"

#include "core/base/array.h"
#include "worker/statements.h"

#include <stdio.h>

PGresult *statement_run(PGconn *conn, const struct statement *st, const char *const *params, int n)
{
    PGresult *result = PQexecParams(conn, st->text, n, NULL, params, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        fail_msg("%s.sql: %s", st->name, PQresultErrorMessage(result));
    }
    return result;
}

void worker_make(struct fixture *fx, char worker[UUID_BYTES])
{
    static int keys;
    char key[12];
    (void)snprintf(key, sizeof key, "%d", ++keys);
    const char *const params[] = {"host", "1", "10", "{default}", "{a,b,mail}", key, "0", NULL};
    PGresult *result = statement_run(fx->conn, &sql_register, params, 8);
    (void)snprintf(worker, UUID_BYTES, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
}

static bool take_answer(PGresult *result, const char *worker, int64_t id, struct held *ret)
{
    bool taken = PQntuples(result) == 1 && strtoll(PQgetvalue(result, 0, 0), NULL, 10) == id;
    struct held c = {.id = id};
    (void)snprintf(c.worker, sizeof c.worker, "%s", worker); /* `worker` may be that of `ret` */
    if (taken) {
        c.claims = (int)strtol(PQgetvalue(result, 0, 1), NULL, 10);
        c.key = strtoll(PQgetvalue(result, 0, 2), NULL, 10);
    }
    *ret = c;
    PQclear(result);
    return taken;
}

bool held_take(struct fixture *fx, const char *worker, int64_t id, struct held *ret)
{
    static uint64_t last_key;
    char ids[32], keys[32];
    last_key += 0x9e3779b97f4a7c15ULL; /* of either sign, and each once */
    (void)snprintf(ids, sizeof ids, "{%lld}", (long long)id);
    (void)snprintf(keys, sizeof keys, "{%lld}", (long long)last_key);
    const char *const params[] = {worker, ids, "{default}", "{a,b,mail}", "16777216", keys};
    return take_answer(statement_run(fx->conn, &sql_claim, params, 6), worker, id, ret);
}

bool held_take_alone(struct fixture *fx, const char *worker, int64_t id, struct held *ret)
{
    const char *const params[] = {worker, "{default}", "{a,b,mail}"};
    PQclear(statement_run(fx->conn, &sql_turn, params, 3));
    return take_answer(statement_run(fx->conn, &sql_claim_alone, params, 3), worker, id, ret);
}

void held_new(struct fixture *fx, struct held *ret)
{
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', '{\"n\": 1}')");
    assert_true(held_take(fx, worker, id, ret));
}

void held_alone(struct fixture *fx, const struct held *c, int crashes)
{
    test_sql(fx, "UPDATE tenon.task SET crashes = %d WHERE id = %lld", crashes, (long long)c->id);
    test_sql(fx,
             "INSERT INTO tenon.suspect (task_id, crashes, mark, alone, due_at, claims)"
             " SELECT id, crashes, tenon.progress_mark(t), true, now(), claims FROM tenon.task t"
             " WHERE id = %lld",
             (long long)c->id);
}

/* The fence of one claim as two arrays of one element. */
struct fence {
    char ids[32], keys[32];
};

static struct fence fence_of(const struct held *c)
{
    struct fence f;
    (void)snprintf(f.ids, sizeof f.ids, "{%lld}", (long long)c->id);
    (void)snprintf(f.keys, sizeof f.keys, "{%lld}", (long long)c->key);
    return f;
}

static char *requeue(struct fixture *fx, const struct held *c, const char *reason,
                     const char *error, const char *delay_ms, const char *signal)
{
    struct fence f = fence_of(c);
    char reasons[64], errors[1024], delays[64], signals[64];
    (void)snprintf(reasons, sizeof reasons, "{%s}", reason);
    (void)snprintf(errors, sizeof errors, error ? "{\"%s\"}" : "{NULL}", error);
    (void)snprintf(delays, sizeof delays, "{%s}", delay_ms ? delay_ms : "NULL");
    (void)snprintf(signals, sizeof signals, "{%s}", signal);
    const char *const params[] = {f.ids, f.keys, reasons, errors, delays, "{NULL}", signals};
    PGresult *result = statement_run(fx->conn, &sql_requeue, params, 7);
    char *state = strdup(PQntuples(result) == 1 ? PQgetvalue(result, 0, 1) : "");
    PQclear(result);
    return state;
}

char *held_requeue(struct fixture *fx, const struct held *c, const char *reason, const char *error,
                   const char *delay_ms)
{
    return requeue(fx, c, reason, error, delay_ms, "s");
}

char *held_wait(struct fixture *fx, const struct held *c, const char *signal, const char *delay_ms)
{
    return requeue(fx, c, "wait_signal", NULL, delay_ms, signal);
}

bool held_finish(struct fixture *fx, const struct statement *st, const struct held *c,
                 const char *reply)
{
    struct fence f = fence_of(c);
    struct buf replies;
    buf_init(&replies, 10000);
    array_begin(&replies);
    array_put_text(&replies, reply);
    const char *const params[] = {f.ids, f.keys, array_end(&replies)};
    PGresult *result = statement_run(fx->conn, st, params, 3);
    bool finished = PQntuples(result) == 0;
    buf_clear(&replies);
    PQclear(result);
    return finished;
}

void held_text(const struct held *c, char text[HELD_TEXT_BYTES])
{
    (void)snprintf(text, HELD_TEXT_BYTES, "%lld/%d/%016llx", (long long)c->id, c->claims,
                   (unsigned long long)c->key);
}

char *task_state_of(struct fixture *fx, int64_t id)
{
    char *state = test_sql_text(fx,
                                "SELECT string_agg(state, '+') FROM tenon.tasks WHERE id = %lld",
                                (long long)id);
    return state ? state : strdup("");
}

void assert_state(struct fixture *fx, int64_t id, const char *state)
{
    char *got = task_state_of(fx, id);
    if (strcmp(got, state) != 0) {
        fail_msg("task %lld is \"%s\", not \"%s\"", (long long)id, got, state);
    }
    free(got);
}
