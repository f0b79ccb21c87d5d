/* `tenon limit`: how many tasks of a key run at once, start in a time, and in which order. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/db/db.h"
#include "core/db/schema.h"

#include <string.h>

#define LIST_MAX 1000 /* limits and keys */
#define TEXT_OF(n) #n
#define TEXT(n) TEXT_OF(n)

enum { LIST_COLUMNS = 7, LIST_JSON = LIST_COLUMNS };

static const char *given(const struct options *o, enum option_id id)
{
    return option_is_given(o, id) ? option_text(o, id) : NULL;
}

/* At least one of them: with a name alone a rule would lose its bounds. */
static bool limits_something(const struct options *o)
{
    return option_is_given(o, OPTION_MAX_RUNNING) || option_is_given(o, OPTION_MAX_STARTS) ||
           option_flag(o, OPTION_STRICT) || option_flag(o, OPTION_FAIR) ||
           option_is_given(o, OPTION_WEIGHT);
}

static bool limit_set(struct db *db, const struct options *o, struct fault *f)
{
    struct rows *rows = NULL;
    if (!limits_something(o)) {
        return fault_set(
            f, FAULT_CONFIG,
            "the limit %.100s needs --max-running, --max-starts, --strict, --fair or --weight; "
            "to end it: tenon limit remove",
            options_arg(o, 1));
    }
    const char *const params[] = {options_arg(o, 1),
                                  given(o, OPTION_MAX_RUNNING),
                                  option_text(o, OPTION_MAX_STARTS),
                                  option_flag(o, OPTION_STRICT) ? "true" : NULL,
                                  given(o, OPTION_WHEN_DEAD),
                                  option_flag(o, OPTION_FAIR) ? "true" : NULL,
                                  given(o, OPTION_WEIGHT),
                                  option_text(o, OPTION_UNTIL)};
    if (!db_exec(db, &sql_limit_set, params, sizeof params / sizeof *params, &rows, f)) {
        return fault_add(f, "could not set the limit %.100s", params[0]);
    }
    if (option_flag(o, OPTION_JSON)) {
        (void)puts(rows_text(rows, 0, 0));
    } else {
        (void)printf("the limit %s is set\n", params[0]);
    }
    rows_free(rows);
    return true;
}

static bool absent(const char *name, struct fault *f)
{
    return fault_set(f, FAULT_ABSENT, "there is no limit %.100s; tenon limit list shows all", name);
}

/* remove, pause, resume */
static bool limit_act(struct db *db, const struct options *o, struct fault *f)
{
    const char *const params[] = {options_arg(o, 0), options_arg(o, 1), option_text(o, OPTION_WHY)};
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_limit_act, params, 3, &rows, f)) {
        return fault_add(f, "could not %s the limit %.100s", params[0], params[1]);
    }
    bool there = print_act(rows, option_flag(o, OPTION_JSON));
    if (!there && strcmp(params[0], "resume") == 0) {
        return fault_set(f, FAULT_ABSENT, "the limit %.100s is not paused", params[1]);
    }
    return there || absent(params[1], f);
}

/* How many of the rows are printed: the last one may only tell that there are more. */
static size_t printed(const struct rows *r)
{
    return rows_count(r) > LIST_MAX ? LIST_MAX : rows_count(r);
}

static void print_json(const struct rows *r)
{
    (void)printf("{\"more\": %s,\n\"limits\": [", rows_count(r) > LIST_MAX ? "true" : "false");
    for (size_t i = 0; i < printed(r); i++) {
        (void)printf("%s\n  %s", i ? "," : "", rows_text(r, i, LIST_JSON));
    }
    (void)puts("]}");
}

static bool print_table(const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {"<LIMIT", ">AT ONCE", ">STARTS", ">RUNNING",
                                        ">READY", ">WAITING", "^"};
    struct table t;
    table_init(&t, heads, LIST_COLUMNS);
    for (size_t i = 0; i < printed(r); i++) {
        for (int column = 0; column < LIST_COLUMNS; column++) {
            table_put(&t, rows_text(r, i, column));
        }
    }
    return table_print(&t, f);
}

static bool limit_list(struct db *db, const struct options *o, struct fault *f)
{
    const char *const params[] = {TEXT(LIST_MAX)};
    struct rows *rows = NULL;
    bool ok = true;
    if (!db_exec(db, &sql_limit_list, params, 1, &rows, f)) {
        return fault_add(f, "could not read the limits");
    }
    if (option_flag(o, OPTION_JSON)) {
        print_json(rows);
    } else if (rows_count(rows) == 0) {
        (void)puts("no limits");
    } else {
        ok = print_table(rows, f);
        if (rows_count(rows) > LIST_MAX) {
            (void)printf("(only the first %d by name)\n", LIST_MAX);
        }
    }
    rows_free(rows);
    return ok;
}

static bool limit_show(struct db *db, const struct options *o, struct fault *f)
{
    const char *const params[] = {options_arg(o, 1)};
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_limit_show, params, 1, &rows, f)) {
        return fault_add(f, "could not read the limit %.100s", params[0]);
    }
    return print_shown(rows, option_flag(o, OPTION_JSON)) || absent(params[0], f);
}

static const struct action {
    const char *word;
    bool named;
    bool (*run)(struct db *db, const struct options *o, struct fault *f);
} actions[] = {
    {"set", true, limit_set},   {"show", true, limit_show},  {"remove", true, limit_act},
    {"pause", true, limit_act}, {"resume", true, limit_act}, {"list", false, limit_list},
};

static const struct action *action_of(const struct options *o, struct fault *f)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(options_arg(o, 0), actions[i].word) != 0) {
            continue;
        }
        if (options_args(o) == 1 + (size_t)actions[i].named) {
            return &actions[i];
        }
        (void)fault_set(f, FAULT_CONFIG, "tenon limit %s takes %s", actions[i].word,
                        actions[i].named ? "the name of a limit" : "no further argument");
        return NULL;
    }
    (void)fault_set(
        f, FAULT_CONFIG,
        "\"%.100s\" is not an action; use: tenon limit set, show, remove, pause, resume or list",
        options_arg(o, 0));
    return NULL;
}

/* What the database refuses is what was typed. */
static bool told(bool ok, struct fault *f)
{
    if (!ok && f->code == FAULT_ROW) {
        f->code = FAULT_REFUSED;
    }
    return ok;
}

bool limit_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    const struct action *action = action_of(o, f);
    bool ok = action &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN | DB_ANY, "tenon limit", &db,
                      f) &&
              schema_check(db, f) && told(action->run(db, o, f), f);
    db_close(db);
    return ok;
}
