#include "tests/sim/judge.h"

#include "cleaner/decide/verdict.h"

#include <stdio.h>
#include <stdlib.h>

struct judge {
    struct verdict verdict;
};

struct judge *judge_new(void)
{
    struct judge *j = malloc(sizeof *j);
    if (!j) {
        abort();
    }
    return j;
}

void judge_free(struct judge *j)
{
    free(j);
}

void judge_start(struct judge *j, int64_t now_ms)
{
    verdict_start(&j->verdict, now_ms);
}

void judge_begin(struct judge *j)
{
    verdict_begin(&j->verdict);
}

void judge_worker(struct judge *j, int worker, bool lock_is_free, int64_t now_ms)
{
    char text[VERDICT_ID_BYTES];
    (void)snprintf(text, sizeof text, "%d", worker);
    verdict_worker(&j->verdict, text, lock_is_free, now_ms);
}

int judge_end(struct judge *j, int64_t now_ms, int *workers)
{
    int n = 0;
    (void)verdict_end(&j->verdict, now_ms);
    for (size_t i = 0; i < j->verdict.n; i++) {
        if (j->verdict.suspects[i].is_dead) {
            workers[n++] = (int)strtol(j->verdict.suspects[i].id, NULL, 10);
        }
    }
    return n;
}

int64_t judge_next_ms(const struct judge *j, int64_t now_ms)
{
    return verdict_is_open(&j->verdict) ? now_ms + VERDICT_CHECK_MS : INT64_MAX;
}
