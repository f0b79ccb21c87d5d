#include "cleaner/decide/verdict.h"

#include <stdio.h>
#include <string.h>

enum { CHECKS_ENOUGH = 2 };

void verdict_start(struct verdict *v, int64_t now_ms)
{
    v->session_ms = now_ms;
    v->n = 0;
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

void verdict_lock_is_free(struct verdict *v, const char *id, int64_t now_ms)
{
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

void verdict_end(struct verdict *v)
{
    size_t kept = 0;
    for (size_t i = 0; i < v->n; i++) {
        if (v->suspects[i].seen) {
            v->suspects[kept] = v->suspects[i];
            v->suspects[kept++].seen = false;
        }
    }
    v->n = kept;
}

bool verdict_is_dead(const struct verdict *v, size_t i, int64_t now_ms)
{
    bool patient = now_ms - v->session_ms >= VERDICT_PATIENCE_MS;
    return patient && v->suspects[i].free_checks >= CHECKS_ENOUGH;
}
