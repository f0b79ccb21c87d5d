/* The model of RabbitMQ: a queue of ids for each of tenon's queues, and one channel for each
 * worker, with tags, a budget of unacked messages, and redelivery when the channel ends. */
#ifndef TENON_TESTS_SIM_BROKER_H
#define TENON_TESTS_SIM_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;

enum { MESSAGES_MAX = 4096, UNACKED_MAX = 1024, NODES_MAX = 3 };

struct message {
    int64_t id;
    uint64_t tag;
    int64_t at_us; /* when it reaches the worker, or did */
    int consumer;  /* which start of consuming it came to: budgets are a consumer's */
    int queue;
    bool arrived;
};

struct channel {
    int64_t id; /* 0 = closed */
    uint64_t last_tag;
    int consumer, budget, n_mine; /* budget 0: nobody consumes */
    int n_unacked;
    struct message unacked[UNACKED_MAX]; /* by tag */
};

struct broker {
    bool up, blocked;
    int64_t last_channel;
    int n;
    struct message ready[MESSAGES_MAX];
    struct channel channels[NODES_MAX];
};

void broker_start(struct sim *s);
void broker_publish(struct sim *s, int queue, int64_t id);
void broker_down(struct sim *s, int64_t down_us);
void broker_lose(struct sim *s);

/* What a worker's AMQP thread asks. */
int64_t channel_open(struct sim *s, int node);
void channel_close(struct sim *s, int node); /* what is unacked is ready again */
void channel_consume(struct sim *s, int node, int budget);
void channel_ack(struct sim *s, int node, int64_t channel, uint64_t tag);

#endif
