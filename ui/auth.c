#include "ui/auth.h"

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/network.h"
#include "core/base/now.h"
#include "ui/passwords.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

enum {
    SECRET_BYTES = 16, /* random ones */
    TOKEN_FILE_BYTES_MAX = 4096,
    PAIR_BYTES = 768, /* of NAME:PASSWORD, with its NUL */
    FAILURE_SLOTS = 256,
    MINUTE_MS = 60000,
};

struct auth {
    const struct options *options;
    char token[AUTH_TOKEN_BYTES]; /* "" = there is none */
    bool made;
    struct passwords *passwords; /* NULL = there are none */
    const char *user_header;     /* NULL = no proxy names users */
    pthread_mutex_t lock;        /* of what follows */
    struct {
        int64_t since_ms;
        int n;
    } failures[FAILURE_SLOTS]; /* by a hash of the address */
};

/* In a time that does not tell where they differ. */
static bool secrets_equal(const char *known, const char *given)
{
    size_t n = strlen(known);
    return n > 0 && strlen(given) == n && CRYPTO_memcmp(known, given, n) == 0;
}

/* --- start and end -------------------------------------------------------------------------- */

static bool token_make(struct auth *a, struct fault *f)
{
    unsigned char bytes[SECRET_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        return fault_set(f, FAULT_RETRY, "could not get random bytes from the kernel");
    }
    for (int i = 0; i < SECRET_BYTES; i++) {
        (void)snprintf(a->token + 2 * i, 3, "%02x", bytes[i]);
    }
    return true;
}

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

