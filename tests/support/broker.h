/* RabbitMQ as tests use it directly: look into queues, publish what no decent producer would. */
#ifndef TENON_TESTS_SUPPORT_BROKER_H
#define TENON_TESTS_SUPPORT_BROKER_H

#include "tests/support/test.h"

struct broker; /* a connection with one channel */

/* NULL when the virtual host does not exist; every other failure fails the test. */
struct broker *broker_open(const char *url);
void broker_close(struct broker *b);

/* Declare exchange tenon, queue tenon.<queue> and their binding, as `tenon setup` does. */
void broker_declare(struct broker *b, const char *queue);

/* The same with x-single-active-consumer: only one consumer at a time is given anything. */
void broker_declare_single(struct broker *b, const char *queue);

/* Consume from the queue, take one message, and never ack it. Then only close `b`. */
void broker_hold(struct broker *b, const char *queue);

/* Declare the queue tenon.<name>, durable, which gets a copy of every wake-up of `queue`. */
void broker_spy(struct broker *b, const char *name, const char *queue);

/* Publish any body with this routing key, persistent, and return when the broker has it. */
void broker_publish(struct broker *b, const char *queue, const void *body, size_t len);

/* Messages that are ready in tenon.<queue>; -1 = there is no such queue. */
int64_t broker_depth(struct broker *b, const char *queue);

/* Take the oldest message out of tenon.<queue>; ret: the id in its body, -1 = it is empty. */
int64_t broker_take(struct broker *b, const char *queue);

/* Consumers of tenon.<queue>; -1 = there is no such queue. */
int64_t broker_consumers(struct broker *b, const char *queue);

void broker_purge(struct broker *b, const char *queue);
void broker_delete_queue(struct broker *b, const char *queue);
void broker_delete_exchange(struct broker *b);

/* Run rabbitmqctl (TENON_RABBITMQCTL) with these arguments, a shell's words; it must succeed. */
void broker_ctl(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif
