#include "cli/setup/rabbitmqctl.h"

#include <string.h>

/* Who may configure, write and read what; %s is the exchange. A worker declares its queues and
 * binds them, for which it writes to the queue and reads from the exchange. */
static const struct {
    const char *who, *configure, *write, *read;
} permissions[] = {
    {"PRODUCER", "^$", "^%s$", "^$"},
    {"WORKER", "^%s\\.", "^%s\\.", "^%s(\\.|$)"},
    {"CLEANER", "^%s$", "^%s$", "^$"},
};

/* A word for a shell. */
static void put_word(struct buf *b, const char *text)
{
    buf_put_char(b, '\'');
    for (; *text; text++) {
        if (*text == '\'') {
            buf_put_text(b, "'\\''");
        } else {
            buf_put_char(b, *text);
        }
    }
    buf_put_char(b, '\'');
}

static void put_pattern(struct buf *b, const char *pattern, const char *exchange)
{
    const char *at = strstr(pattern, "%s");
    if (at) {
        buf_printf(b, " '%.*s%s%s'", (int)(at - pattern), pattern, exchange, at + 2);
    } else {
        buf_printf(b, " '%s'", pattern);
    }
}

void rabbitmqctl_line(struct buf *b, size_t i, const char *vhost, const char *exchange)
{
    buf_put_text(b, "rabbitmqctl set_permissions --vhost ");
    put_word(b, vhost);
    buf_printf(b, " %s", permissions[i].who);
    put_pattern(b, permissions[i].configure, exchange);
    put_pattern(b, permissions[i].write, exchange);
    put_pattern(b, permissions[i].read, exchange);
}
