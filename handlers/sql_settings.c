#include "handlers/sql_settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sql_settings_help(void)
{
    (void)printf(
        "usage: tenon-sql --function [KIND=]NAME... [--connections N] [--commit-size N]\n\n"
        "A pool handler: calls a PostgreSQL function with the payload of each task, in the\n"
        "transaction that finishes the task. Start it from a worker:\n"
        "  tenon worker --pass-env DATABASE_URL --handler 'KIND=pool:exec tenon-sql --function "
        "app.charge'\n"
        "  --function NAME       of one jsonb argument, with its schema; for all kinds, or\n"
        "  --function KIND=NAME  for this one; may be given %d times\n"
        "  --connections N       tasks at once, each on its own connection, 1 to %d (default "
        "%d)\n"
        "  --commit-size N       maximum tasks in one transaction, 1 to %d (default %d); fewer\n"
        "                        if they would take more than a few milliseconds\n"
        "The database is that of DATABASE_URL, or of libpq's variables PGHOST, PGDATABASE ...\n"
        "See also docs/handlers.md, section \"A SQL function\": what errors mean.\n",
        FUNCTIONS_MAX, CONNECTIONS_MAX, CONNECTIONS, BATCH_MAX, BATCH);
}

static bool add_function(struct sql_settings *s, const char *text, struct fault *f)
{
    struct sql_function *function = &s->functions[s->n_functions];
    const char *sign = strchr(text, '=');
    size_t bytes = sign ? (size_t)(sign - text) : 0;
    if (s->n_functions == FUNCTIONS_MAX) {
        return fault_set(f, FAULT_CONFIG, "--function is given more than %d times", FUNCTIONS_MAX);
    }
    if (bytes >= sizeof function->kind || (sign && bytes == 0) || !(sign ? sign[1] : *text)) {
        return fault_set(f, FAULT_CONFIG, "--function is not NAME or KIND=NAME: %.60s", text);
    }
    memcpy(function->kind, text, bytes);
    function->kind[bytes] = '\0';
    function->name = sign ? sign + 1 : text;
    s->n_functions++;
    return true;
}

static bool read_number(const char *option, const char *text, int max, int *ret, struct fault *f)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > max) {
        return fault_set(f, FAULT_CONFIG, "%s is not a number from 1 to %d: %.60s", option, max,
                         text);
    }
    *ret = (int)n;
    return true;
}

bool sql_settings_read(struct sql_settings *s, int argc, char **argv, struct fault *f)
{
    static const struct option flags[] = {
        {"function", required_argument, NULL, 'f'},
        {"connections", required_argument, NULL, 'c'},
        {"commit-size", required_argument, NULL, 'b'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int flag;
    bool ok = true;
    *s = (struct sql_settings){.connections = CONNECTIONS, .batch = BATCH};
    opterr = 0;
    while (ok && (flag = getopt_long(argc, argv, "h", flags, NULL)) != -1) {
        if (flag == 'f') {
            ok = add_function(s, optarg, f);
        } else if (flag == 'c') {
            ok = read_number("--connections", optarg, CONNECTIONS_MAX, &s->connections, f);
        } else if (flag == 'b') {
            ok = read_number("--commit-size", optarg, BATCH_MAX, &s->batch, f);
        } else if (flag == 'h') {
            return s->help = true;
        } else {
            ok = fault_set(f, FAULT_CONFIG,
                           "%.60s is not an option, or its value is missing; see --help",
                           argv[optind - 1]);
        }
    }
    if (ok && optind < argc) {
        ok = fault_set(f, FAULT_CONFIG, "%.60s is not an option; see --help", argv[optind]);
    }
    if (ok && s->n_functions == 0) {
        ok = fault_set(f, FAULT_CONFIG, "--function is missing; see --help");
    }
    return ok;
}

int sql_settings_function(const struct sql_settings *s, const char *kind)
{
    int found = -1;
    for (int i = 0; i < s->n_functions; i++) {
        if (strcmp(s->functions[i].kind, kind) == 0) {
            return i;
        }
        found = *s->functions[i].kind ? found : i;
    }
    return found;
}
