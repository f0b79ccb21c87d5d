/* Who may come in: anyone with the token, users with passwords, and users whom a trusted proxy
 * names. Each request says who it is from; nothing is kept between requests.
 *
 * If no means is given, a token is made at the start and only printed. Passwords are in a file, in
 * a form of crypt(3), one line each: NAME:HASH, or NAME:HASH:read-only. Safe to be used by many
 * threads. */
#ifndef TENON_UI_AUTH_H
#define TENON_UI_AUTH_H

#include "core/http/http.h"
#include "core/options/option.h"

enum {
    AUTH_USER_BYTES = 64,
    AUTH_TOKEN_BYTES = 129,    /* of a token, with its NUL */
    AUTH_TOKEN_BYTES_MIN = 16, /* of one that somebody else has made */
    AUTH_USERS_MAX = 1000,
    AUTH_FAILURES_MAX = 10, /* wrong tokens and passwords from an address in a minute */
};

struct auth;

struct who {
    char user[AUTH_USER_BYTES]; /* "" = a user with the token */
    bool read_only;
};

/* Read --token-file and --password-file, or make a token.
 *   o       borrowed while it is open
 *   false   CONFIG: a file cannot be read, or what is wrong in it, and where; --user-header without
 *           --trusted-proxy; MEMORY */
MUST_CHECK bool auth_open(const struct options *o, struct auth **ret, struct fault *f);
void auth_close(struct auth *a); /* NULL is fine */

/* The token that was made here; NULL = there are other means. */
const char *auth_made_token(const struct auth *a);

/* Which means there are. */
bool auth_has_token(const struct auth *a);
bool auth_has_passwords(const struct auth *a);
bool auth_has_proxy(const struct auth *a);

/* Whose request is this? The first of these counts: the header of a trusted proxy, Authorization:
 * Bearer TOKEN, Authorization: Basic with a name and a password.
 *   false   nobody's; REFUSED: a wrong token, name or password, which is logged; AGAIN: too many
 *           were wrong; of a request that says nothing about its sender `f` is left as it was */
bool auth_knows(struct auth *a, const struct http_request *r, struct who *ret, struct fault *f);

/* Status and headers of the answer to a request that auth_knows() did not know. */
void auth_challenge(const struct auth *a, const struct fault *f, struct http_answer *answer);

#endif
