/* `tenon schedule`: tasks that are enqueued again and again. */
#include "cli/schedules/schedule.h"

#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/db/schema.h"

#include <inttypes.h>
#include <string.h>

/* An option as a parameter: NULL where it was not given. */
static const char *given(const struct options *o, enum option_id id)
{
    return option_is_given(o, id) ? option_text(o, id) : NULL;
}

/* A time as a parameter, in milliseconds. */
static const char *given_ms(const struct options *o, enum option_id id, char text[24])
{
    (void)snprintf(text, 24, "%" PRId64, option_int(o, id));
    return option_is_given(o, id) ? text : NULL;
}

static void print_set(const struct options *o, const struct rows *rows)
{
    if (option_flag(o, OPTION_JSON)) {
        (void)puts(rows_text(rows, 0, 1));
    } else {
        (void)printf("%s ticks next at %s\n", options_arg(o, 1), rows_text(rows, 0, 0));
    }
}

/* A mistyped kind would show when nobody takes the first task. */
static bool warn_of_unknown(struct db *db, const char *kind, const char *schedule, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_schedule_known, &kind, 1, &rows, f)) {
        return fault_add(f, "could not look for workers");
    }
    if (!rows_bool(rows, 0, 0)) {
        (void)fprintf(
            stderr,
            "tenon schedule: no worker has had a handler for the kind %s yet; if the name is "
            "wrong: tenon schedule remove %s\n",
            kind, schedule);
    }
    rows_free(rows);
    return true;
}

static bool schedule_add(struct db *db, const struct options *o, struct fault *f)
{
    char every[24], timeout[24];
    struct rows *rows = NULL;
    const char *payload = option_text(o, OPTION_PAYLOAD);
    const char *const params[] = {options_arg(o, 1),
                                  option_text(o, OPTION_CRON),
                                  given_ms(o, OPTION_EVERY, every),
                                  option_text(o, OPTION_KIND),
                                  payload ? payload : "{}",
                                  option_text(o, OPTION_ZONE),
                                  option_text(o, OPTION_CATCH_UP),
                                  option_text(o, OPTION_OVERLAP),
                                  option_text(o, OPTION_QUEUE),
                                  given(o, OPTION_PRIORITY),
                                  given(o, OPTION_MAX_ATTEMPTS),
                                  given_ms(o, OPTION_TIMEOUT, timeout)};
    if (!params[3]) {
        return fault_set(f, FAULT_CONFIG,
                         "--kind is missing: it is the kind of the schedule's tasks");
    }
    if (!db_exec(db, &sql_schedule_set, params, sizeof params / sizeof *params, &rows, f)) {
        return fault_add(f, "could not set the schedule %s", params[0]);
    }
    print_set(o, rows);
    rows_free(rows);
    return warn_of_unknown(db, params[3], params[0], f);
}

/* remove, pause, resume, run-now */
static bool schedule_act(struct db *db, const struct options *o, struct fault *f)
{
    const char *const params[] = {options_arg(o, 0), options_arg(o, 1), option_text(o, OPTION_WHY)};
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_schedule_act, params, 3, &rows, f)) {
        return fault_add(f, "could not %s the schedule %.100s", params[0], params[1]);
    }
    return print_act(rows, option_flag(o, OPTION_JSON)) ||
           fault_set(f, FAULT_ABSENT, "there is no schedule %.100s; tenon schedule list shows all",
                     params[1]);
}

enum args { NONE, NAME, MAYBE_NAME, FILE_NAME };

static const struct action {
    const char *word;
    enum args args;
    bool (*run)(struct db *db, const struct options *o, struct fault *f);
} actions[] = {
    {"add", NAME, schedule_add},        {"list", NONE, schedule_list},
    {"show", NAME, schedule_show},      {"next", MAYBE_NAME, schedule_next},
    {"pause", NAME, schedule_act},      {"resume", NAME, schedule_act},
    {"run-now", NAME, schedule_act},    {"remove", NAME, schedule_act},
    {"sync", FILE_NAME, schedule_sync},
};

static const struct action *action_find(const char *word)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(word, actions[i].word) == 0) {
            return &actions[i];
        }
    }
    return NULL;
}

static bool action_check(const struct action *action, const struct options *o, struct fault *f)
{
    size_t n = options_args(o);
    if (!action) {
        return fault_set(f, FAULT_CONFIG,
                         "\"%.100s\" is not an action; use: tenon schedule add, list, show, next, "
                         "pause, resume, run-now, remove or sync",
                         options_arg(o, 0));
    }
    if (n < 2 && (action->args == NAME || action->args == FILE_NAME)) {
        return fault_set(f, FAULT_CONFIG, "an argument is missing: tenon schedule %s %s",
                         action->word, action->args == NAME ? "NAME" : "FILE");
    }
    return n < 2 || action->args != NONE ||
           fault_set(f, FAULT_CONFIG, "unexpected argument \"%.100s\": tenon schedule %s",
                     options_arg(o, 1), action->word);
}

/* What the database refuses is what was typed. */
static bool told(bool ok, struct fault *f)
{
    if (!ok && (f->code == FAULT_ROW || strcmp(f->sqlstate, "55000") == 0)) {
        f->code = FAULT_REFUSED;
    }
    return ok;
}

bool schedule_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    const struct action *action = action_find(options_arg(o, 0));
    bool ok = action_check(action, o, f) &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_HOT | DB_ANY, "tenon schedule", &db,
                      f) &&
              schema_check(db, f) && told(action->run(db, o, f), f);
    db_close(db);
    return ok;
}
