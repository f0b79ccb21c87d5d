/* The model of a worker's AMQP thread (core/amqp/amqp_consumer.c): it reconnects, counts epochs,
 * and does what the main loop asked for last. */
#ifndef TENON_TESTS_SIM_CONSUMER_H
#define TENON_TESTS_SIM_CONSUMER_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct node;

struct consumer {
    int64_t channel; /* 0 = no link */
    int64_t epoch;
    int prefetch;
    bool planned;
    int64_t hung_until_us;
    int pause_ms;
    int order_prefetch; /* the words left */
    int64_t order_epoch;
    uint64_t order_tag;
    uint64_t acked_tag, taken_tag; /* taken: told to the loop */
};

void consumer_start(struct sim *s, struct node *n);
void consumer_stop(struct sim *s, struct node *n);
void consumer_lost(struct sim *s, struct node *n);   /* its link broke */
void consumer_closed(struct sim *s, struct node *n); /* the server closed its channel */
void consumer_order(struct sim *s, struct node *n);  /* there is something to do */
void consumer_arrival(struct sim *s, int node, int64_t channel);

#endif
