#include "cleaner/decide/verdict.h"

#include <stdio.h>
#include <string.h>

enum { CHECKS_ENOUGH = 2 };

void verdict_start(struct verdict *v, int64_t now_ms)
{
    v->session_ms = now_ms;
    v->n = 0;
}

void verdict_begin(struct verdict *v)
{
    for (size_t i = 0; i < v->n; i++) {
        v->suspects[i].seen = false;
        v->suspects[i].is_dead = false;
    }
}

static struct verdict_suspect *suspect_find(struct verdict *v, const char *id)
{
    for (size_t i = 0; i < v->n; i++) {
        if (strcmp(v->suspects[i].id, id) == 0) {
            return &v->suspects[i];
        }
    }
    return NULL;
}

static struct verdict_suspect *suspect_add(struct verdict *v, const char *id)
{
    if (v->n == VERDICT_SUSPECTS_MAX) {
        return NULL;
    }
    struct verdict_suspect *s = &v->suspects[v->n++];
    *s = (struct verdict_suspect){.free_checks = 0};
    (void)snprintf(s->id, sizeof s->id, "%s", id);
    return s;
}

void verdict_worker(struct verdict *v, const char *id, bool lock_is_free, int64_t now_ms)
{
    if (!lock_is_free) {
        return; /* a suspect that is not seen on this check is none any more */
    }
    struct verdict_suspect *s = suspect_find(v, id);
    s = s ? s : suspect_add(v, id);
    if (!s) {
        return;
    }
    s->seen = true;
    if (s->free_checks == 0 || now_ms - s->checked_ms >= VERDICT_CHECK_MS - VERDICT_SLACK_MS) {
        s->free_checks++;
        s->checked_ms = now_ms;
    }
}

static void forget_unseen(struct verdict *v)
{
    size_t kept = 0;
    for (size_t i = 0; i < v->n; i++) {
        if (v->suspects[i].seen) {
            v->suspects[kept++] = v->suspects[i];
        }
    }
    v->n = kept;
}

size_t verdict_end(struct verdict *v, int64_t now_ms)
{
    forget_unseen(v);
    if (now_ms - v->session_ms < VERDICT_PATIENCE_MS) {
        return 0;
    }
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++) {
        v->suspects[i].is_dead = v->suspects[i].free_checks >= CHECKS_ENOUGH;
        n += v->suspects[i].is_dead;
    }
    return n;
}

bool verdict_is_open(const struct verdict *v)
{
    return v->n > 0;
}
