/* Inside of `tenon outbox`: what cli/outbox/outbox.c calls. */
#ifndef TENON_CLI_OUTBOX_H
#define TENON_CLI_OUTBOX_H

#include "core/db/db.h"
#include "core/options/option.h"

/* The exchange that was given, NULL = none: RabbitMQ's default one, whose name is empty, is
 * "(default)" to people. */
const char *outbox_exchange(const struct options *o);

/* A page of messages, on stdout. */
MUST_CHECK bool outbox_list(struct db *db, const struct options *o, struct fault *f);

/* retry, delete, replay: after showing how many messages those are.
 *   false   CONFIG: neither messages nor an exchange are named, or nobody can be asked
 *           ABSENT: some of the messages that were named could not be retried or deleted */
MUST_CHECK bool outbox_act(struct db *db, const struct options *o, struct fault *f);

#endif
