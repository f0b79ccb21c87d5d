/* What a service manager such as systemd is told (Type=notify), as sd_notify(3) does, without its
 * library: datagrams to $NOTIFY_SOCKET. Without that variable nothing is sent. Main thread only. */
#ifndef TENON_CORE_SERVICE_H
#define TENON_CORE_SERVICE_H

#include <stdint.h>

/* Read what the manager says in the environment, and take it out, so that no handler has it. Call
 * it before there are other threads. */
void service_open(void);

/* It does its work; the first call counts. It has begun to end. */
void service_ready(void);
void service_stopping(void);

/* The main loop moves. Call it as often as you like: one in four of the manager's WATCHDOG_USEC is
 * sent. */
void service_alive(int64_t now_ms);

#endif
