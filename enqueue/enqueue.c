#include "enqueue/enqueue.h"

#include "core/base/file.h"
#include "core/db/db.h"
#include "core/db/schema.h"
#include "include/tenon/tenon.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENQUEUE_PAYLOAD_BYTES_MAX =
        64 << 20, /* of stdin; the database's own limit is lower, 1 MB at first */
    ENQUEUE_PUBLISH_LIMIT_MS = 1000, /* how long to wait for RabbitMQ */
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
    return b->len > 0 || fault_set(f, FAULT_REFUSED,
                                   "the payload on stdin is empty; for an empty object write {}");
}

/* false: MEMORY */
static bool parents_of(const struct options *o, int64_t **ret, size_t *ret_n, struct fault *f)
{
    *ret_n = option_items(o, OPTION_DEPENDS_ON);
    *ret = calloc(*ret_n + 1, sizeof **ret);
    for (size_t i = 0; *ret && i < *ret_n; i++) {
        (*ret)[i] = strtoll(option_item(o, OPTION_DEPENDS_ON, i), NULL, 10);
    }
    return *ret || fault_memory(f);
}

static const char *on_parent_dead(const struct options *o)
{
    return option_is_typed(o, OPTION_ON_PARENT_DEAD) ? option_text(o, OPTION_ON_PARENT_DEAD) : NULL;
}

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
    task.on_conflict = option_text(o, OPTION_ON_CONFLICT);
    task.unique_for_ms = option_int(o, OPTION_UNIQUE_FOR);
    task.debounce_ms = option_int(o, OPTION_DEBOUNCE);
    task.debounce_max_ms = option_int(o, OPTION_DEBOUNCE_MAX);
    task.start_before = option_text(o, OPTION_START_BEFORE);
    task.retry = option_text(o, OPTION_RETRY);
    task.max_attempts = (int)option_int(o, OPTION_MAX_ATTEMPTS);
    task.timeout_ms = option_int(o, OPTION_TIMEOUT);
    task.trace = option_text(o, OPTION_TRACE);
    task.flow = option_int(o, OPTION_FLOW);
    task.on_parent_dead = on_parent_dead(o);
    return task;
}

enum { TEXTS_MAX = 11 /* more than are allowed, which the database says */ };

static size_t texts_of(const struct options *o, enum option_id id, const char *texts[TEXTS_MAX])
{
    size_t n = option_items(o, id);
    n = n < TEXTS_MAX ? n : TEXTS_MAX;
    for (size_t i = 0; i < n; i++) {
        texts[i] = option_item(o, id, i);
    }
    return n;
}

/* --- the command ------------------------------------------------------------------------------ */

/* What the library says, as a fault; its other codes are about transactions. */
static bool fault_of(int code, struct fault *f)
{
    static const enum fault_code codes[] = {
        [TENON_MISUSE] = FAULT_CONFIG,   [TENON_MEMORY] = FAULT_MEMORY,
        [TENON_REFUSED] = FAULT_REFUSED, [TENON_RETRY] = FAULT_RETRY,
        [TENON_SCHEMA] = FAULT_CONFIG,   [TENON_DENIED] = FAULT_CONFIG,
        [TENON_FAILED] = FAULT_BUG};
    return code == TENON_OK || fault_set(f, codes[code], "could not enqueue: %s", tenon_errmsg());
}

static bool insert(tenon *t, const struct options *o, const char *payload, int64_t *ret_id,
                   struct fault *f)
{
    struct db *db = NULL;
    const char *keys[TEXTS_MAX], *tags[TEXTS_MAX];
    tenon_task task = task_of(o, payload);
    task.limit_keys = keys;
    task.n_limit_keys = texts_of(o, OPTION_LIMIT_KEYS, keys);
    task.tags = tags;
    task.n_tags = texts_of(o, OPTION_TAGS, tags);
    int64_t *parents = NULL;
    bool ok = parents_of(o, &parents, &task.n_depends_on, f);
    task.depends_on = parents;
    ok = ok && db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN, "tenon enqueue", &db, f) &&
         schema_check(db, f) && fault_of(tenon_enqueue(t, db_conn(db), &task, ret_id), f);
    db_close(db);
    free(parents);
    return ok;
}

/* Once it is inserted the task is safe; whatever goes wrong then only costs a second. */
static bool enqueue(tenon *t, const struct options *o, struct buf *b, struct fault *f)
{
    const char *payload;
    int64_t id;
    if (!payload_of(options_args(o) > 1 ? options_arg(o, 1) : NULL, b, &payload, f) ||
        !insert(t, o, payload, &id, f)) {
        return false;
    }
    (void)printf("%" PRId64 "\n", id);
    (void)fflush(stdout);
    if (tenon_flush(t, ENQUEUE_PUBLISH_LIMIT_MS) != TENON_OK) {
        (void)fprintf(stderr,
                      "tenon enqueue: task %" PRId64 " is enqueued, but its wake-up did not reach "
                      "RabbitMQ (%s); it starts about a second later where a worker serves its "
                      "queue\n",
                      id, tenon_errmsg());
    }
    return true;
}

bool enqueue_run(const struct options *o, struct fault *f)
{
    struct buf b = {0};
    tenon *t = tenon_new(option_text(o, OPTION_AMQP_URL));
    bool ok = t ? enqueue(t, o, &b, f) : fault_set(f, FAULT_CONFIG, "%s", tenon_errmsg());
    tenon_free(t);
    buf_clear(&b);
    return ok;
}
