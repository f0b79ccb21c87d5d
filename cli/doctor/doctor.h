/* What the files of `tenon doctor` share: what was found so far. */
#ifndef TENON_CLI_DOCTOR_H
#define TENON_CLI_DOCTOR_H

#include "core/db/db.h"
#include "core/options/option.h"

#include <jansson.h>

struct doctor {
    const struct options *o;
    json_t *findings;
    bool partly; /* something is hidden from this role */
};

/* Say on stderr what this role cannot see, and who could: it is no finding. */
void doctor_cannot_see(struct doctor *d, const char *what, const char *advice);

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
