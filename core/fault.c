#include "core/fault.h"

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

const char *fault_word(enum fault_code code)
{
    switch (code) {
    case FAULT_NONE:
        return "none";
    case FAULT_RETRY:
        return "retry";
    case FAULT_AGAIN:
        return "again";
    case FAULT_ROW:
        return "row";
    case FAULT_REFUSED:
        return "refused";
    case FAULT_CONFIG:
        return "config";
    case FAULT_SCHEMA:
        return "schema";
    case FAULT_BUG:
        return "bug";
    case FAULT_MEMORY:
        return "memory";
    }
    return "unknown";
}

int fault_exit_code(const struct fault *f)
{
    switch (f->code) {
    case FAULT_NONE:
        return 0;
    case FAULT_CONFIG:
    case FAULT_REFUSED:
        return 2;
    case FAULT_SCHEMA:
        return 3;
    case FAULT_RETRY:
    case FAULT_AGAIN:
    case FAULT_ROW:
    case FAULT_BUG:
    case FAULT_MEMORY:
        return 1;
    }
    return 1;
}
