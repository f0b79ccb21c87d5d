/* The rabbitmqctl lines that an operator may run: what programs may do, and how long a queue may
 * grow. They are policies and permissions, so tenon never sets them itself. */
#ifndef TENON_CLI_RABBITMQCTL_H
#define TENON_CLI_RABBITMQCTL_H

#include "core/buf.h"

enum {
    RABBITMQCTL_LINES = 4,
    RABBITMQCTL_LENGTH_MAX = 200000, /* 20 windows; what is not published is found in the table */
};

/* Put one line, without its end, for a virtual host (its name may be anything). */
void rabbitmqctl_line(struct buf *b, size_t i, const char *vhost);

#endif
