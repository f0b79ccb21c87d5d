/* SIGTERM and SIGINT ask a program to end: its main loop sees it, and an alarm ends what hangs (a
 * connect, a statement), with exit code 0. One for each process; main thread only. */
#ifndef TENON_CORE_STOP_H
#define TENON_CORE_STOP_H

#include "core/base/fault.h"

/* Begin to listen for the signals. From the first to the end it takes at most `limit_s`. */
bool stop_open(int limit_s, struct fault *f);

bool stop_wanted(void);

/* A wakefd that is readable from the first signal on, if nobody clears it. */
int stop_fd(void);

#endif
