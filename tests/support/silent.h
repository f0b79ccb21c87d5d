/* A server that takes connections, or not even that, and never says a word. */
#ifndef TENON_TESTS_SUPPORT_SILENT_H
#define TENON_TESTS_SUPPORT_SILENT_H

#include "tests/support/test.h"

struct silent {
    int fd, waiting;
    char url[100]; /* amqp://127.0.0.1:port/ */
};

/* `takes`: the kernel takes connections; else they hang while they are being made. */
void silent_open(struct silent *s, bool takes);
void silent_close(struct silent *s);

#endif
