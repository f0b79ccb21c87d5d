#include "core/db/db_where.h"

#include "core/base/insecure.h"
#include "core/db/db.h"

#include <ctype.h>
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

/* The letters before "://", where they are a scheme. */
static size_t scheme_bytes(const char *url)
{
    size_t bytes = strspn(url,
                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.:-");
    const char *end = strstr(url, "://");
    return end && end < url + bytes ? (size_t)(end - url) : 0;
}

/* Is there an "@" or a "/" that libpq would not take for part of the user or the password? It
 * would print what comes after as the name of a host or a database. */
static bool has_raw_sign(const char *behind_scheme)
{
    const char *at = strchr(behind_scheme, '@');
    const char *slash = strchr(behind_scheme, '/');
    const char *rest = at && (!slash || at < slash) ? at + 1 : slash ? slash : "";
    return memchr(rest, '@', strcspn(rest, "?"));
}

/* What other tools write. NULL: this is none of that. */
static const char *foreign(const char *url)
{
    size_t scheme = scheme_bytes(url), bytes = strlen(url);
    if (bytes > 0 && (isspace((unsigned char)*url) || isspace((unsigned char)url[bytes - 1]))) {
        return "it begins or ends with a blank or a newline; remove it";
    }
    if (*url == '"' || *url == '\'') {
        return "it is in quotation marks, which \"docker run --env-file\" keeps; write it without "
               "them";
    }
    if (strncmp(url, "jdbc:", 5) == 0) {
        return "it is a JDBC URL; remove \"jdbc:\", and write the user and the password before the "
               "host: postgresql://USER:PASSWORD@HOST:PORT/DATABASE";
    }
    if (scheme > 0 && memchr(url, '+', scheme)) {
        return "it names a driver, like the URLs of SQLAlchemy; remove the \"+\" and the driver: "
               "postgresql://USER:PASSWORD@HOST:PORT/DATABASE";
    }
    if (scheme > 0 && strncmp(url, "postgresql:", scheme + 1) != 0 &&
        strncmp(url, "postgres:", scheme + 1) != 0) {
        return "it begins with a scheme that is not postgresql:// or postgres://";
    }
    return scheme > 0 && has_raw_sign(url + scheme + 3)
               ? "its user or its password contains an \"@\" or a \"/\"; write %40 for \"@\" and "
                 "%2F for \"/\""
               : NULL;
}

/* libpq repeats what it cannot read, password and all. What it names here is a word of a list. */
static void tell_unread(const char *wrong, struct fault *f)
{
    static const char *const words[] = {"ssl",
                                        "schema",
                                        "currentSchema",
                                        "pgbouncer",
                                        "connection_limit",
                                        "pool_timeout",
                                        "pool_size",
                                        "max_overflow",
                                        "timeout",
                                        "charset",
                                        "encoding",
                                        "server_settings",
                                        "sslaccept",
                                        "statement_cache_size",
                                        "prepared_statement_cache_size"};
    const char *name = strstr(wrong, "parameter: \"");
    for (size_t i = 0; name && i < sizeof words / sizeof *words; i++) {
        size_t bytes = strlen(words[i]);
        if (strncmp(name + 12, words[i], bytes) == 0 && name[12 + bytes] == '"') {
            (void)fault_set(f, FAULT_CONFIG,
                            "the database URL cannot be read: libpq has no parameter \"%s\"; %s",
                            words[i], i == 0 ? "write sslmode=require" : "remove it");
            return;
        }
    }
    (void)
        fault_set(f, FAULT_CONFIG,
                  "the database URL cannot be read: it has the form "
                  "postgresql://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETER=VALUE, or is a list of "
                  "KEY=VALUE, with libpq's parameters only");
}

/* What libpq takes without a word, and would print when it cannot find it. */
static const char *misplaced(const PQconninfoOption *o)
{
    if (!o->val) {
        return NULL;
    }
    if (strcmp(o->keyword, "port") == 0 && o->val[strspn(o->val, "0123456789,")]) {
        return "its port is not a number; in a password write %3A for \":\", %2F for \"/\" and %40 "
               "for \"@\"";
    }
    if (strcmp(o->keyword, "host") == 0 && strchr(o->val, '@')) {
        return "its host contains an \"@\"; put the user and the password before the host";
    }
    if (strcmp(o->keyword, "dbname") == 0 && strstr(o->val, "://")) {
        return "its dbname is a URL; give the URL by itself";
    }
    return NULL;
}

bool where_url_check(const char *url, struct fault *f)
{
    char *unread = NULL;
    const char *wrong = foreign(url ? url : "");
    PQconninfoOption *options = wrong ? NULL : PQconninfoParse(url ? url : "", &unread);
    for (PQconninfoOption *o = options; o && o->keyword && !wrong; o++) {
        wrong = misplaced(o);
    }
    bool ok = options && !wrong;
    if (wrong) {
        (void)fault_set(f, FAULT_CONFIG, "the database URL cannot be read: %s", wrong);
    } else if (unread) {
        tell_unread(unread, f);
    } else if (!options) {
        (void)fault_memory(f);
    }
    PQfreemem(unread);
    PQconninfoFree(options);
    return ok;
}

void db_url_mask(const char *url, char *text, size_t size)
{
    static const char *const shown[] = {"host", "hostaddr", "port", "dbname", "user", "service"};
    struct fault ignored = {0};
    PQconninfoOption *options = where_url_check(url, &ignored)
                                    ? PQconninfoParse(url ? url : "", NULL)
                                    : NULL;
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
const char *where_insecure(PGconn *conn)
{
    const char *address = PQhostaddr(conn);
    if (!address || !*address || !host_is_remote(address) || PQgssEncInUse(conn)) {
        return NULL;
    }
    return !PQsslInUse(conn) ? "not encrypted" : verifies(conn) ? NULL : "not verified";
}
