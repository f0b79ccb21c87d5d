/* A RabbitMQ cluster of three nodes of one test program's own, on 127.0.0.1. Names, ports, data and
 * Erlang's name service are private. The nodes are children of the program: they end when it does,
 * however that is, and fixture_teardown() ends them and removes their data. Nodes count from 0. */
#ifndef TENON_TESTS_SUPPORT_CLUSTER_H
#define TENON_TESTS_SUPPORT_CLUSTER_H

#include "tests/support/fixture.h"

enum { CLUSTER_NODES = 3 };

/* Start the nodes and wait until they are one cluster. fx->amqp_url is a URL of all of them. */
void cluster_open(struct fixture *fx);

/* The URL of one node alone. */
void cluster_url(int node, char *url, size_t size);

/* kill -9; start again and wait until it takes connections. */
void cluster_kill(int node);
void cluster_start(int node);

#endif
