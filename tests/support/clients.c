#include "tests/support/clients.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { ENVIRONMENT_MS = 200000 /* npm and pip, when they run for the first time */ };

void clients_environment(struct fixture *fx, const char *script, char *ret, size_t size)
{
    char command[400];
    (void)snprintf(command, sizeof command, "cd '%s' && exec %s", repository, script);
    struct process *p = process_spawn(fx, (const char *const[]){"sh", "-c", command, NULL}, NULL);
    int status = process_wait(p, ENVIRONMENT_MS);
    if (status != 0) {
        fail_msg("%s: exit code %d: %s", script, status, file_text(p->log));
    }
    char *text = file_text(p->out);
    (void)snprintf(ret, size, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
}

int clients_run(struct fixture *fx, int64_t limit_ms, char **ret_said, const char *fmt, ...)
{
    char script[1024], program[300];
    int n = snprintf(script, sizeof script, "cd '%s' && ", repository);
    va_list args;
    va_start(args, fmt);
    n += vsnprintf(script + n, sizeof script - (size_t)n, fmt, args);
    va_end(args);
    assert_in_range(n, 1, sizeof script - 1);
    (void)snprintf(program, sizeof program, "TENON=%s", tenon_program);
    struct process *p = process_spawn(fx, (const char *const[]){"sh", "-c", script, NULL},
                                      (const char *const[]){program, "LC_ALL=C.UTF-8", NULL});
    int status = process_wait(p, limit_ms);
    char *said = file_text(p->out);
    if (status != 0 && status != CLIENTS_MISSING) {
        fail_msg("exit code %d: %s%s", status, said, file_text(p->log));
    }
    if (ret_said) {
        *ret_said = said;
    } else {
        free(said);
    }
    return status;
}
