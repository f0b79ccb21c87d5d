#include "core/db/db_login.h"

#include "core/db/db.h"
#include "core/db/sqlstate.h"

#include <ctype.h>
#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STATE_LETTERS = 5 };

/* `wanted` is what libpq's target_session_attrs says. */
static PGconn *connect_to(const char *url, const char *wanted, const char *name)
{
    /* what comes before dbname is a default, which the URL may override */
    const char *const keywords[] = {"application_name",     "connect_timeout",
                                    "keepalives_idle",      "keepalives_interval",
                                    "keepalives_count",     "tcp_user_timeout",
                                    "target_session_attrs", "dbname",
                                    "client_encoding",      NULL};
    char connect_s[12];
    (void)snprintf(connect_s, sizeof connect_s, "%d", DB_CONNECT_LIMIT_S);
    const char *const values[] = {name,    connect_s, "10",           "5",    "3",
                                  "20000", wanted,    url ? url : "", "UTF8", NULL};
    return PQconnectdbParams(keywords, values, 1);
}

/* Does a line end with what libpq writes of a server's answer, in any language: "FATAL:  28P01"? */
static bool ends_with_state(const char *line, size_t bytes, char state[6])
{
    const char *at = line + bytes - STATE_LETTERS;
    if (bytes < STATE_LETTERS + 3 || strncmp(at - 3, ":  ", 3) != 0) {
        return false;
    }
    for (int i = 0; i < STATE_LETTERS; i++) {
        if (!isdigit((unsigned char)at[i]) && !isupper((unsigned char)at[i])) {
            return false;
        }
    }
    (void)snprintf(state, 6, "%.*s", STATE_LETTERS, at);
    return true;
}

/* Of several hosts' answers the first that a person must mend, else the last. */
static void find_state(const char *text, char ret_state[6])
{
    for (const char *at = text; *at; at += strspn(at, "\n")) {
        size_t bytes = strcspn(at, "\n");
        if (ends_with_state(at, bytes, ret_state) && sqlstate_fault(ret_state) == FAULT_CONFIG) {
            return;
        }
        at += bytes;
    }
}

/* What is written in the server's language is for people. libpq tells the SQLSTATE of a failed
 * connection only in a text that it makes while it connects, and only when it was told so before;
 * so where a server has answered, it is asked once more. That may even succeed. */
static void ask_state(PGconn *conn, char ret_state[6])
{
    if (strstr(PQerrorMessage(conn), ":  ")) {
        (void)PQsetErrorVerbosity(conn, PQERRORS_SQLSTATE);
        PQreset(conn);
        (void)PQsetErrorVerbosity(conn, PQERRORS_DEFAULT);
        find_state(PQerrorMessage(conn), ret_state);
    }
}

/* Without it no server is asked. */
static bool root_certificate_check(PGconn *conn, struct fault *f)
{
    const char *file = "", *mode = "";
    PQconninfoOption *options = PQconninfo(conn);
    for (PQconninfoOption *o = options; o && o->keyword; o++) {
        file = strcmp(o->keyword, "sslrootcert") == 0 && o->val ? o->val : file;
        mode = strcmp(o->keyword, "sslmode") == 0 && o->val ? o->val : mode;
    }
    bool ok = strncmp(mode, "verify", 6) != 0 || !*file || strcmp(file, "system") == 0 ||
              access(file, R_OK) == 0 ||
              fault_set(f, FAULT_CONFIG,
                        "the root certificate \"%s\" cannot be read (%s): it is named by "
                        "sslrootcert",
                        file, strerror(errno));
    PQconninfoFree(options);
    return ok;
}

static bool is_open(const PGconn *conn)
{
    return PQstatus(conn) == CONNECTION_OK;
}

bool login_open(const char *url, bool any, const char *name, PGconn **ret_conn, struct fault *f)
{
    char text[FAULT_TEXT_BYTES_MAX], state[6] = "";
    PGconn *conn = connect_to(url, "read-write", name);
    bool answered = conn && strstr(PQerrorMessage(conn), ":  "); /* a server refused the login */
    if (any && conn && !is_open(conn) && !answered) {
        PQfinish(conn);
        conn = connect_to(url, "any", name);
    }
    *ret_conn = conn;
    if (!conn) {
        return fault_memory(f);
    }
    if (is_open(conn)) {
        return true;
    }
    bool mend = PQconnectionNeedsPassword(conn);
    (void)snprintf(text, sizeof text, "%s", PQerrorMessage(conn));
    ask_state(conn, state);
    if (is_open(conn)) {
        return true;
    }
    mend = mend || sqlstate_fault(state) == FAULT_CONFIG;
    if (root_certificate_check(conn, f)) {
        (void)fault_set(f, mend ? FAULT_CONFIG : FAULT_RETRY, "%s", text);
        (void)snprintf(f->sqlstate, sizeof f->sqlstate, "%s", state);
    }
    return fault_add(f, "could not connect to PostgreSQL");
}
