#include "enqueue/errtext.h"

#include "core/db/sqlstate.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

enum { TEXT_BYTES = 1024 };

static _Thread_local char errtext[TEXT_BYTES];

int errtext_ok(void)
{
    errtext[0] = '\0';
    return TENON_OK;
}

int errtext_set(int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(errtext, sizeof errtext, fmt, args);
    va_end(args);
    for (char *c = errtext; *c; c++) {
        *c = iscntrl((unsigned char)*c) ? ' ' : *c;
    }
    return code;
}

static int code_of_state(const char *state)
{
    return sqlstate_is(state, "25P02")                                  ? TENON_ABORTED
           : sqlstate_is(state, "22 23")                                ? TENON_REFUSED
           : sqlstate_is(state, "40 55P03 57014 57P 53 08 25006 26000") ? TENON_RETRY
           : sqlstate_is(state, "3F000 42883 42P01")                    ? TENON_SCHEMA
           : sqlstate_is(state, "42501")                                ? TENON_DENIED
                                                                        : TENON_FAILED;
}

int errtext_take(PGconn *conn, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    if (!state || !primary) {
        return errtext_set(TENON_RETRY, "%s", PQerrorMessage(conn));
    }
    return errtext_set(code_of_state(state), "%s%s%s", primary, hint ? "; " : "", hint ? hint : "");
}

const char *tenon_errmsg(void)
{
    return errtext;
}

const char *tenon_strerror(int code)
{
    static const char *const texts[] = {
        [TENON_OK] = "success",
        [TENON_MISUSE] = "the call was not allowed",
        [TENON_MEMORY] = "out of memory",
        [TENON_REFUSED] = "an argument is not allowed",
        [TENON_RETRY] = "try the transaction again",
        [TENON_ABORTED] = "the transaction had failed before",
        [TENON_ROLLED_BACK] = "the transaction was rolled back",
        [TENON_UNKNOWN] = "it is unknown whether the transaction committed",
        [TENON_SCHEMA] = "the database has no schema tenon, or an older one",
        [TENON_DENIED] = "the role may not enqueue",
        [TENON_FAILED] = "PostgreSQL reported an error",
        [TENON_UNPUBLISHED] = "some wake-ups did not reach RabbitMQ",
        [TENON_NOT_YET] = "none of the tasks has ended yet",
    };
    size_t n = sizeof texts / sizeof *texts;
    return code >= 0 && (size_t)code < n ? texts[code] : "unknown code";
}

int errtext_look_at(PGconn *conn, bool *ret_in_transaction)
{
    if (!conn) {
        return errtext_set(TENON_MISUSE, "the connection is NULL");
    }
    if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF) {
        return errtext_set(TENON_MISUSE, "the connection is in pipeline mode");
    }
    switch (PQtransactionStatus(conn)) {
    case PQTRANS_IDLE:
        *ret_in_transaction = false;
        return TENON_OK;
    case PQTRANS_INTRANS:
    case PQTRANS_INERROR:
        *ret_in_transaction = true;
        return TENON_OK;
    case PQTRANS_ACTIVE:
        return errtext_set(TENON_MISUSE, "a statement is under way on the connection");
    case PQTRANS_UNKNOWN:
        break;
    }
    return errtext_set(TENON_RETRY, "the connection to PostgreSQL is broken");
}