bool auth_open(const struct options *o, struct auth **ret, struct fault *f)
{
    const char *token = option_text(o, OPTION_TOKEN_FILE);
    const char *passwords = option_text(o, OPTION_PASSWORD_FILE);
    struct auth *a = calloc(1, sizeof *a);
    if (!a) {
        return fault_memory(f);
    }
    (void)pthread_mutex_init(&a->lock, NULL);
    a->options = o;
    a->user_header = option_text(o, OPTION_USER_HEADER);
    a->made = !token && !passwords && !a->user_header;
    bool ok = !a->user_header || option_items(o, OPTION_TRUSTED_PROXY) > 0 ||
              fault_set(f, FAULT_CONFIG,
                        "--user-header needs --trusted-proxy, the address of the proxy: anyone "
                        "else can send that header too");
    ok = ok && (!token || token_read(a, token, f)) &&
         (!passwords || passwords_read(passwords, &a->passwords, f)) &&
         (!a->made || token_make(a, f));
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

bool auth_has_proxy(const struct auth *a)
{
    return a->user_header != NULL;
}

/* --- proxies -------------------------------------------------------------------------------- */

static bool is_trusted(const struct auth *a, const char *address)
{
    struct network network;
    for (size_t i = 0; i < option_items(a->options, OPTION_TRUSTED_PROXY); i++) {
        if (network_read(option_item(a->options, OPTION_TRUSTED_PROXY, i), &network) &&
            network_has(&network, address)) {
            return true;
        }
    }
    return false;
}

/* The address that failures count against: of a trusted proxy's client the one that the proxy added
 * at the end of the last X-Forwarded-For (HAProxy adds a header, nginx an address); what stands
 * before it is the client's own word. */
static void client_of(const struct auth *a, const struct http_request *r,
                      char address[HTTP_PEER_BYTES])
{
    struct network network;
    http_peer(r, address);
    const char *list = is_trusted(a, address) ? http_header_last(r, "X-Forwarded-For") : NULL;
    if (list) {
        const char *last = strrchr(list, ',');
        last = last ? last + 1 : list;
        last += strspn(last, " ");
        if (strlen(last) < HTTP_PEER_BYTES && network_read(last, &network)) {
            (void)snprintf(address, HTTP_PEER_BYTES, "%s", last);
        }
    }
}

static bool is_operator(const struct auth *a, const char *user)
{
    size_t n = option_items(a->options, OPTION_OPERATORS);
    bool is = n == 0;
    for (size_t i = 0; i < n && !is; i++) {
        is = strcmp(option_item(a->options, OPTION_OPERATORS, i), user) == 0;
    }
    return is;
}

/* Printable ASCII. A comma joins two headers of this name, of which one is the client's. */
static bool is_name(const char *text)
{
    size_t n = strlen(text);
    for (const char *c = text; *c; c++) {
        if (*c < 0x20 || *c > 0x7E || *c == ',') {
            return false;
        }
    }
    return n > 0 && n < AUTH_USER_BYTES;
}

static bool proxy_names(const struct auth *a, const struct http_request *r, struct who *ret,
                        struct fault *f)
{
    char peer[HTTP_PEER_BYTES];
    const char *name = a->user_header ? http_header(r, a->user_header) : NULL;
    http_peer(r, peer);
    if (!name || !*name || !is_trusted(a, peer)) {
        return false;
    }
    if (!is_name(name)) {
        return fault_set(f, FAULT_REFUSED, "the name in the header %s is not allowed",
                         a->user_header);
    }
    (void)snprintf(ret->user, sizeof ret->user, "%s", name);
    ret->read_only = !is_operator(a, name);
    return true;
}

/* A wrong --trusted-proxy should not be a riddle. False. */
static bool untrusted(const struct auth *a, const struct http_request *r, struct fault *f)
{
    char peer[HTTP_PEER_BYTES];
    const char *name = a->user_header ? http_header(r, a->user_header) : NULL;
    http_peer(r, peer);
    return name && *name &&
           fault_set(f, FAULT_REFUSED, "the header %s is from %s, which is not in --trusted-proxy",
                     a->user_header, peer);
}

/* --- tries ---------------------------------------------------------------------------------- */

static size_t slot_of(const char *address)
{
    size_t hash = 5381;
    for (const char *c = address; *c; c++) {
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

/* What follows the scheme of an Authorization header; NULL = it has another scheme. */
static const char *after_scheme(const char *header, const char *scheme)
{
    size_t n = strlen(scheme);
    return strncasecmp(header, scheme, n) == 0 && header[n] == ' ' ? header + n + 1 : NULL;
}

/* base64(NAME:PASSWORD), split in `pair`. */
static bool pair_read(const char *text, char pair[PAIR_BYTES], char **ret_password)
{
    size_t n = strlen(text);
    if (n < 4 || n / 4 * 3 >= PAIR_BYTES) {
        return false;
    }
    int bytes = EVP_DecodeBlock((unsigned char *)pair, (const unsigned char *)text, (int)n);
    bytes -= (text[n - 1] == '=') + (text[n - 2] == '='); /* decoded as if they were data */
    if (bytes < 1) {
        return false;
    }
    pair[bytes] = '\0';
    *ret_password = strchr(pair, ':');
    if (!*ret_password || strlen(pair) != (size_t)bytes) {
        return false;
    }
    *(*ret_password)++ = '\0';
    return true;
}

/* Of a refused one `ret` has the name that was given. */
static bool basic_fits(struct auth *a, const char *text, struct who *ret)
{
    char pair[PAIR_BYTES], *password;
    bool fits = false;
    if (pair_read(text, pair, &password)) {
        (void)snprintf(ret->user, sizeof ret->user, "%.*s", AUTH_USER_BYTES - 1, pair);
        fits = passwords_fit(a->passwords, pair, password, ret);
    }
    OPENSSL_cleanse(pair, sizeof pair);
    return fits;
}

static bool refuse(const char *address, const struct who *who, const char *why, struct fault *f)
{
    log_event(LOG_WARNING, LOG_EVENT("ui_login_failed"), LOG_TEXT("from", address),
              LOG_TEXT("user", *who->user ? who->user : NULL));
    return fault_set(f, FAULT_REFUSED, "%s", why);
}

bool auth_knows(struct auth *a, const struct http_request *r, struct who *ret, struct fault *f)
{
    char address[HTTP_PEER_BYTES];
    const char *header = http_header(r, "Authorization");
    const char *token = header && *a->token ? after_scheme(header, "Bearer") : NULL;
    const char *basic = header && a->passwords ? after_scheme(header, "Basic") : NULL;
    *ret = (struct who){.user = ""};
    if (proxy_names(a, r, ret, f)) {
        return true;
    }
    if (f->code != FAULT_NONE || (!token && !basic)) {
        return f->code == FAULT_NONE && untrusted(a, r, f);
    }
    client_of(a, r, address);
    size_t slot = slot_of(address);
    if (!may_try(a, slot)) {
        return fault_set(f, FAULT_AGAIN, "too many failed logins from this address: wait a minute");
    }
    if (token ? !secrets_equal(a->token, token) : !basic_fits(a, basic, ret)) {
        return refuse(address, ret, token ? "wrong token" : "wrong name or password", f);
    }
    forget_try(a, slot);
    return true;
}

void auth_challenge(const struct auth *a, const struct fault *f, struct http_answer *answer)
{
    answer->status = f->code == FAULT_AGAIN ? 429 : 401;
    if (f->code == FAULT_AGAIN) {
        http_answer_header(answer, "Retry-After", "%d", MINUTE_MS / 1000);
    } else if (a->passwords) {
        http_answer_header(answer, "WWW-Authenticate", "Basic realm=\"tenon\", charset=\"UTF-8\"");
    } else if (*a->token) {
        http_answer_header(answer, "WWW-Authenticate", "Bearer realm=\"tenon\"");
    }
}
