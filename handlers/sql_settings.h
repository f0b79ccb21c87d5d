/* The command line of tenon-sql. */
#ifndef TENON_HANDLERS_SQL_SETTINGS_H
#define TENON_HANDLERS_SQL_SETTINGS_H

#include "core/base/fault.h"

enum {
    FUNCTIONS_MAX = 100,
    CONNECTIONS = 4,
    CONNECTIONS_MAX = 64,
    FUNCTION_KIND_BYTES = 128,
    BATCH = 128,
    BATCH_MAX = 256
};

struct sql_function {
    char kind[FUNCTION_KIND_BYTES]; /* "" = all that have no function of their own */
    const char *name;
};

struct sql_settings {
    struct sql_function functions[FUNCTIONS_MAX];
    int n_functions, connections;
    int batch; /* the maximum tasks that commit together */
    bool help;
};

/*   false   CONFIG: an unknown option, a value that is not allowed, no function */
MUST_CHECK bool sql_settings_read(struct sql_settings *s, int argc, char **argv, struct fault *f);
void sql_settings_help(void);

/* Which function a kind's tasks call; -1 = none. */
int sql_settings_function(const struct sql_settings *s, const char *kind);

#endif
