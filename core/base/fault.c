#include "core/base/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* libpq's messages have several lines, and a user's value may hold anything; a fault has one line:
 * "x\n\ty\n" becomes "x; y". */
static void text_line(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' ')) {
        text[--len] = '\0';
    }
    for (char *c = text; *c; c++) {
        if (*c == '\n') {
            *c = c[1] == '\t' ? ';' : ' ';
            c[1] = c[1] == '\t' ? ' ' : c[1];
        } else if ((unsigned char)*c < ' ' || *c == 127) {
            *c = '?'; /* a terminal could take it for an order */
        }
    }
}

bool fault_set(struct fault *f, enum fault_code code, const char *fmt, ...)
{
    if (f->code != FAULT_NONE) {
        return false;
    }
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(f->text, sizeof f->text, fmt, args);
    va_end(args);
    text_line(f->text);
    f->code = code;
    f->sqlstate[0] = '\0';
    return false;
}

bool fault_add(struct fault *f, const char *fmt, ...)
{
    char context[FAULT_TEXT_BYTES_MAX];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(context, sizeof context, fmt, args);
    va_end(args);
    text_line(context);
    n = n < 0 || (size_t)n >= sizeof context ? n : (int)strlen(context);
    if (n < 0 || (size_t)n + 3 > sizeof context) {
        return false;
    }
    size_t head = (size_t)n + 2;
    size_t keep = strnlen(f->text, sizeof f->text - head - 1);
    memmove(f->text + head, f->text, keep);
    f->text[head + keep] = '\0';
    memcpy(f->text, context, (size_t)n);
    memcpy(f->text + n, ": ", 2);
    return false;
}

bool fault_memory(struct fault *f)
{
    return fault_set(f, FAULT_MEMORY, "out of memory");
}

void fault_clear(struct fault *f)
{
    f->code = FAULT_NONE;
    f->sqlstate[0] = '\0';
    f->text[0] = '\0';
}

static const struct {
    const char *word;
    int exit_code;
} codes[] = {
    [FAULT_NONE] = {"none", 0},       [FAULT_RETRY] = {"retry", 1},
    [FAULT_AGAIN] = {"again", 1},     [FAULT_ROW] = {"row", 1},
    [FAULT_REFUSED] = {"refused", 2}, [FAULT_CONFIG] = {"config", 2},
    [FAULT_ABSENT] = {"absent", 1},   [FAULT_SCHEMA] = {"schema", 3},
    [FAULT_BUG] = {"bug", 1},         [FAULT_MEMORY] = {"memory", 1},
};

bool fault_passes(const struct fault *f)
{
    return f->code == FAULT_RETRY || f->code == FAULT_AGAIN;
}

const char *fault_word(enum fault_code code)
{
    return codes[code].word;
}

int fault_exit_code(const struct fault *f)
{
    return codes[f->code].exit_code;
}
