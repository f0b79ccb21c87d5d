#include "tests/support/settle_acts.h"

#include "worker/statements.h"

#include <stdarg.h>
#include <stdio.h>

int below(struct schedule *s, int n)
{
    s->random ^= s->random >> 12;
    s->random ^= s->random << 25;
    s->random ^= s->random >> 27;
    return n > 0 ? (int)((s->random * 0x2545F4914F6CDD1D) >> 33) % n : 0;
}

void breaks(struct schedule *s, const char *what)
{
    if (!*s->broken) {
        (void)snprintf(s->broken, sizeof s->broken, "%s", what);
    }
}

/* --- sessions --- */

bool is_open(PGconn *conn)
{
    return PQtransactionStatus(conn) != PQTRANS_IDLE;
}

bool is_quiet(const struct schedule *s)
{
    bool any = false;
    for (int i = 0; i < SESSIONS; i++) {
        any = any || (s->sessions[i].conn && is_open(s->sessions[i].conn) && s->sessions[i].locks);
    }
    return !any;
}

/* Errors that are part of it: a row is locked, a deadlock, a flow that has ended. */
static bool may_fail(const char *state)
{
    return strcmp(state, "55P03") == 0 || strcmp(state, "40P01") == 0 ||
           strcmp(state, "55000") == 0;
}

static void say(PGconn *conn, const char *sql, PGresult *result, bool failed)
{
    print_message("  %d%s %s: %s\n", PQbackendPID(conn), is_open(conn) ? "*" : "", sql,
                  failed                   ? PQresultErrorMessage(result)
                  : PQntuples(result) == 1 ? PQgetvalue(result, 0, 0)
                                           : "");
}

void act_sql(struct schedule *s, PGconn *conn, const char *fmt, ...)
{
    char sql[1000];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(sql, sizeof sql, fmt, args);
    va_end(args);
    PGresult *result = PQexec(conn, sql);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (s->says) {
        say(conn, sql, result, state != NULL);
    }
    if (state && !may_fail(state)) {
        breaks(s, PQresultErrorMessage(result));
    }
    PQclear(result);
    if (PQtransactionStatus(conn) == PQTRANS_INERROR) {
        PQclear(PQexec(conn, "ROLLBACK"));
    }
}

/* One that may be in a transaction, or begin one. */
static PGconn *session_of(struct schedule *s, bool locks)
{
    struct session *one = &s->sessions[below(s, SESSIONS)];
    if (!is_open(one->conn)) {
        one->locks = false;
        if (below(s, 3) == 0) {
            act_sql(s, one->conn, "BEGIN");
        }
    }
    one->locks = one->locks || locks;
    return one->conn;
}

static PGconn *any_session(struct schedule *s)
{
    return session_of(s, false);
}

/* One that mostly is in a transaction. */
static PGconn *begun_session(struct schedule *s)
{
    PGconn *conn = any_session(s);
    if (!is_open(conn) && below(s, 2)) {
        act_sql(s, conn, "BEGIN");
    }
    return conn;
}

void end_transaction(struct schedule *s, PGconn *conn)
{
    if (is_open(conn)) {
        act_sql(s, conn, below(s, 4) > 0 ? "COMMIT" : "ROLLBACK");
    }
}

void sessions_open(struct schedule *s)
{
    for (int i = 0; i < SESSIONS; i++) {
        s->sessions[i] = (struct session){.conn = sql_connect(s->fx->database_url)};
        sql_run(s->sessions[i].conn, "SET lock_timeout = '20 ms'; SET deadlock_timeout = '10 ms'");
    }
}

void sessions_close(struct schedule *s)
{
    for (int i = 0; i < SESSIONS; i++) {
        end_transaction(s, s->sessions[i].conn);
        PQfinish(s->sessions[i].conn);
        s->sessions[i].conn = NULL;
    }
}

/* --- enqueueing --- */

static const char *const all_keys[] = {"'{n:1}'", "'{n:2}'",     "'{o}'",   "'{n:1,n:2}'",
                                       "'{p}'",   "'{o,n:2}'",   "'{m:1}'", "'{f:3,m:1}'",
                                       "'{r:1}'", "'{r:1,n:2}'", "'{f:1}'", "'{o,r:1}'"};

static void act_enqueue(struct schedule *s)
{
    const char *keys = below(s, 4) ? s->keys[below(s, KEYS_USED)] : "NULL";
    static const char *const on_dead[] = {"wait", "run", "cancel"};
    bool child = below(s, 3) == 0;
    char after[200] = "NULL";
    const char *dead = on_dead[below(s, 3)];
    if (child) {
        (void)snprintf(after, sizeof after,
                       "nullif(ARRAY(SELECT id FROM public.made ORDER BY id DESC OFFSET %d LIMIT"
                       " %d), '{}')",
                       below(s, 4), 1 + below(s, 3));
    }
    act_sql(
        s, any_session(s),
        "WITH p AS MATERIALIZED (SELECT %s::bigint[] AS ids), n AS MATERIALIZED (SELECT"
        " tenon.enqueue('a', flow => %lld, depends_on => p.ids, on_parent_dead => CASE WHEN p.ids"
        " IS NOT NULL THEN '%s' END, limit_keys => %s, priority => %d, delay => '%d ms') AS id,"
        " p.ids FROM p) INSERT INTO public.made SELECT n.id, n.ids, '%s' FROM n",
        after, s->flow, dead, keys, 4 + below(s, 2), below(s, 5) ? 0 : 1, dead);
}

