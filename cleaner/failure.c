#include "cleaner/failure.h"

#include "cleaner/statements.h"

#include <stdio.h>
#include <unistd.h>

enum { RENEW_MS = 10000, HOST_BYTES = 256, PID_BYTES = 12 };

static void name_self(char host[HOST_BYTES], char pid[PID_BYTES])
{
    host[0] = host[HOST_BYTES - 1] = '\0';
    (void)gethostname(host, HOST_BYTES - 1);
    (void)snprintf(pid, PID_BYTES, "%d", (int)getpid());
}

void failure_note(struct cleaner *c, struct failure *state, const char *chore, const char *error,
                  int64_t now_ms)
{
    char host[HOST_BYTES], pid[PID_BYTES];
    const char *const params[] = {chore, host, pid, error};
    struct fault ignored = {.code = FAULT_NONE};
    if (!c->hot || (state->is_told && now_ms - state->told_ms < RENEW_MS)) {
        return;
    }
    name_self(host, pid);
    if (db_exec(c->hot, &sql_chore_failed, params, 4, NULL, &ignored)) {
        *state = (struct failure){.is_told = true, .told_ms = now_ms};
    }
}

void failure_end(struct cleaner *c, struct failure *state, const char *chore)
{
    char host[HOST_BYTES], pid[PID_BYTES];
    const char *const params[] = {chore, host, pid};
    struct fault ignored = {.code = FAULT_NONE};
    if (!c->hot || !state->is_told) {
        return;
    }
    name_self(host, pid);
    state->is_told = !db_exec(c->hot, &sql_chore_recovered, params, 3, NULL, &ignored);
}
