/* `tenon outbox retry`, `delete` and `replay`. */
#include "cli/outbox/outbox.h"

#include "cli/print.h"
#include "cli/statements.h"
#include "cli/tasks/confirm.h"
#include "cli/tasks/filter.h"
#include "core/base/array.h"

#include <string.h>

/* The columns of outbox_preview.sql. */
enum { N, ID, STATE };

enum { ACT, IDS, EXCHANGE, SINCE, UNTIL, PARAMS };
enum { REPLAY_MAX = 100000 }; /* of tenon.replay_messages */

struct acting {
    const char *params[PARAMS]; /* of outbox_preview.sql and outbox_act.sql */
    struct buf ids;
    const char *done; /* "retried" */
    int64_t matched, changed;
};

static bool is_replay(const struct acting *a)
{
    return strcmp(a->params[ACT], "replay") == 0;
}

static const char *message_or_messages(int64_t n)
{
    return n == 1 ? "message" : "messages";
}

/* --- what is asked for ---------------------------------------------------------------------- */

static bool ids_read(struct acting *a, const struct options *o, struct fault *f)
{
    buf_init(&a->ids, FILTER_BYTES_MAX);
    array_begin(&a->ids);
    for (size_t i = 1; i < options_args(o); i++) {
        if (!id_check(options_arg(o, i), f)) {
            return false;
        }
        array_put_text(&a->ids, options_arg(o, i));
    }
    a->params[IDS] = array_end(&a->ids);
    return a->params[IDS] || fault_memory(f);
}

static bool what_check(const struct acting *a, const struct options *o, struct fault *f)
{
    bool ids = options_args(o) > 1, exchange = a->params[EXCHANGE];
    if (is_replay(a)) {
        return a->params[SINCE] ||
               fault_set(f, FAULT_CONFIG,
                         "--since is missing: messages that were sent at that time or later are "
                         "published again");
    }
    if (ids == exchange) {
        return fault_set(f, FAULT_CONFIG,
                         "name the messages by their numbers, or give --exchange for all that were "
                         "refused of it; tenon outbox list --state refused shows them");
    }
    return true;
}

static bool acting_read(struct acting *a, const struct options *o, struct fault *f)
{
    const char *act = options_arg(o, 0);
    *a = (struct acting){.done = strcmp(act, "retry") == 0    ? "retried"
                                 : strcmp(act, "delete") == 0 ? "deleted"
                                                              : "published again"};
    a->params[ACT] = act;
    a->params[EXCHANGE] = outbox_exchange(o);
    a->params[SINCE] = option_text(o, OPTION_SINCE);
    a->params[UNTIL] = option_text(o, OPTION_UNTIL);
    bool ok = ids_read(a, o, f) && what_check(a, o, f);
    if (options_args(o) < 2) {
        a->params[IDS] = NULL;
    }
    return ok;
}

/* --- the preview ---------------------------------------------------------------------------- */

/* Of the messages that were named, those that the act does not change. */
static size_t tell_unfit(const struct rows *r)
{
    size_t n = 0;
    for (; n < rows_count(r) && !rows_is_null(r, n, ID); n++) {
        const char *state = rows_text(r, n, STATE);
        if (state) {
            (void)fprintf(stderr, "message %s is %s, not refused\n", rows_text(r, n, ID), state);
        } else {
            (void)fprintf(stderr,
                          "there is no message %s in the outbox; one that RabbitMQ has confirmed "
                          "leaves it\n",
                          rows_text(r, n, ID));
        }
    }
    return n;
}

static bool preview(struct acting *a, struct db *db, size_t *unfit, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_outbox_preview, a->params, PARAMS, &rows, f)) {
        return fault_add(f, "could not find the messages");
    }
    a->matched = rows_int(rows, 0, N);
    *unfit = tell_unfit(rows);
    rows_free(rows);
    return true;
}

/* Messages that are named by number need no confirmation. */
static bool is_confirmed(const struct acting *a, const struct options *o, bool *ret,
                         struct fault *f)
{
    char what[80];
    *ret = true;
    if (option_flag(o, OPTION_YES) || a->params[IDS] || a->matched == 0) {
        return true;
    }
    (void)snprintf(what, sizeof what, "%lld %s would be %s", (long long)a->matched,
                   message_or_messages(a->matched), a->done);
    if (!option_flag(o, OPTION_JSON)) {
        (void)puts(what);
    }
    return confirm(what, ret, f);
}

/* --- the end -------------------------------------------------------------------------------- */

static void print_end(const struct acting *a, bool dry_run, bool json)
{
    if (json) {
        (void)printf("{\"act\": \"%s\", \"dry_run\": %s, \"matched\": %lld, \"changed\": %lld}\n",
                     a->params[ACT], dry_run ? "true" : "false", (long long)a->matched,
                     (long long)a->changed);
    } else if (dry_run) {
        (void)printf("%lld %s would be %s\n", (long long)a->matched,
                     message_or_messages(a->matched), a->done);
    } else {
        (void)printf("%lld %s %s\n", (long long)a->changed, message_or_messages(a->changed),
                     a->done);
    }
    if (is_replay(a) && a->matched >= REPLAY_MAX && !json) {
        (void)printf("(these are the oldest %d; there may be more: give a later --since)\n",
                     REPLAY_MAX);
    }
}

static bool run(struct acting *a, struct db *db, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_outbox_act, a->params, PARAMS, &rows, f)) {
        return fault_add(f, "no message was %s", a->done);
    }
    a->changed = rows_int(rows, 0, 0);
    rows_free(rows);
    return true;
}

static bool act_on(struct acting *a, struct db *db, const struct options *o, struct fault *f)
{
    size_t unfit = 0;
    bool dry_run = option_flag(o, OPTION_DRY_RUN), go = true;
    if (!preview(a, db, &unfit, f) || (!dry_run && !is_confirmed(a, o, &go, f))) {
        return false;
    }
    if (!go) {
        return true;
    }
    if (!dry_run && a->matched > 0 && !run(a, db, f)) {
        return false;
    }
    print_end(a, dry_run, option_flag(o, OPTION_JSON));
    return unfit == 0 || fault_set(f, FAULT_ABSENT, "%zu of %zu messages could not be %s", unfit,
                                   options_args(o) - 1, a->done);
}

bool outbox_act(struct db *db, const struct options *o, struct fault *f)
{
    struct acting a;
    bool ok = acting_read(&a, o, f) && act_on(&a, db, o, f);
    buf_clear(&a.ids);
    return ok;
}
