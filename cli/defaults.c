/* `tenon queue` and `tenon kind`: the defaults that tasks get when they are enqueued. */
#include "cli/command.h"
#include "cli/filter.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/db.h"
#include "core/schema.h"

#include <stdlib.h>
#include <string.h>

/* The columns of defaults_queues.sql and defaults_kinds.sql. */
enum { NAME, QUEUE, PRIORITY, ATTEMPTS, CRASHES, TIMEOUT, RETRY, ON_DEAD, PAUSED, JSON };

/* What may be set, and what tenon.set_queue and tenon.set_kind call it. */
static const struct setting {
    enum option_id option;
    const char *key;
} settings[] = {
    {OPTION_QUEUE, "queue"},
    {OPTION_PRIORITY, "priority"},
    {OPTION_MAX_ATTEMPTS, "max_attempts"},
    {OPTION_MAX_CRASHES, "max_crashes"},
    {OPTION_TIMEOUT, "timeout"},
    {OPTION_TIMEOUT_MIN, "timeout_min"},
    {OPTION_ON_TIMEOUT, "on_timeout"},
    {OPTION_RETRY, "retry"},
    {OPTION_ON_DEAD, "on_dead"},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static void put_value(struct buf *b, const struct options *o, const struct setting *s)
{
    const struct option_row *row = &option_rows[s->option];
    if (row->type == OPTION_TYPE_DURATION) {
        json_put_key(b, s->key);
        buf_printf(b, "\"%lld ms\"", (long long)option_int(o, s->option));
    } else if (row->type == OPTION_TYPE_INT) {
        json_put_key(b, s->key);
        buf_put_int(b, option_int(o, s->option));
    } else {
        json_put_pair(b, s->key, option_text(o, s->option));
    }
}

static bool put_null(struct buf *b, const char *name, struct fault *f)
{
    for (const struct setting *s = settings; s < settings + SETTINGS; s++) {
        if (strcmp(option_rows[s->option].name, name) == 0) {
            json_put_key(b, s->key);
            buf_put_text(b, "null");
            return true;
        }
    }
    return fault_set(f, FAULT_CONFIG, "--unset \"%.100s\" is not allowed: that is no default",
                     name);
}

static bool changes_read(struct buf *b, const struct options *o, struct fault *f)
{
    bool ok = true;
    buf_init(b, FILTER_BYTES_MAX);
    buf_put_char(b, '{');
    for (const struct setting *s = settings; s < settings + SETTINGS; s++) {
        if (option_is_typed(o, s->option)) {
            put_value(b, o, s);
        }
    }
    for (size_t i = 0; ok && i < option_items(o, OPTION_UNSET); i++) {
        ok = put_null(b, option_item(o, OPTION_UNSET, i), f);
    }
    buf_put_char(b, '}');
    return ok && (!b->failed || fault_memory(f));
}

static bool set(struct db *db, const struct options *o, const char *name, struct fault *f)
{
    struct buf changes;
    bool ok = changes_read(&changes, o, f);
    const char *const params[] = {name, buf_text(&changes)};
    if (ok && !filter_is_empty(&changes)) {
        ok = name ? db_exec(db,
                            options_command(o) == COMMAND_QUEUE ? &sql_defaults_set_queue
                                                                : &sql_defaults_set_kind,
                            params, 2, NULL, f) ||
                        fault_add(f, "could not set defaults of %.100s", name)
                  : fault_set(f, FAULT_CONFIG, "say whose defaults: tenon %s NAME",
                              command_word(options_command(o)));
    }
    buf_clear(&changes);
    return ok;
}

static bool print_defaults(const struct rows *r, bool kinds, struct fault *f)
{
    static const char *const heads[] = {"NAME",     "QUEUE", ">PRIORITY", ">ATTEMPTS", ">CRASHES",
                                        ">TIMEOUT", "RETRY", "ON DEAD",   ""};
    struct table t;
    if (rows_count(r) == 0) {
        (void)printf("no defaults of its own: %s\n",
                     kinds ? "those of the queue hold" : "priority 4, 25 attempts, timeout 1h");
        return true;
    }
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < rows_count(r); i++) {
        for (int column = NAME; column <= PAUSED; column++) {
            const char *text = rows_text(r, i, column);
            table_put(&t, text || column == PAUSED ? text : "-");
        }
    }
    return table_print(&t, f);
}

static void print_json(const struct rows *r, const char *key)
{
    (void)printf("{\"%s\": [", key);
    for (size_t i = 0; i < rows_count(r); i++) {
        (void)printf("%s\n  %s", i ? "," : "", rows_text(r, i, JSON));
    }
    (void)puts("]}");
}

static bool show(struct db *db, const struct options *o, const char *name, struct fault *f)
{
    bool kinds = options_command(o) == COMMAND_KIND;
    struct rows *rows = NULL;
    if (!db_exec(db, kinds ? &sql_defaults_kinds : &sql_defaults_queues, &name, 1, &rows, f)) {
        return fault_add(f, "could not read the defaults");
    }
    bool ok = true;
    if (option_flag(o, OPTION_JSON)) {
        print_json(rows, kinds ? "kinds" : "queues");
    } else {
        ok = print_defaults(rows, kinds, f);
    }
    rows_free(rows);
    return ok;
}

bool defaults_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    const char *name = options_args(o) > 0 ? options_arg(o, 0) : NULL;
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN | DB_ANY, "tenon defaults", &db,
                      f) &&
              schema_check(db, f) && set(db, o, name, f) && show(db, o, name, f);
    db_close(db);
    return ok;
}
