#include "cli/rabbitmqctl.h"

/* Who may configure, write and read what. A queue's depth is asked for with a passive declaration,
 * for which RabbitMQ 4.3 wants some right on the queue. */
static const struct {
    const char *who, *configure, *write, *read;
} permissions[] = {
    {"PRODUCER", "^$", "^tenon(\\.|$)", "^$"},
    {"WORKER", "^$", "^$", "^tenon\\."},
    {"CLEANER", "^tenon(\\.|$)", "^tenon(\\.|$)", "^tenon(\\.|$)"},
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

void rabbitmqctl_line(struct buf *b, size_t i, const char *vhost)
{
    if (i == 0) {
        /* drop-head, the default, would drop the oldest wake-ups; refused ones cost nothing */
        buf_put_text(b, "rabbitmqctl set_policy --vhost ");
        put_word(b, vhost);
        buf_printf(b,
                   " --apply-to queues tenon '^tenon\\.' "
                   "'{\"max-length\":%d,\"overflow\":\"reject-publish\"}'",
                   RABBITMQCTL_LENGTH_MAX);
        return;
    }
    buf_put_text(b, "rabbitmqctl set_permissions --vhost ");
    put_word(b, vhost);
    buf_printf(b, " %s '%s' '%s' '%s'", permissions[i - 1].who, permissions[i - 1].configure,
               permissions[i - 1].write, permissions[i - 1].read);
}
