/* Private servers of one test program, which may stop and kill them without disturbing the
 * tests that run beside it. They are gone when the program is, however that ends. */
#ifndef TENON_TESTS_SUPPORT_SERVERS_H
#define TENON_TESTS_SUPPORT_SERVERS_H

#include "tests/support/fixture.h"

#include <sys/types.h>

enum { SERVERS_MAX = 2 };

/* All that follows is about this one of the program's servers; 0 at the start. */
void server_use(int n);

/* Start a server of our own, "postgres" or "rabbitmq". From now on DATABASE_URL and the directory
 * of the data, or AMQP_URL, TENON_SERVICES and TENON_RABBITMQCTL, are its. */
void server_open(const char *service);

/* script/services VERB for it: start, stop, restart, kill. */
void server_do(const char *verb);

/* The process of a private PostgreSQL that all its others hang on. */
pid_t server_postmaster(void);

/* Send it a signal (0 = none) and wait until it is gone. */
void server_signal(pid_t pid, int signal);

/* Does it take connections? */
bool server_listens(void);

/* Waits until it takes none; false: it still does. Threads of a killed process may end late. */
bool server_falls_silent(void);

/* How many lines of its log contain `text`. */
size_t server_log_lines(const char *text);

void server_close(void); /* all of them */

/* A virtual host of the shared RabbitMQ with a name of its own, for a fixture whose database is on
 * a private PostgreSQL: the locks on the usual ones are in the shared one. */
void server_vhost(struct fixture *fx, const char *name);

/* The fixture's connections again, after the server was away. */
void server_reconnect(struct fixture *fx);

/* PostgreSQL crashes, and recovers; likewise. */
void server_crash(struct fixture *fx);

/* As fixture_setup(), with a private PostgreSQL and that virtual host; and its end. */
int server_fixture_setup(void **state, const char *vhost);
int server_fixture_teardown(void **state);

#endif
