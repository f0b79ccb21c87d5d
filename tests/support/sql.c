#include "tests/support/sql.h"

#include "core/base/file.h"
#include "core/base/now.h"

#include <poll.h>
#include <stdio.h>

enum { AWAIT_PAUSE_MS = 5, STATISTICS_LIMIT_MS = 10000, SQL_FILE_BYTES_MAX = 1 << 20 };

static char *text_of(const char *fmt, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, fmt, args) < 0) {
        fail_msg("out of memory");
    }
    return text;
}

static const char *or_none(const char *text)
{
    return text ? text : "";
}

/* What PostgreSQL said: state, message, detail and hint on one line. */
static void error_text(const PGresult *result, char *text, size_t size)
{
    (void)snprintf(text, size, "%s %s %s",
                   or_none(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)),
                   or_none(PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL)),
                   or_none(PQresultErrorField(result, PG_DIAG_MESSAGE_HINT)));
}

static PGresult *run(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        print_error("%.600s\n", text);
        print_error("%s\n", result ? PQresultErrorMessage(result) : PQerrorMessage(conn));
        fail_msg("a statement that must succeed failed");
    }
    return result;
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

PGconn *sql_connect(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK) {
        fail_msg("could not connect to PostgreSQL: %s", PQerrorMessage(conn));
    }
    (void)PQsetNoticeReceiver(conn, ignore_notice, NULL);
    return conn;
}

void sql_runv(PGconn *conn, const char *fmt, va_list args)
{
    char *text = text_of(fmt, args);
    PQclear(run(conn, text));
    free(text);
}

void sql_file(PGconn *conn, const char *path)
{
    char whole[512];
    struct buf text;
    struct fault f = {0};
    (void)snprintf(whole, sizeof whole, "%s/%s", REPOSITORY, path);
    assert_ok(file_read(whole, "SQL file", SQL_FILE_BYTES_MAX, &text, &f), &f);
    sql_run(conn, "%s", buf_text(&text));
    buf_clear(&text);
}

char *sql_textv(PGconn *conn, const char *fmt, va_list args)
{
    char *text = text_of(fmt, args);
    PGresult *result = run(conn, text);
    bool any = PQntuples(result) > 0 && !PQgetisnull(result, 0, 0);
    char *value = any ? strdup(PQgetvalue(result, 0, 0)) : NULL;
    PQclear(result);
    free(text);
    return value;
}

void sql_run(PGconn *conn, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    sql_runv(conn, fmt, args);
    va_end(args);
}

char *sql_text(PGconn *conn, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *value = sql_textv(conn, fmt, args);
    va_end(args);
    return value;
}

int64_t sql_int(PGconn *conn, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *value = sql_textv(conn, fmt, args);
    va_end(args);
    int64_t n = value ? strtoll(value, NULL, 10) : 0;
    free(value);
    return n;
}

bool sql_bool(PGconn *conn, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *value = sql_textv(conn, fmt, args);
    va_end(args);
    bool is = value && *value == 't';
    free(value);
    return is;
}

/* Every part of `parts` must stand in `text`. */
static void contains_all(const char *text, const char *parts)
{
    char *copy = strdup(parts), *rest = copy, *part;
    while ((part = strsep(&rest, "|"))) {
        if (!strstr(text, part)) {
            print_error("\"%s\" does not contain \"%s\"\n", text, part);
            free(copy);
            fail_msg("the error does not say what it should");
        }
    }
    free(copy);
}

void sql_fails(PGconn *conn, const char *state, const char *parts, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = text_of(fmt, args);
    va_end(args);
    PGresult *result = PQexec(conn, text);
    char error[4096], got[6] = "";
    error_text(result, error, sizeof error);
    (void)snprintf(got, sizeof got, "%s", or_none(PQresultErrorField(result, PG_DIAG_SQLSTATE)));
    PQclear(result);
    if (strcmp(got, state) != 0) {
        print_error("%.2000s\nexpected %s, got %s %s\n", text, state, *got ? got : "no error",
                    error);
        free(text);
        fail_msg("the statement did not fail as it should");
    }
    free(text);
    contains_all(error, parts);
}

static void print_row(const PGresult *result)
{
    for (int i = 0; PQntuples(result) > 0 && i < PQnfields(result); i++) {
        print_error("%s%s=%s", i ? " " : "    ", PQfname(result, i),
                    PQgetisnull(result, 0, i) ? "NULL" : PQgetvalue(result, 0, i));
    }
    print_error("%s\n", PQntuples(result) > 0 ? "" : "    (no row)");
}

void (*sql_when_late)(void);

void sql_awaitv(PGconn *conn, int64_t limit_ms, const char *fmt, va_list args)
{
    char *text = text_of(fmt, args);
    int64_t deadline_ms = patience_end_ms(limit_ms);
    for (;;) {
        bool late = now_ms() >= deadline_ms;
        PGresult *result = run(conn, text);
        bool is = PQntuples(result) > 0 && *PQgetvalue(result, 0, 0) == 't';
        if (!is && late) {
            if (sql_when_late) {
                sql_when_late();
            }
            print_error("%s\n", text);
            print_row(result);
            fail_msg("not true within %lld ms", (long long)limit_ms);
        }
        PQclear(result);
        if (is) {
            break;
        }
        (void)poll(NULL, 0, AWAIT_PAUSE_MS);
    }
    free(text);
}

void sql_await(PGconn *conn, int64_t limit_ms, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    sql_awaitv(conn, limit_ms, fmt, args);
    va_end(args);
}

bool sql_comes_true(PGconn *conn, int64_t limit_ms, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = text_of(fmt, args);
    va_end(args);
    bool is = sql_bool(conn, "%s", text);
    for (int64_t end_ms = patience_end_ms(limit_ms); !is && now_ms() < end_ms;) {
        (void)poll(NULL, 0, AWAIT_PAUSE_MS);
        is = sql_bool(conn, "%s", text);
    }
    free(text);
    return is;
}

/* PostgreSQL 14 has no function for it. There an idle session sends its counters, all together,
 * every half second, to a process that writes them to a file. Once the row of a new table is
 * counted, so is all that was before it. */
void sql_flush_statistics(PGconn *conn)
{
    if (PQserverVersion(conn) >= 150000) {
        sql_run(conn, "SELECT pg_stat_force_next_flush()");
        return;
    }
    sql_run(conn, "DROP TABLE IF EXISTS pg_temp.mark; CREATE TEMP TABLE mark AS SELECT 1");
    sql_await(conn, STATISTICS_LIMIT_MS,
              "SELECT pg_stat_get_tuples_inserted('pg_temp.mark'::regclass) > 0");
}
