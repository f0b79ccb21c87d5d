#include "ui/auth.h"

#include "core/base/file.h"
#include "core/base/now.h"
#include "ui/passwords.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    SECRET_BYTES = 16, /* random ones */
    SECRET_TEXT_BYTES = 2 * SECRET_BYTES + 1,
    COOKIE_BYTES = 32,
    TOKEN_FILE_BYTES_MAX = 4096,
    FAILURE_SLOTS = 256,
    MINUTE_MS = 60000,
};

struct session {
    char secret[SECRET_TEXT_BYTES]; /* in the cookie; "" = free */
    char key[SECRET_TEXT_BYTES];    /* in a header, by our own page only */
    struct who who;
    int64_t used_ms;
};

struct auth {
    char token[AUTH_TOKEN_BYTES]; /* "" = there is none */
    bool made;
    struct passwords *passwords; /* NULL = there are none */
    char cookie[COOKIE_BYTES];
    pthread_mutex_t lock; /* of what follows */
    struct session sessions[AUTH_SESSIONS_MAX];
    struct {
        int64_t since_ms;
        int n;
    } failures[FAILURE_SLOTS]; /* by a hash of the address */
};

static bool secret_make(char text[SECRET_TEXT_BYTES], struct fault *f)
{
    unsigned char bytes[SECRET_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        return fault_set(f, FAULT_RETRY, "could not get random bytes from the kernel");
    }
    for (int i = 0; i < SECRET_BYTES; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    return true;
}

/* In a time that does not tell where they differ. */
static bool secrets_equal(const char *known, const char *given)
{
    size_t n = strlen(known);
    return n > 0 && strlen(given) == n && CRYPTO_memcmp(known, given, n) == 0;
}

/* --- start and end -------------------------------------------------------------------------- */

static bool token_read(struct auth *a, const char *path, struct fault *f)
{
    struct buf text;
    bool ok = file_read(path, "token file", TOKEN_FILE_BYTES_MAX, &text, f);
    size_t n = ok ? strcspn(buf_text(&text), "\r\n") : 0;
    if (ok && (n < AUTH_TOKEN_BYTES_MIN || n >= AUTH_TOKEN_BYTES)) {
        ok =
            fault_set(f, FAULT_CONFIG,
                      "the token in %s has %zu characters; %d to %d are allowed, such as \"openssl "
                      "rand -hex 16\" prints",
                      path, n, AUTH_TOKEN_BYTES_MIN, AUTH_TOKEN_BYTES - 1);
    } else if (ok) {
        (void)snprintf(a->token, sizeof a->token, "%.*s", (int)n, buf_text(&text));
    }
    buf_clear(&text);
    return ok;
}

bool auth_open(const struct options *o, int port, struct auth **ret, struct fault *f)
{
    const char *token = option_text(o, OPTION_TOKEN_FILE);
    const char *passwords = option_text(o, OPTION_PASSWORD_FILE);
    struct auth *a = calloc(1, sizeof *a);
    if (!a) {
        return fault_memory(f);
    }
    (void)pthread_mutex_init(&a->lock, NULL);
    (void)snprintf(a->cookie, sizeof a->cookie, "tenon_%d", port);
    a->made = !token && !passwords;
    bool ok = (!token || token_read(a, token, f)) &&
              (!passwords || passwords_read(passwords, &a->passwords, f)) &&
              (!a->made || secret_make(a->token, f));
    if (ok) {
        *ret = a;
    } else {
        auth_close(a);
    }
    return ok;
}

void auth_close(struct auth *a)
{
    if (a) {
        passwords_free(a->passwords);
        (void)pthread_mutex_destroy(&a->lock);
        OPENSSL_cleanse(a, sizeof *a);
        free(a);
    }
}

const char *auth_made_token(const struct auth *a)
{
    return a->made ? a->token : NULL;
}

bool auth_has_token(const struct auth *a)
{
    return *a->token;
}

bool auth_has_passwords(const struct auth *a)
{
    return a->passwords != NULL;
}

/* --- tries ---------------------------------------------------------------------------------- */

static const char too_many[] = "too many failed logins from this address: wait a minute";

static size_t slot_of(const struct http_request *r)
{
    char peer[HTTP_PEER_BYTES];
    size_t hash = 5381;
    http_peer(r, peer);
    for (const char *c = peer; *c; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    return hash % FAILURE_SLOTS;
}

/* Each try counts until it turns out to be right, so that tries at once are counted too. */
static bool may_try(struct auth *a, size_t slot)
{
    int64_t at_ms = now_ms();
    (void)pthread_mutex_lock(&a->lock);
    if (at_ms - a->failures[slot].since_ms >= MINUTE_MS) {
        a->failures[slot].since_ms = at_ms;
        a->failures[slot].n = 0;
    }
    bool may = a->failures[slot].n < AUTH_FAILURES_MAX;
    a->failures[slot].n += may;
    (void)pthread_mutex_unlock(&a->lock);
    return may;
}

static void forget_try(struct auth *a, size_t slot)
{
    (void)pthread_mutex_lock(&a->lock);
    a->failures[slot].n -= a->failures[slot].n > 0;
    (void)pthread_mutex_unlock(&a->lock);
}

/* --- sessions ------------------------------------------------------------------------------- */

/* NULL = there is none, or it has ended. Under the lock. */
static struct session *session_of(struct auth *a, const struct http_request *r, int64_t at_ms)
{
    const char *cookie = http_cookie(r, a->cookie), *key = http_header(r, "X-Tenon-Session");
    for (size_t i = 0; cookie && key && i < AUTH_SESSIONS_MAX; i++) {
        struct session *s = &a->sessions[i];
        if (secrets_equal(s->secret, cookie) && secrets_equal(s->key, key)) {
            return at_ms - s->used_ms < AUTH_SESSION_MS ? s : NULL;
        }
    }
    return NULL;
}

/* A wrong token is a login that failed. */
static bool bearer_fits(struct auth *a, const struct http_request *r, const char *token,
                        struct fault *f)
{
    size_t slot = slot_of(r);
    if (!may_try(a, slot)) {
        return fault_set(f, FAULT_AGAIN, too_many);
    }
    if (!secrets_equal(a->token, token)) {
        return fault_set(f, FAULT_REFUSED, "wrong token");
    }
    forget_try(a, slot);
    return true;
}

bool auth_knows(struct auth *a, const struct http_request *r, struct who *ret, struct fault *f)
{
    int64_t at_ms = now_ms();
    const char *header = http_header(r, "Authorization");
    *ret = (struct who){.user = ""};
    if (header && strncmp(header, "Bearer ", 7) == 0) {
        return bearer_fits(a, r, header + 7, f);
    }
    (void)pthread_mutex_lock(&a->lock);
    struct session *s = session_of(a, r, at_ms);
    if (s) {
        s->used_ms = at_ms;
        *ret = s->who;
    }
    (void)pthread_mutex_unlock(&a->lock);
    return s != NULL;
}

/* One that is free or was unused longest. */
static struct session *session_to_take(struct auth *a)
{
    struct session *oldest = &a->sessions[0];
    for (size_t i = 0; i < AUTH_SESSIONS_MAX; i++) {
        struct session *s = &a->sessions[i];
        if (!*s->secret) {
            return s;
        }
        oldest = s->used_ms < oldest->used_ms ? s : oldest;
    }
    return oldest;
}

/* Behind a proxy that speaks TLS the browser's own word tells that the cookie may be Secure. */
static void put_cookie(const struct auth *a, const struct http_request *r, const char *secret,
                       struct http_answer *answer)
{
    const char *origin = http_header(r, "Origin");
    bool tls = origin && strncmp(origin, "https://", 8) == 0;
    http_answer_header(answer, "Set-Cookie", "%s=%s; Path=/; HttpOnly; SameSite=Strict%s%s",
                       a->cookie, secret, tls ? "; Secure" : "", *secret ? "" : "; Max-Age=0");
}

static bool session_begin(struct auth *a, const struct who *who, struct session *ret,
                          struct fault *f)
{
    *ret = (struct session){.who = *who, .used_ms = now_ms()};
    if (!secret_make(ret->secret, f) || !secret_make(ret->key, f)) {
        return false;
    }
    (void)pthread_mutex_lock(&a->lock);
    *session_to_take(a) = *ret;
    (void)pthread_mutex_unlock(&a->lock);
    return true;
}

/* --- logins --------------------------------------------------------------------------------- */

bool auth_login(struct auth *a, const struct http_request *r, const char *token, const char *user,
                const char *password, struct http_answer *answer, struct fault *f)
{
    struct who who = {.user = ""};
    struct session s;
    size_t slot = slot_of(r);
    if (!may_try(a, slot)) {
        return fault_set(f, FAULT_AGAIN, too_many);
    }
    if (!(token && secrets_equal(a->token, token)) &&
        !(a->passwords && user && password && passwords_fit(a->passwords, user, password, &who))) {
        return fault_set(f, FAULT_REFUSED, token ? "wrong token" : "wrong name or password");
    }
    forget_try(a, slot);
    if (!session_begin(a, &who, &s, f)) {
        return false;
    }
    put_cookie(a, r, s.secret, answer);
    buf_printf(&answer->body, "{\"session\": \"%s\"}", s.key);
    return true;
}

void auth_logout(struct auth *a, const struct http_request *r, struct http_answer *answer)
{
    (void)pthread_mutex_lock(&a->lock);
    struct session *s = session_of(a, r, now_ms());
    if (s) {
        *s = (struct session){.secret = ""};
    }
    (void)pthread_mutex_unlock(&a->lock);
    put_cookie(a, r, "", answer);
}
