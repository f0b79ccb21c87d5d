#include "handlers/http_signature.h"

#include "core/base/file.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

bool secrets_read(struct secrets *s, const char *path, struct fault *f)
{
    char *rest, *line;
    *s = (struct secrets){.n = 0};
    if (!file_read(path, "file of secrets", SECRET_FILE_BYTES_MAX, &s->text, f)) {
        return false;
    }
    for (line = strtok_r(s->text.data, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        if (s->n == SECRETS_MAX) {
            return fault_set(f, FAULT_CONFIG, "%s has more than %d secrets", path, SECRETS_MAX);
        }
        if (strlen(line) < SECRET_BYTES_MIN) {
            return fault_set(f, FAULT_CONFIG, "a secret in %s has less than %d bytes", path,
                             SECRET_BYTES_MIN);
        }
        s->each[s->n++] = line;
    }
    return s->n > 0 || fault_set(f, FAULT_CONFIG, "%s has no secret", path);
}

void secrets_clear(struct secrets *s)
{
    OPENSSL_cleanse(s->text.data, s->text.len);
    buf_clear(&s->text);
    s->n = 0;
}

static void put_hmac(struct buf *b, const char *secret, const struct buf *signed_text)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_bytes = 0;
    if (!HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)signed_text->data,
              signed_text->len, digest, &digest_bytes)) {
        b->failed = true;
    }
    for (unsigned i = 0; i < digest_bytes; i++) {
        buf_printf(b, "%02x", digest[i]);
    }
}

void signature_put(struct buf *b, const struct secrets *s, int64_t time_s,
                   const struct pool_task *task, const char *url)
{
    struct buf text;
    buf_init(&text, strlen(task->kind) + strlen(url) + task->payload_bytes + 128);
    buf_printf(&text, "%lld\n%lld\n%s\n%lld\n%s\n", (long long)time_s, (long long)task->id,
               task->kind, (long long)task->attempt, url);
    buf_put(&text, task->payload, task->payload_bytes);
    buf_printf(b, "Tenon-Signature: t=%lld", (long long)time_s);
    for (size_t i = 0; i < s->n && !text.failed; i++) {
        buf_put_text(b, ",v2=");
        put_hmac(b, s->each[i], &text);
    }
    b->failed = b->failed || text.failed;
    buf_clear(&text);
}
