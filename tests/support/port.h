/* Ports of this machine. */
#ifndef TENON_TESTS_SUPPORT_PORT_H
#define TENON_TESTS_SUPPORT_PORT_H

#include <netinet/in.h>

struct sockaddr_in port_address(int port); /* on 127.0.0.1 */

/* One that nobody has, and that the system gives no client. *ret_fd: the socket that holds it until
 * it is closed */
int port_free(int *ret_fd);

#endif
