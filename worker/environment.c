#include "worker/environment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_named(const char *variable, const char *name)
{
    size_t bytes = strlen(name);
    return strncmp(variable, name, bytes) == 0 && variable[bytes] == '=';
}

static bool begins(const char *variable, const char *with)
{
    return strncmp(variable, with, strlen(with)) == 0;
}

/* libpq reads those with PG itself, whatever the URL says. */
static bool is_withheld(const struct options *o, const char *variable)
{
    if (begins(variable, "PG")) {
        return true;
    }
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        char name[64];
        option_variable(row, name, sizeof name);
        if (row->secret && (is_named(variable, name) || (option_took_env(o, (enum option_id)id) &&
                                                         is_named(variable, row->env)))) {
            return true;
        }
    }
    return false;
}

static bool is_among(char *const *names, const char *variable)
{
    for (; names && *names; names++) {
        if (is_named(variable, *names)) {
            return true;
        }
    }
    return false;
}

static bool is_passed(const struct options *o, char *const *names, const char *variable)
{
    for (size_t i = 0; i < option_items(o, OPTION_PASS_ENV); i++) {
        if (is_named(variable, option_item(o, OPTION_PASS_ENV, i))) {
            return true;
        }
    }
    return is_among(names, variable);
}

static size_t count(char *const *variables)
{
    size_t n = 0;
    while (variables[n]) {
        n++;
    }
    return n;
}

/* `env` has room for one more. */
static size_t put_instead(char **env, size_t n, char *variable, bool is_wanted)
{
    size_t bytes = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(env[i], variable, bytes) == 0) {
            env[i] = variable;
            return n;
        }
    }
    env[n] = variable;
    return n + is_wanted;
}

char **environment_of(const struct options *o, char *const *names, char *const *only,
                      char *const *instead)
{
    size_t n = count(environ), kept = 0;
    bool all = !only || !*only;
    char **env = malloc((n + count(instead) + 1) * sizeof *env);
    for (size_t i = 0; env && i < n; i++) {
        env[kept] = environ[i];
        bool wanted = (all || is_among(only, environ[i])) && !is_withheld(o, environ[i]);
        kept += !begins(environ[i], "TENON_TASK_") && (wanted || is_passed(o, names, environ[i]));
    }
    for (; env && *instead; instead++) {
        kept = put_instead(env, kept, *instead, all || is_among(only, *instead));
    }
    if (env) {
        env[kept] = NULL;
    }
    return env;
}
