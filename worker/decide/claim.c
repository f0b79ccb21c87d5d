#include "worker/decide/claim.h"

#include <stdlib.h>
#include <string.h>

static const char *copy_text(char **at, const char *text, size_t bytes)
{
    char *copy = *at;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    *at += bytes + 1;
    return copy;
}

struct claim *claim_new(int64_t id, const char *queue, const char *kind, const char *trace,
                        const char *payload, size_t payload_bytes)
{
    size_t queue_bytes = strlen(queue), kind_bytes = strlen(kind);
    size_t trace_bytes = trace ? strlen(trace) : 0;
    struct claim *c = malloc(sizeof *c + queue_bytes + kind_bytes + trace_bytes + payload_bytes +
                             4);
    if (!c) {
        return NULL;
    }
    *c = (struct claim){.id = id, .handler = -1, .slot = -1, .delay_ms = -1, .ran_ms = -1};
    char *at = (char *)(c + 1);
    c->queue = copy_text(&at, queue, queue_bytes);
    c->kind = copy_text(&at, kind, kind_bytes);
    c->trace = trace ? copy_text(&at, trace, trace_bytes) : NULL;
    c->payload = copy_text(&at, payload ? payload : "", payload_bytes);
    c->payload_bytes = payload_bytes;
    return c;
}

void claim_free(struct claim *c)
{
    if (c) {
        free(c->reply);
        free(c->error);
        free(c->signal);
        free(c->progress);
        free(c->steps);
        free(c);
    }
}

const char *claim_reason(enum claim_outcome outcome)
{
    static const char *const reasons[] = {
        [OUTCOME_FAILED] = "failed",           [OUTCOME_TIMED_OUT] = "timed_out",
        [OUTCOME_SNOOZE] = "snooze",           [OUTCOME_DEAD] = "dead",
        [OUTCOME_WAIT_SIGNAL] = "wait_signal", [OUTCOME_RELEASED] = "released",
        [OUTCOME_CRASHED] = "crashed"};
    return reasons[outcome];
}
