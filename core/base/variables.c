#include "core/base/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256 };

/* At "${". */
static bool is_set(const char *path, int line, const char *at, struct fault *f)
{
    char name[NAME_BYTES];
    size_t bytes = strcspn(at + 2, "}");
    (void)snprintf(name, sizeof name, "%.*s", (int)(bytes < NAME_BYTES ? bytes : NAME_BYTES - 1),
                   at + 2);
    return at[2 + bytes] != '}' || strstr(name, ":-") || getenv(name) ||
           fault_set(f, FAULT_CONFIG,
                     "%s:%d: the variable %s is not set; to give a default, write ${%s:-value}",
                     path, line, name, name);
}

/* The end of a comment that begins here; NULL: none does. */
static const char *comment_end(const char *at)
{
    if (strncmp(at, "/*", 2) == 0) {
        const char *end = strstr(at + 2, "*/");
        return end ? end + 2 : at + strlen(at);
    }
    return *at == '#' || strncmp(at, "//", 2) == 0 ? at + strcspn(at, "\n") : NULL;
}

bool variables_are_set(const char *path, const char *text, struct fault *f)
{
    int line = 1;
    char quote = '\0';
    for (const char *at = text; *at; at++) {
        const char *end = quote ? NULL : comment_end(at);
        for (; end && at < end - 1; at++) {
            line += *at == '\n';
        }
        if (*at == '\\' && at[1]) {
            at++;
        } else if (*at == '"' || *at == '\'') {
            quote = !quote ? *at : quote == *at ? '\0' : quote;
        } else if (*at == '$' && at[1] == '{' && quote != '\'' && !is_set(path, line, at, f)) {
            return false;
        }
        line += *at == '\n';
    }
    return true;
}
