#include "core/db_where.h"

#include "core/db.h"
#include "core/exposed.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

void where_text(const PGconn *conn, char *text, size_t size)
{
    const char *host = PQhost(conn);
    (void)snprintf(text, size, "host=%s port=%s dbname=%s user=%s", host && *host ? host : "local",
                   PQport(conn) ? PQport(conn) : "", PQdb(conn) ? PQdb(conn) : "",
                   PQuser(conn) ? PQuser(conn) : "");
}

void db_url_mask(const char *url, char *text, size_t size)
{
    static const char *const shown[] = {"host", "hostaddr", "port", "dbname", "user", "service"};
    PQconninfoOption *options = PQconninfoParse(url ? url : "", NULL);
    size_t len = 0;
    text[0] = '\0';
    for (PQconninfoOption *o = options; o && o->keyword; o++) {
        for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
            if (o->val && strcmp(o->keyword, shown[i]) == 0 && len < size) {
                int n = snprintf(text + len, size - len, "%s%s=%s", len ? " " : "", o->keyword,
                                 o->val);
                len += n > 0 ? (size_t)n : 0;
            }
        }
    }
    PQconninfoFree(options);
}

/* libpq quotes what it cannot read, password and all; only an option's name may be repeated. */
static const char *harmless(const char *wrong)
{
    bool names_option = strncmp(wrong, "invalid connection option", 25) == 0 ||
                        strncmp(wrong, "invalid URI query parameter", 27) == 0;
    return names_option ? wrong
                        : "it has the form postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or is a "
                          "list of KEY=VALUE";
}

bool where_url_check(const char *url, struct fault *f)
{
    char *wrong = NULL;
    PQconninfoOption *options = PQconninfoParse(url ? url : "", &wrong);
    if (!options) {
        (void)fault_set(f, FAULT_CONFIG, "the database URL cannot be read: %s",
                        wrong ? harmless(wrong) : "out of memory");
        PQfreemem(wrong);
        return false;
    }
    PQconninfoFree(options);
    return true;
}

static bool verifies(PGconn *conn)
{
    bool found = false;
    PQconninfoOption *options = PQconninfo(conn);
    for (PQconninfoOption *o = options; o && o->keyword; o++) {
        found = found || (o->val && strcmp(o->keyword, "sslmode") == 0 &&
                          strcmp(o->val, "verify-full") == 0);
    }
    PQconninfoFree(options);
    return found;
}

/* A socket has no address. */
const char *where_exposed(PGconn *conn)
{
    const char *address = PQhostaddr(conn);
    if (!address || !*address || !exposed_host(address) || PQgssEncInUse(conn)) {
        return NULL;
    }
    return !PQsslInUse(conn) ? "not encrypted" : verifies(conn) ? NULL : "not verified";
}
