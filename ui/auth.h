/* Who may come in: a token, or names with passwords; and the sessions of browsers.
 *
 * Nobody comes in without one of both. A token that nobody gave is made at the start, and only
 * printed. Passwords are in a file, in a form of crypt(3), one line each: NAME:HASH, or
 * NAME:HASH:read-only. Safe to be used by many threads. */
#ifndef TENON_UI_AUTH_H
#define TENON_UI_AUTH_H

#include "core/http/http.h"
#include "core/options/option.h"

enum {
    AUTH_USER_BYTES = 64,
    AUTH_TOKEN_BYTES = 129,    /* of a token, with its NUL */
    AUTH_TOKEN_BYTES_MIN = 16, /* of one that somebody else has made */
    AUTH_USERS_MAX = 1000,
    AUTH_SESSIONS_MAX = 256,        /* browsers; the one that was unused longest goes */
    AUTH_SESSION_MS = 12 * 3600000, /* without a request */
    AUTH_FAILURES_MAX = 10,         /* logins that failed from an address in a minute */
};

struct auth;

struct who {
    char user[AUTH_USER_BYTES]; /* "" = a user with the token */
    bool read_only;
};

/* Read --token-file and --password-file, or make a token.
 *   port    of the page, for the cookie's name: a host's cookies are those of all its ports
 *   false   CONFIG: a file cannot be read, or what is wrong in it, and where; MEMORY */
MUST_CHECK bool auth_open(const struct options *o, int port, struct auth **ret, struct fault *f);
void auth_close(struct auth *a); /* NULL is fine */

/* The token that was made here; NULL = there are other means. */
const char *auth_made_token(const struct auth *a);

/* Which means there are. */
bool auth_has_token(const struct auth *a);
bool auth_has_passwords(const struct auth *a);

/* Whose request is this, by its header Authorization: Bearer TOKEN, or by its cookie together with
 * its header X-Tenon-Session? (Browsers send a host's cookies to all of its ports, and so to the
 * pages of others on the same machine; the header is our own page's.)
 *   false   of a wrong token `f` is REFUSED, or AGAIN: too many were; else it is left as it was */
bool auth_knows(struct auth *a, const struct http_request *r, struct who *ret, struct fault *f);

/* Log in with a token, or with a name and a password; any may be NULL. The answer gets the cookie,
 * and {"session": "..."} for the header.
 *   false   REFUSED: it is wrong; AGAIN: too many were; MEMORY */
MUST_CHECK bool auth_login(struct auth *a, const struct http_request *r, const char *token,
                           const char *user, const char *password, struct http_answer *answer,
                           struct fault *f);
void auth_logout(struct auth *a, const struct http_request *r, struct http_answer *answer);

#endif
