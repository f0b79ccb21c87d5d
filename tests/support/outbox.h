/* Messages of tenon.publish in tests: their queues, producers with order keys, and the verdict. */
#ifndef TENON_TESTS_SUPPORT_OUTBOX_H
#define TENON_TESTS_SUPPORT_OUTBOX_H

#include "tests/support/broker.h"
#include "tests/support/fixture.h"

enum { OUTBOX_KEYS = 20 };

#define OUTBOX_EMPTY "SELECT NOT EXISTS (SELECT FROM tenon.outbox)"

/* The queue "q", empty; and end, without the queues that tests make. */
struct broker *outbox_open(struct fixture *fx);
void outbox_close(struct broker *b);

void outbox_assert_text(amqp_bytes_t got, const char *want);

/* Make the table `counter`, with a row for each of OUTBOX_KEYS keys, and the procedure
 * produce(times): so many transactions, each with a message for "q" of a random key, whose body and
 * id are "k7:3" for the third one of its key. */
void outbox_counters(struct fixture *fx);

/* Empty the queue. The first occurrences of a key must be 1, 2, 3 ... up to the last that was
 * committed; ret: how many came again. */
int64_t outbox_assert_order(struct fixture *fx, struct broker *b);

#endif
