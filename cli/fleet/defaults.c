/* `tenon queue` and `tenon kind`: the defaults that tasks get when they are enqueued. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/base/array.h"
#include "core/db/db.h"
#include "core/db/schema.h"

#include <stdio.h>
#include <string.h>

/* The columns of defaults_queues.sql and defaults_kinds.sql. */
enum { NAME, QUEUE, PRIORITY, ATTEMPTS, CRASHES, TIMEOUT, RETRY, ON_DEAD, PAUSED, JSON };

/* The parameters of defaults_set_kind.sql and defaults_set_queue.sql, after the name. */
static const enum option_id of_kinds[] = {OPTION_QUEUE,        OPTION_PRIORITY,
                                          OPTION_MAX_ATTEMPTS, OPTION_MAX_CRASHES,
                                          OPTION_TIMEOUT,      OPTION_TIMEOUT_MIN,
                                          OPTION_ON_TIMEOUT,   OPTION_RETRY,
                                          OPTION_ON_DEAD,      OPTION_LIMIT_KEYS,
                                          OPTION_HISTORY_KEEP, OPTION_DEAD_KEEP};
static const enum option_id of_queues[] = {OPTION_PRIORITY, OPTION_MAX_ATTEMPTS, OPTION_TIMEOUT,
                                           OPTION_RETRY};
enum {
    OF_KINDS = sizeof of_kinds / sizeof *of_kinds,
    OF_QUEUES = sizeof of_queues / sizeof *of_queues,
    VALUE_BYTES = 32,
    LIST_BYTES_MAX = 4096
};

struct values {
    const char *params[OF_KINDS + 2];
    char spans[OF_KINDS][VALUE_BYTES];
    struct buf keys, unset;
    int n;
    bool any;
};

static const char *list_of(struct buf *b, const struct options *o, enum option_id id)
{
    array_begin(b);
    for (size_t i = 0; i < option_items(o, id); i++) {
        array_put_text(b, option_item(o, id, i));
    }
    return array_end(b);
}

static void put_value(struct values *v, const struct options *o, enum option_id id, int i)
{
    bool is_list = option_rows[id].type == OPTION_TYPE_LIST;
    const char *value = !option_is_typed(o, id) ? NULL
                        : is_list               ? list_of(&v->keys, o, id)
                                                : option_text(o, id);
    if (value && option_rows[id].type == OPTION_TYPE_DURATION) {
        (void)snprintf(v->spans[i], VALUE_BYTES, "%lld ms", (long long)option_int(o, id));
        value = v->spans[i];
    }
    v->params[v->n++] = value;
    v->any = v->any || value;
}

/* Their names in SQL have "_" for "-". */
static bool put_unset(struct values *v, const struct options *o, const enum option_id *ids,
                      int n_ids, struct fault *f)
{
    array_begin(&v->unset);
    for (size_t i = 0; i < option_items(o, OPTION_UNSET); i++) {
        const char *name = option_item(o, OPTION_UNSET, i);
        int k = 0;
        while (k < n_ids && strcmp(option_rows[ids[k]].name, name) != 0) {
            k++;
        }
        if (k == n_ids) {
            return fault_set(
                f, FAULT_CONFIG,
                "--unset \"%.100s\" is not allowed: there is no such default; see --help", name);
        }
        char key[VALUE_BYTES];
        (void)snprintf(key, sizeof key, "%s", name);
        for (char *c = key; (c = strchr(c, '-'));) {
            *c = '_';
        }
        array_put_text(&v->unset, key);
        v->any = true;
    }
    v->params[v->n++] = array_end(&v->unset);
    return (!v->unset.failed && !v->keys.failed) || fault_memory(f);
}

static bool set(struct db *db, const struct options *o, const char *name, struct fault *f)
{
    bool kind = options_command(o) == COMMAND_KIND;
    const enum option_id *ids = kind ? of_kinds : of_queues;
    int n_ids = kind ? OF_KINDS : OF_QUEUES;
    struct values v = {.params = {name}, .n = 1};
    buf_init(&v.unset, LIST_BYTES_MAX);
    buf_init(&v.keys, LIST_BYTES_MAX);
    for (int i = 0; i < n_ids; i++) {
        put_value(&v, o, ids[i], i);
    }
    bool ok = put_unset(&v, o, ids, n_ids, f);
    if (ok && v.any) {
        ok = name ? db_exec(db, kind ? &sql_defaults_set_kind : &sql_defaults_set_queue, v.params,
                            v.n, NULL, f) ||
                        fault_add(f, "could not set defaults of %.100s", name)
                  : fault_set(f, FAULT_CONFIG, "the name is missing: tenon %s NAME",
                              command_word(options_command(o)));
    }
    buf_clear(&v.unset);
    buf_clear(&v.keys);
    return ok;
}

static bool print_defaults(const struct rows *r, bool kinds, struct fault *f)
{
    static const char *const heads[] = {"NAME",     "QUEUE", ">PRIORITY", ">ATTEMPTS", ">CRASHES",
                                        ">TIMEOUT", "RETRY", "ON DEAD",   ""};
    struct table t;
    if (rows_count(r) == 0) {
        (void)printf("no defaults are set: %s\n",
                     kinds ? "those of the queue apply" : "priority 4, 25 attempts, timeout 1h");
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
