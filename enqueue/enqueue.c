#include "enqueue/enqueue.h"

#include "core/amqp_publisher.h"
#include "core/db.h"
#include "core/file.h"
#include "core/schema.h"
#include "enqueue/params.h"
#include "enqueue/statements.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    ENQUEUE_PAYLOAD_BYTES_MAX =
        64 << 20, /* of stdin; the database's own limit is lower, 1 MB at first */
    ENQUEUE_PUBLISH_LIMIT_MS = 2000, /* how long to wait for RabbitMQ */
};

static bool payload_of(const char *arg, struct buf *b, const char **ret, struct fault *f)
{
    *ret = arg ? arg : "{}";
    if (!arg || strcmp(arg, "-") != 0) {
        return true;
    }
    if (!file_read(arg, "payload", ENQUEUE_PAYLOAD_BYTES_MAX, b, f)) {
        return false;
    }
    *ret = buf_text(b);
    return b->len > 0 ||
           fault_set(f, FAULT_REFUSED, "the payload on stdin is empty; {} is an empty one");
}

/* --- the task --------------------------------------------------------------------------------- */

static tenon_task task_of(const struct options *o, const char *payload)
{
    tenon_task task = TENON_TASK_INIT;
    task.kind = options_arg(o, 0);
    task.payload = payload;
    task.queue = option_text(o, OPTION_QUEUE);
    task.priority = option_is_given(o, OPTION_PRIORITY) ? (int)option_int(o, OPTION_PRIORITY) : -1;
    task.run_at = option_text(o, OPTION_RUN_AT);
    task.delay_ms = option_int(o, OPTION_DELAY);
    task.unique_key = option_text(o, OPTION_UNIQUE_KEY);
    task.max_attempts = (int)option_int(o, OPTION_MAX_ATTEMPTS);
    task.timeout_ms = option_int(o, OPTION_TIMEOUT);
    task.trace = option_text(o, OPTION_TRACE);
    return task;
}

static bool insert(const char *url, const struct params *p, struct rows **ret, struct fault *f)
{
    struct db *db = NULL;
    bool ok = db_open(url, DB_PLAIN, "tenon enqueue", &db, f) && schema_check(db, f) &&
              (db_exec(db, &sql_enqueue_one, p->values, PARAMS_N, ret, f) ||
               fault_add(f, "could not enqueue"));
    db_close(db);
    f->code = f->code == FAULT_ROW ? FAULT_REFUSED : f->code; /* the only row is the caller's */
    return ok;
}

/* --- the wake-up ------------------------------------------------------------------------------ */

static void warn_unpublished(int64_t id, const char *why)
{
    (void)fprintf(stderr,
                  "tenon enqueue: task %" PRId64 " is enqueued, but its wake-up did not reach "
                  "RabbitMQ (%s); it starts about a second later where a worker serves its queue\n",
                  id, why);
}

/* The task is safe already; whatever goes wrong here only costs a second. */
static void publish(const char *url, const struct routed *routed)
{
    struct publisher_settings settings = {.url = url, .name = "tenon enqueue"};
    struct publisher_stats stats;
    struct publisher *p = NULL;
    struct fault f = {0};
    if (!publisher_open(&settings, &p, &f)) {
        warn_unpublished(routed->id, f.text);
        return;
    }
    (void)publisher_offer(p, wakeup_new(routed->exchange, routed->key, routed->id));
    bool settled = publisher_flush(p, ENQUEUE_PUBLISH_LIMIT_MS);
    publisher_stats(p, &stats);
    if (!settled || stats.dropped > 0) {
        warn_unpublished(routed->id, stats.last_error[0] ? stats.last_error
                                     : settled           ? "RabbitMQ refused it"
                                                         : "RabbitMQ did not answer in time");
    }
    publisher_close(p, 0);
}

/* --- the command ------------------------------------------------------------------------------ */

static bool enqueue(const struct options *o, struct buf *b, struct fault *f)
{
    const char *payload;
    const char *amqp_url = option_text(o, OPTION_AMQP_URL);
    bool broker = amqp_url && strcmp(amqp_url, "none") != 0;
    struct params p;
    struct rows *rows = NULL;
    if (!payload_of(options_args(o) > 1 ? options_arg(o, 1) : NULL, b, &payload, f)) {
        return false;
    }
    tenon_task task = task_of(o, payload);
    bool announced = params_fill(&p, &task, broker);
    if (!insert(option_text(o, OPTION_DATABASE_URL), &p, &rows, f)) {
        return false;
    }
    struct routed routed = {0};
    bool known = routed_read(rows_text(rows, 0, 0), &routed);
    rows_free(rows);
    if (!known) {
        return fault_set(f, FAULT_CONFIG, "tenon.enqueue_routed gave no id: run tenon setup");
    }
    (void)printf("%" PRId64 "\n", routed.id);
    (void)fflush(stdout);
    if (announced) {
        publish(amqp_url, &routed);
    }
    return true;
}

bool enqueue_run(const struct options *o, struct fault *f)
{
    struct buf b = {0};
    bool ok = enqueue(o, &b, f);
    buf_clear(&b);
    return ok;
}
