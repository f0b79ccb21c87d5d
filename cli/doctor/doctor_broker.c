#include "cli/doctor/doctor.h"

#include "cli/statements.h"
#include "core/amqp/amqp_inspect.h"

#include <stdio.h>

#define KEYS_MAX "100" /* whose queues are looked for */
enum { KEYS = 100, VERSION_OLDEST = 310 /* 3.10 */, TEXT_BYTES = 512 };

/* "3.10.8" is 310, and 0 what is no version. */
static int version_of(const char *text)
{
    int major = 0, minor = 0;
    return sscanf(text, "%d.%d", &major, &minor) == 2 ? major * 100 + minor : 0;
}

static bool tell_version(struct doctor *d, const char *version, struct fault *f)
{
    char text[TEXT_BYTES];
    (void)snprintf(text, sizeof text, "RabbitMQ %s is older than 3.10, the oldest that is tested",
                   version);
    return version_of(version) == 0 || version_of(version) >= VERSION_OLDEST ||
           doctor_find(d, "warning", "versions", text, "upgrade it", f);
}

static bool tell_missing(struct doctor *d, const struct amqp_state *seen, struct fault *f)
{
    char text[TEXT_BYTES];
    if (!seen->missing[0]) {
        return true;
    }
    (void)snprintf(text, sizeof text, "%s is missing in RabbitMQ: wake-ups are lost",
                   seen->missing);
    return doctor_find(d, "error", "topology", text,
                       seen->exchange ? "run tenon setup, or restart a cleaner: both declare the "
                                        "exchange"
                                      : "its workers declare it when they connect: check their "
                                        "--amqp-url and log, or restart them",
                       f);
}

static bool tell(struct doctor *d, bool answered, const struct amqp_state *seen,
                 const struct fault *why, struct fault *f)
{
    return answered ? tell_version(d, seen->version, f) && tell_missing(d, seen, f)
                    : doctor_find(d, "error", "rabbitmq", why->text,
                                  "start it, or mend URL and permissions (tenon setup prints "
                                  "them); until then tasks start later, and none is lost",
                                  f);
}

bool doctor_broker(struct doctor *d, struct db *db, const char *url, struct fault *f)
{
    static const char *const most[] = {KEYS_MAX};
    const char *keys[KEYS];
    struct rows *exchange = NULL, *rows = NULL;
    struct amqp_state seen = {0};
    struct fault why = {0};
    bool ok = db_exec(db, &sql_setup_exchange, NULL, 0, &exchange, f) &&
              db_exec(db, &sql_doctor_keys, most, 1, &rows, f);
    size_t n = 0;
    for (; ok && n < rows_count(rows) && n < KEYS; n++) {
        keys[n] = rows_text(rows, n, 0);
    }
    if (ok) {
        bool answered = amqp_inspect(url, rows_text(exchange, 0, 0), keys, n, &seen, &why);
        ok = tell(d, answered, &seen, &why, f);
    }
    rows_free(rows);
    rows_free(exchange);
    return ok;
}
