#include "cleaner/decide/verdict.h"

#include <stdio.h>
#include <string.h>

enum { CHECKS_ENOUGH = 2 };

void verdict_start(struct verdict *v, int64_t now_ms)
{
    v->session_ms = now_ms;
    v->n = 0;
}

void verdict_forget(struct verdict *v)
{
    v->n = 0;
}

/* Found or added; NULL when there is no room. */
static struct verdict_suspect *suspect_of(struct verdict *v, const char *id)
{
    size_t i = 0;
    while (i < v->n && strcmp(v->suspects[i].id, id) != 0) {
        i++;
    }
    if (i == VERDICT_SUSPECTS_MAX) {
        return NULL;
    }
    if (i == v->n) {
        v->suspects[v->n++] = (struct verdict_suspect){.free_checks = 0};
        (void)snprintf(v->suspects[i].id, sizeof v->suspects[i].id, "%s", id);
    }
    return &v->suspects[i];
}

void verdict_lock_is_free(struct verdict *v, const char *id, int64_t now_ms)
{
    struct verdict_suspect *s = suspect_of(v, id);
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
