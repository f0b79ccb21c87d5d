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

void judge_forget(struct judge *j)
{
    verdict_forget(&j->verdict);
}

void judge_lock_is_free(struct judge *j, int worker, int64_t now_ms)
{
    char text[VERDICT_ID_BYTES];
    (void)snprintf(text, sizeof text, "%d", worker);
    verdict_lock_is_free(&j->verdict, text, now_ms);
}

int judge_end(struct judge *j, int64_t now_ms, int *workers)
{
    int n = 0;
    verdict_end(&j->verdict);
    for (size_t i = 0; i < j->verdict.n; i++) {
        if (verdict_is_dead(&j->verdict, i, now_ms)) {
            workers[n++] = (int)strtol(j->verdict.suspects[i].id, NULL, 10);
        }
    }
    return n;
}

int64_t judge_next_ms(const struct judge *j, int64_t now_ms)
{
    return j->verdict.n > 0 ? now_ms + VERDICT_CHECK_MS : INT64_MAX;
}
