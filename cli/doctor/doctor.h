/* What the files of `tenon doctor` share: what was found so far. */
#ifndef TENON_CLI_DOCTOR_H
#define TENON_CLI_DOCTOR_H

#include "core/db/db.h"
#include "core/options/option.h"

#include <jansson.h>

struct doctor {
    const struct options *o;
    json_t *findings;
    json_t *unseen; /* what is hidden from this role */
};

/* Run every check of `tenon doctor`; the page calls it, too. *findings: objects with level,
 * subject, finding and advice, and with "about" if the subject has a name: {"what", "name"} of
 * something paused, or "queue", "kind" or "schedule". *unseen: objects with "what" and "advice",
 * for what this role may not see. It opens its own sessions. */
MUST_CHECK bool doctor_examine(const struct options *o, json_t **findings, json_t **unseen,
                               struct fault *f);

/* Add what this role cannot see, and how it could: it is not a finding. */
MUST_CHECK bool doctor_cannot_see(struct doctor *d, const char *what, const char *advice,
                                  struct fault *f);

/* Add a finding: "error" or "warning", what it is about, what is wrong, what to do. */
MUST_CHECK bool doctor_find(struct doctor *d, const char *level, const char *subject,
                            const char *finding, const char *advice, struct fault *f);

/* The plans of the claim and the poll, in a session like a worker's. A role that may not
 * claim cannot see them. */
MUST_CHECK bool doctor_plans(struct doctor *d, struct fault *f);

/* RabbitMQ at `url`: whether it answers, is new enough, and has what should be there. Makes
 * nothing. */
MUST_CHECK bool doctor_broker(struct doctor *d, struct db *db, const char *url, struct fault *f);

#endif
