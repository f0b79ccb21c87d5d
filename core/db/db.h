/* One PostgreSQL session. The only place that knows libpq.
 *
 * Every statement goes through db_batch(): a pipeline and one commit, with a time limit of our
 * own, so that no thread hangs on a server that stopped answering. When a fault RETRY broke the
 * session (db_is_open()), the outcome of what was sent is unknown; close it and open another. If it
 * did not (a full disk), all was rolled back. One thread at a time. */
#ifndef TENON_CORE_DB_H
#define TENON_CORE_DB_H

#include "core/base/fault.h"
#include "core/db/statement.h"

#include <stdint.h>

enum {
    DB_CONNECT_LIMIT_S = 5,        /* to connect to one host, and again to set the session up */
    DB_STATEMENT_LIMIT_MS = 15000, /* statement_timeout of every session */
    DB_LOCK_LIMIT_MS = 100,        /* lock_timeout of every session but a setup's */
    DB_ANSWER_LIMIT_MS = 20000,    /* how long db_exec() and db_script() wait for an answer */
    DB_LONG_LIMIT_MS = 86400000,   /* how long db_script_long() does */
    DB_NOTIFIED_BYTES = 8000,      /* what a NOTIFY says, with its NUL */
    DB_IDLE_LIMIT_MS = 30000,      /* idle_session_timeout of a presence session */
};

enum db_kind {
    DB_HOT,   /* plans pinned to index scans: rounds, polls, publishing chores; through a pooler it
               * prepares nothing and sets all within each transaction */
    DB_PLAIN, /* the planner is free: enqueue; through a pooler it sets nothing */
    DB_PRESENCE, /* holds one advisory lock; the server ends it when it is idle too long */
    DB_LEADER,   /* as DB_HOT; with session locks and LISTEN, as DB_PRESENCE: no pooler */
    DB_SETUP,    /* as DB_PLAIN: no pooler */
    DB_READ,     /* plans as DB_HOT; one transaction that is rolled back and leaves nothing; also on
              * a server that takes no writes */
    /* with one of the others: also on a server that takes no writes, such as a standby, where no
     * host of the URL takes them */
    DB_ANY = 16,
};

/* What pins the plans of a DB_HOT session, as a text for psql. */
extern const char db_session_hot[];

struct db;
struct rows;

/* One statement of a batch. `params` are in PostgreSQL's text form, NULL is SQL's NULL. */
struct db_call {
    const struct statement *statement;
    const char *const *params;
    int n_params;
    struct rows *rows; /* set by db_batch(); free with rows_free() */
};

/* Connect and set the session up: UTC, READ COMMITTED, time limits, keepalives, and whatever a
 * role's own settings could change the meaning of our statements with.
 *   url     a libpq URL or keyword string; NULL or "" = libpq's PG* variables
 *   name    application_name, shown in pg_stat_activity; a constant, such as "tenon pause"
 *   false   CONFIG: the URL cannot be parsed, login refused, no such database, a pooler where the
 *           kind needs a direct connection; RETRY: all else */
MUST_CHECK bool db_open(const char *url, enum db_kind kind, const char *name, struct db **ret,
                        struct fault *f);
void db_close(struct db *db); /* NULL is fine */

/* Run `n` statements in one pipeline and one transaction that commits at the end.
 *   limit_ms  after this long without an answer the session is given up (RETRY)
 *   false     no rows are returned; `*ret_failed` (may be NULL) says which call failed, or n */
MUST_CHECK bool db_batch(struct db *db, struct db_call *calls, size_t n, int64_t limit_ms,
                         size_t *ret_failed, struct fault *f);

/* Run one statement; `ret` may be NULL when its rows do not matter. */
MUST_CHECK bool db_exec(struct db *db, const struct statement *statement, const char *const *params,
                        int n_params, struct rows **ret, struct fault *f);

/* Run a text of several statements, as in psql: SET, LISTEN, BEGIN/COMMIT; the long one is for
 * migrations and for locks that setup waits for. */
MUST_CHECK bool db_script(struct db *db, const char *text, struct fault *f);
MUST_CHECK bool db_script_long(struct db *db, const char *text, struct fault *f);

/* False after a fault that broke the session. */
bool db_is_open(const struct db *db);

/* End the session from another thread: a caller that waits for it gets a fault RETRY. */
void db_cut(struct db *db);

/* The socket to poll for notifications, and what the next of them says. false: there is none, or it
 * came after the first call since the last false: those of a flood do not continue without end. */
int db_fd(const struct db *db);
bool db_next_notified(struct db *db, char text[DB_NOTIFIED_BYTES]);

/* libpq's own handle, for libtenon, which enqueues on it. */
struct pg_conn *db_conn(const struct db *db);

/* The process id of the server's backend as this client was told; a pooler tells another one. */
int db_backend_pid(const struct db *db);

/* "host=127.0.0.1 port=5432 dbname=app user=app": what the session is connected to, no secrets. */
const char *db_where(const struct db *db);

/* How a connection to another host is unsafe: "not encrypted" or "not verified"; NULL = it is safe,
 * or leads to this host. */
const char *db_insecure(const struct db *db);

/* What a URL names, without its password, for log lines; `text` gets at most `size` bytes. */
void db_url_mask(const char *url, char *text, size_t size);

/* The version of libpq in its own form, 150018 = 15.18. */
int db_library_version(void);

size_t rows_count(const struct rows *rows);
int rows_columns(const struct rows *rows);
bool rows_is_null(const struct rows *rows, size_t row, int column);
const char *rows_text(const struct rows *rows, size_t row, int column); /* NULL = SQL's NULL */
size_t rows_bytes(const struct rows *rows, size_t row, int column);
int64_t rows_int(const struct rows *rows, size_t row, int column); /* 0 for NULL */
bool rows_bool(const struct rows *rows, size_t row, int column);   /* false for NULL */
void rows_free(struct rows *rows);                                 /* NULL is fine */

#endif