/* A flow in one call: parent and child in one transaction. */
static void act_enqueue_flow(struct schedule *s)
{
    static const char *const keys[] = {"", ", \"limit_keys\": [\"n:1\"]",
                                       ", \"limit_keys\": [\"o\"]"};
    act_sql(s, any_session(s),
            "WITH f AS MATERIALIZED (SELECT tenon.flow('{\"tasks\": [{\"name\": \"x\", \"kind\":"
            " \"a\"%s}, {\"kind\": \"a\", \"depends_on\": [\"x\"]%s}]}'::jsonb) AS id) SELECT"
            " public.made_by(f.id) FROM f",
            keys[below(s, 3)], keys[below(s, 3)]);
}

/* So many of a fair key that it must wait for its turn. */
static void act_enqueue_many(struct schedule *s)
{
    act_sql(
        s, any_session(s),
        "WITH n AS MATERIALIZED (SELECT tenon.enqueue('a', flow => %lld, limit_keys => '{f:%d}')"
        " AS id FROM generate_series(1, %d)) INSERT INTO public.made SELECT n.id FROM n",
        s->flow, 1 + below(s, 3), 2 + below(s, 8));
}

/* --- runs and their ends --- */

/* One of the table, chosen by chance; 0: there is none. */
static long long any_id(struct schedule *s, const char *from)
{
    int64_t n = test_sql_int(s->fx, "SELECT count(*) FROM %s", from);
    return n == 0 ? 0
                  : (long long)test_sql_int(s->fx,
                                            "SELECT id FROM %s ORDER BY id OFFSET %d LIMIT"
                                            " 1",
                                            from, below(s, (int)n));
}

/* The one that tenon.claim_alone() takes; 0: there is none. */
static long long next_suspect(struct schedule *s)
{
    return (long long)test_sql_int(s->fx, "SELECT coalesce((SELECT id FROM tenon.suspects_due("
                                          "'{default}', '{a,b,mail}') ORDER BY priority DESC,"
                                          " due_at, id LIMIT 1), 0)");
}

/* With nothing else claimed, a suspect comes first. */
void act_claim(struct schedule *s)
{
    long long suspect = s->n_claims == 0 ? next_suspect(s) : 0;
    long long id = suspect ? suspect : any_id(s, "tenon.ready");
    if (id && s->n_claims < CLAIMS_MAX &&
        (suspect ? held_take_alone : held_take)(s->fx, s->worker, id, &s->claims[s->n_claims])) {
        s->n_claims += 1;
        if (s->says) {
            print_message("  task %lld is claimed\n", id);
        }
    }
}

/* locked, and so as it was: it is still ours */
static void keep_claim(struct schedule *s, const struct held *c)
{
    if (test_sql_bool(s->fx,
                      "SELECT count(*) > 0 FROM tenon.task WHERE id = %lld AND claims = %d"
                      " AND start_time IS NOT NULL",
                      (long long)c->id, c->claims)) {
        s->claims[s->n_claims++] = *c;
    }
}

static void act_end(struct schedule *s)
{
    static const char *const reasons[] = {"failed",  "failed", "dead",      "snooze",
                                          "crashed", "dead",   "timed_out", "released"};
    if (s->n_claims == 0) {
        return;
    }
    int i = below(s, s->n_claims), how = below(s, 16);
    struct held c = s->claims[i];
    s->claims[i] = s->claims[--s->n_claims];
    if (how >= 8) {
        (void)held_finish(s->fx, &sql_finish_unlocked, &c, "{\"result\": 1}");
    } else {
        free(held_requeue(s->fx, &c, reasons[how], "oops", below(s, 4) ? "0" : "1"));
    }
    if (s->says) {
        print_message("  the claim of %lld ends: %s\n", (long long)c.id,
                      how >= 8 ? "done" : reasons[how]);
    }
    keep_claim(s, &c);
}

/* By the worker; or by the handler, in a transaction that may end late. The claim may hold then. */
static void act_wait(struct schedule *s)
{
    if (s->n_claims == 0) {
        return;
    }
    int i = below(s, s->n_claims), signal = below(s, 6), soon = below(s, 4) == 0;
    struct held c = s->claims[i];
    if (below(s, 3) > 0) {
        char text[HELD_TEXT_BYTES];
        held_text(&c, text);
        act_sql(s, any_session(s), "SELECT tenon.wait_signal('%s', 's%d', '%s')", text, signal,
                soon ? "5 ms" : "1 day");
        return;
    }
    char name[8];
    (void)snprintf(name, sizeof name, "s%d", signal);
    s->claims[i] = s->claims[--s->n_claims];
    free(held_wait(s->fx, &c, name, soon ? "5" : NULL));
    if (s->says) {
        print_message("  task %lld waits for %s\n", (long long)c.id, name);
    }
    keep_claim(s, &c);
}

