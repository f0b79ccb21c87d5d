#include "tests/support/clients.h"

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
