#include "ui/passwords.h"

#include "core/base/file.h"

#include <crypt.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { FILE_BYTES_MAX = 1 << 20, PASSWORD_BYTES_MAX = 512, MAC_BYTES = 32 };

struct user {
    struct who who;
    char *hash;
    bool seen;                    /* was the password right once? Then this is its HMAC: */
    unsigned char mac[MAC_BYTES]; /* under a key that ends with the process */
};

struct passwords {
    unsigned char key[MAC_BYTES];
    pthread_mutex_t lock; /* of `data` and what is seen; and a hash takes long on purpose */
    struct crypt_data data;
    size_t n;
    struct user users[AUTH_USERS_MAX];
};

static bool bad_line(const char *path, int line, const char *what, struct fault *f)
{
    return fault_set(f, FAULT_CONFIG,
                     "%s:%d: %s; a line is NAME:HASH or NAME:HASH:read-only, such "
                     "as \"openssl passwd -6\" prints the hash",
                     path, line, what);
}

static bool is_name(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n < AUTH_USER_BYTES &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@+-") == n;
}

/* "name:hash[:read-only]", which is cut up. */
static bool add_user(struct passwords *p, const char *path, int line, char *text, struct fault *f)
{
    char *hash = strchr(text, ':'), *rights = hash ? strchr(hash + 1, ':') : NULL;
    if (!hash || p->n == AUTH_USERS_MAX) {
        return bad_line(path, line, hash ? "too many names" : "there is no colon", f);
    }
    *hash++ = '\0';
    if (rights) {
        *rights++ = '\0';
    }
    if (rights && strcmp(rights, "read-only") != 0) {
        return bad_line(path, line, "the third part must be read-only", f);
    }
    if (!is_name(text) || hash[0] != '$' || strlen(hash) >= CRYPT_OUTPUT_SIZE) {
        return bad_line(path, line,
                        is_name(text) ? "the hash is not one of crypt(3)"
                                      : "the name is not allowed",
                        f);
    }
    struct user *u = &p->users[p->n];
    u->hash = strdup(hash);
    if (!u->hash) {
        return fault_memory(f);
    }
    memcpy(u->who.user, text, strlen(text) + 1);
    u->who.read_only = rights != NULL;
    p->n++;
    return true;
}

static bool add_users(struct passwords *p, const char *path, struct buf *text, struct fault *f)
{
    char *next = text->data;
    for (int line = 1; next && *next; line++) {
        char *at = strsep(&next, "\n");
        size_t n = strlen(at);
        if (n > 0 && at[n - 1] == '\r') {
            at[n - 1] = '\0';
        }
        if (*at && *at != '#' && !add_user(p, path, line, at, f)) {
            return false;
        }
    }
    return p->n > 0 || fault_set(f, FAULT_CONFIG, "%s contains no names", path);
}

bool passwords_read(const char *path, struct passwords **ret, struct fault *f)
{
    struct buf text;
    struct passwords *p = calloc(1, sizeof *p);
    if (!p) {
        return fault_memory(f);
    }
    (void)pthread_mutex_init(&p->lock, NULL);
    bool ok = file_read(path, "password file", FILE_BYTES_MAX, &text, f) &&
              add_users(p, path, &text, f) &&
              (getrandom(p->key, sizeof p->key, 0) == sizeof p->key ||
               fault_set(f, FAULT_RETRY, "could not get random bytes from the kernel"));
    OPENSSL_cleanse(text.data, text.data ? text.len : 0);
    buf_clear(&text);
    if (ok) {
        *ret = p;
    } else {
        passwords_free(p);
    }
    return ok;
}

void passwords_free(struct passwords *p)
{
    if (p) {
        for (size_t i = 0; i < p->n; i++) {
            free(p->users[i].hash);
        }
        (void)pthread_mutex_destroy(&p->lock);
        OPENSSL_cleanse(p, sizeof *p);
        free(p);
    }
}

/* With another's hash for a name that is not there, so that it takes as long. */
static struct user *user_of(struct passwords *p, const char *name, bool *ret_there)
{
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->users[i].who.user, name) == 0) {
            *ret_there = true;
            return &p->users[i];
        }
    }
    *ret_there = false;
    return &p->users[0];
}

static bool hash_fits(struct passwords *p, const char *hash, const char *password)
{
    const char *made = crypt_r(password, hash, &p->data);
    return made && *made != '*' && strlen(made) == strlen(hash) &&
           CRYPTO_memcmp(made, hash, strlen(made)) == 0;
}

bool passwords_fit(struct passwords *p, const char *user, const char *password, struct who *ret)
{
    unsigned char mac[MAC_BYTES];
    bool there;
    struct user *u = user_of(p, user, &there);
    if (strlen(password) >= PASSWORD_BYTES_MAX ||
        !HMAC(EVP_sha256(), p->key, sizeof p->key, (const unsigned char *)password,
              strlen(password), mac, NULL)) {
        return false;
    }
    (void)pthread_mutex_lock(&p->lock);
    bool fits = there && u->seen && CRYPTO_memcmp(u->mac, mac, sizeof mac) == 0;
    if (!fits && hash_fits(p, u->hash, password) && there) {
        memcpy(u->mac, mac, sizeof mac);
        u->seen = fits = true;
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (fits) {
        *ret = u->who;
    }
    return fits;
}