static void act_signal(struct schedule *s)
{
    int signal = below(s, 6);
    act_sql(s, any_session(s),
            "WITH n AS MATERIALIZED (SELECT tenon.signal('s%d', '%d') AS first) INSERT INTO"
            " public.sent SELECT 's%d', '%d' FROM n WHERE n.first",
            signal, signal, signal, signal);
}

static void act_take(struct schedule *s)
{
    PGconn *conn = begun_session(s);
    act_sql(s, conn, "SELECT public.take('r:1', %d)", 1 + below(s, 3));
}

/* --- operators --- */

static void act_cancel(struct schedule *s)
{
    long long id = any_id(s, "tenon.task");
    act_sql(s, session_of(s, true),
            "WITH m AS (UPDATE public.made m SET counts = true FROM tenon.task t WHERE t.id = m.id"
            " AND t.id = %lld AND t.start_time IS NOT NULL AND t.limit_keys IS NOT NULL) SELECT"
            " tenon.cancel(%lld)",
            id, id);
}

static void act_expire(struct schedule *s)
{
    act_sql(s, session_of(s, true),
            "UPDATE tenon.task SET start_before = clock_timestamp() WHERE id = %lld AND start_time"
            " IS NULL",
            any_id(s, "tenon.task"));
}

static void act_retry(struct schedule *s)
{
    long long id = any_id(s, "tenon.tasks WHERE state IN ('dead', 'cancelled', 'expired') AND NOT"
                             " EXISTS (SELECT FROM tenon.task t WHERE t.id = tasks.id)");
    if (id) { /* it waits for nobody any more */
        act_sql(s, any_session(s),
                "WITH r AS MATERIALIZED (SELECT tenon.retry_where('{\"ids\": %lld}') AS n), w AS"
                " (DELETE"
                " FROM public.wait w USING r WHERE w.task = %lld AND r.n = 1) UPDATE public.made m"
                " SET parents = NULL, counts = false FROM r WHERE m.id = %lld AND r.n = 1",
                id, id, id);
    }
}

static void act_delete(struct schedule *s)
{
    long long id = any_id(s, "tenon.dead");
    if (id) {
        act_sql(s, any_session(s), "SELECT tenon.delete_where('{\"ids\": %lld}')", id);
    }
}

/* Of a key that is used, or of all with its part before the colon; mostly late. */
static void act_pause(struct schedule *s)
{
    const char *key = s->keys[below(s, KEYS_USED)] + strlen("'{");
    const char *act = below(s, 2) ? "pause" : "resume";
    PGconn *conn = begun_session(s);
    act_sql(s, conn, "SELECT tenon.%s_limit('%.*s')", act,
            (int)strcspn(key, below(s, 2) ? ":,}" : ",}"), key);
}

/* An exception begins, or its time has come. */
static void act_except(struct schedule *s)
{
    if (below(s, 2)) {
        act_sql(
            s, any_session(s),
            "SELECT tenon.set_limit('m:1', max_running => %d, until => now() + interval '1 hour')",
            1 + below(s, 3));
    } else {
        act_sql(s, any_session(s),
                "UPDATE tenon.limit SET until = clock_timestamp() WHERE until IS NOT NULL");
    }
}

static void act_end_transaction(struct schedule *s)
{
    end_transaction(s, s->sessions[below(s, SESSIONS)].conn);
}

/* `often` of 40; a schedule is without some of those that are `spared`, so that there is more of
 * the others */
static const struct {
    void (*act)(struct schedule *);
    int often;
    bool spared;
} others[] = {
    {act_enqueue, 5, false}, {act_enqueue_flow, 1, true}, {act_enqueue_many, 2, true},
    {act_claim, 7, false},   {act_end, 6, false},         {act_wait, 3, true},
    {act_signal, 2, true},   {act_take, 2, true},         {act_cancel, 1, true},
    {act_expire, 1, true},   {act_retry, 2, true},        {act_delete, 1, true},
    {act_pause, 3, true},    {act_except, 2, true},       {act_end_transaction, 2, false},
};

enum { OTHERS = sizeof others / sizeof *others, OFTEN = 40 };

void act_any_other(struct schedule *s)
{
    int at = below(s, OFTEN), i = 0;
    while (at >= others[i].often) {
        at -= others[i++].often;
    }
    if (s->spared >> i & 1) {
        act_enqueue(s);
    } else {
        others[i].act(s);
    }
}

void acts_begin(struct schedule *s)
{
    s->spared = 0;
    for (int i = 0; i < OTHERS; i++) {
        s->spared |= (unsigned)(others[i].spared && below(s, 3) == 0) << i;
    }
    for (int i = 0; i < KEYS_USED; i++) {
        s->keys[i] = all_keys[below(s, sizeof all_keys / sizeof *all_keys)];
    }
}
