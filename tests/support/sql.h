/* SQL in tests: run it, get one value, wait for a condition. Every error fails the test, with the
 * statement's text. `fmt` is printf's; a text value needs its own quotes around %s. */
#ifndef TENON_TESTS_SUPPORT_SQL_H
#define TENON_TESTS_SUPPORT_SQL_H

#include "tests/support/test.h"

#include <libpq-fe.h>

/* A new connection, which the caller ends with PQfinish(). */
PGconn *sql_connect(const char *url);

/* Run statements on a connection. The result is of the last one. */
void sql_run(PGconn *conn, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The statements of a file of the repository, as one script. */
void sql_file(PGconn *conn, const char *path);

/* The first column of the first row; 0, false and NULL for SQL's NULL and when there is no row.
 * A text belongs to the caller, free(). */
int64_t sql_int(PGconn *conn, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool sql_bool(PGconn *conn, const char *fmt, ...) PRINTF_LIKE(2, 3);
char *sql_text(PGconn *conn, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The statement must fail with this SQLSTATE, and its message, detail and hint, joined with spaces,
 * must contain each of `parts`, which are separated by '|'. */
void sql_fails(PGconn *conn, const char *state, const char *parts, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* Ask every 5 ms until the first column is true; fail after limit_ms with the last row. */
void sql_await(PGconn *conn, int64_t limit_ms, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Called before a wait fails: the fixture prints what its processes have logged. */
extern void (*sql_when_late)(void);

/* The same, but false when limit_ms has passed. */
bool sql_comes_true(PGconn *conn, int64_t limit_ms, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* What this session has done stands in PostgreSQL's statistics now. */
void sql_flush_statistics(PGconn *conn);

/* The same with the text already made; for wrappers. */
void sql_runv(PGconn *conn, const char *fmt, va_list args);
char *sql_textv(PGconn *conn, const char *fmt, va_list args);
void sql_awaitv(PGconn *conn, int64_t limit_ms, const char *fmt, va_list args);

#endif
