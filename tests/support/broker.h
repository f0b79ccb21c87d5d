/* RabbitMQ as tests use it directly: look into queues, publish what no decent producer would. */
#ifndef TENON_TESTS_SUPPORT_BROKER_H
#define TENON_TESTS_SUPPORT_BROKER_H

#include "tests/support/test.h"

#include <amqp.h>

struct broker; /* a connection with one channel */

/* NULL when the virtual host does not exist; every other failure fails the test. */
struct broker *broker_open(const char *url);
void broker_close(struct broker *b);

/* A queue is named by its routing key: "default/a" is the queue tenon.default/a. */

/* Declare the exchange tenon, as `tenon setup` does. */
void broker_declare_exchange(struct broker *b);

/* Declare a queue and bind it, as a worker does. */
void broker_declare(struct broker *b, const char *key);

/* Declare the queue tenon.<name>, without a limit, which gets a copy of every wake-up of `key`. */
void broker_spy(struct broker *b, const char *name, const char *key);

/* Declare tenon.<key>, full with nothing in it: it refuses all that is published to it. */
void broker_refuse(struct broker *b, const char *key);

/* The same as broker_spy() of another exchange than tenon, which is there. */
void broker_spy_on(struct broker *b, const char *exchange, const char *name, const char *key);

/* Publish any body with this routing key, persistent, and return when the broker has it. */
void broker_publish(struct broker *b, const char *key, const void *body, size_t len);

/* Messages that are ready in tenon.<key>; -1 = there is no such queue. */
int64_t broker_depth(struct broker *b, const char *key);

/* Take the oldest message out of tenon.<key>; ret: the id in its body, -1 = it is empty. */
int64_t broker_take(struct broker *b, const char *key);

/* Consumers of tenon.<key>; -1 = there is no such queue. */
int64_t broker_consumers(struct broker *b, const char *key);

void broker_purge(struct broker *b, const char *key);
void broker_delete_queue(struct broker *b, const char *key);
void broker_delete_exchange(struct broker *b);

/* Declare a durable queue of exactly this name, reached through the default exchange. With
 * max_length > 0 it refuses what does not fit. */
void broker_make_queue(struct broker *b, const char *queue, int32_t max_length);

void broker_remove_queue(struct broker *b, const char *queue);

/* The same, of this type: "classic", "quorum" or "stream". What it rejects goes to the queue
 * `dead`, unless that is NULL. */
void broker_make_typed(struct broker *b, const char *queue, const char *type, const char *dead);

/* Send a message to exactly this queue; it is not waited for. */
void broker_send(struct broker *b, const char *queue, const void *body, size_t len,
                 const amqp_basic_properties_t *properties);

/* Wait until RabbitMQ has all that was sent. */
void broker_send_end(struct broker *b);

/* The messages that are ready in exactly this queue. */
int64_t broker_ready(struct broker *b, const char *queue);

/* Take the oldest message out of exactly this queue; amqp_destroy_message() it. false: empty. */
bool broker_get(struct broker *b, const char *queue, amqp_message_t *ret);

/* Run rabbitmqctl (TENON_RABBITMQCTL) with these arguments, a shell's words; it must succeed. */
void broker_ctl(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif
