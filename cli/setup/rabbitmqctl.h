/* The rabbitmqctl lines that an operator may run: what programs may do. The operator decides about
 * permissions, so tenon never sets them itself. */
#ifndef TENON_CLI_RABBITMQCTL_H
#define TENON_CLI_RABBITMQCTL_H

#include "core/base/buf.h"

enum { RABBITMQCTL_LINES = 3 };

/* Put one line, without its end, for a virtual host (its name may be anything). */
void rabbitmqctl_line(struct buf *b, size_t i, const char *vhost, const char *exchange);

#endif
