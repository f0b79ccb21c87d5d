#include "cli/tasks/confirm.h"

#include <stdio.h>
#include <unistd.h>

bool confirm(const char *what, bool *ret, struct fault *f)
{
    char answer[8] = "";
    if (!isatty(STDIN_FILENO)) {
        return fault_set(f, FAULT_CONFIG, "%s: there is no terminal to ask on; pass --yes", what);
    }
    (void)fputs("continue? [y/N] ", stdout);
    (void)fflush(stdout);
    *ret = fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y');
    return true;
}
