#include "tests/sim/journal.h"

#include "tests/sim/sim.h"

#include <stdlib.h>

int journal_start(struct sim *s, const struct node *n, int worker, struct fence fence)
{
    struct journal *j = &s->journal;
    struct row *r = row_find(s, fence.id);
    if (j->n == j->cap) {
        j->cap = j->cap ? 2 * j->cap : 64;
        j->entries = realloc(j->entries, (size_t)j->cap * sizeof *j->entries);
        if (!j->entries) {
            abort();
        }
    }
    j->entries[j->n] =
        (struct run_entry){.fence = fence,
                           .worker = worker,
                           .node = n->index,
                           .before = r ? r->last_run : -1,
                           .claimed_us = r ? r->claimed_us[fence_claims(fence) % CLAIMS_KEPT] : 0,
                           .start_us = s->now_us};
    TRACE(s, "run: task %lld claim %d on worker %d", (long long)fence.id, fence_claims(fence),
          n->index);
    check_run(s, &j->entries[j->n]);
    if (r) {
        r->last_run = j->n;
    }
    j->n++;
    return j->n - 1;
}

void journal_end(struct sim *s, int entry, enum run_end end, bool bad)
{
    static const char *const words[] = {"goes on", "done", "failed", "crashed",
                                        "killed",  "died", "retired"};
    struct run_entry *e = &s->journal.entries[entry];
    TRACE(s, "run: task %lld claim %d is over: %s", (long long)e->fence.id, fence_claims(e->fence),
          words[end]);
    e->end = end;
    e->end_us = s->now_us;
    e->bad = bad;
}

const struct run_entry *journal_find(const struct sim *s, int64_t id, int claims)
{
    const struct row *r = row_find((struct sim *)(uintptr_t)s, id);
    int i = r ? r->last_run : -1;
    while (i >= 0 && fence_claims(s->journal.entries[i].fence) != claims) {
        i = s->journal.entries[i].before;
    }
    return i >= 0 ? &s->journal.entries[i] : NULL;
}

void journal_hear(struct sim *s, int64_t id, int claims, int said)
{
    const struct run_entry *e = journal_find(s, id, claims);
    if (e) {
        s->journal.entries[e - s->journal.entries].heard = said;
    }
}

void journal_free(struct sim *s)
{
    free(s->journal.entries);
    s->journal.entries = NULL;
    s->journal.n = s->journal.cap = 0;
}
