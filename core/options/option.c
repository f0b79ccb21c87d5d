#include "core/options/option.h"

#include "core/options/config.h"
#include "core/options/option_value.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 1000, NAME_BYTES_MAX = 64 };

/* Where a value came from; the higher one wins. */
enum source { SOURCE_NONE, SOURCE_DEFAULT, SOURCE_FILE, SOURCE_VARIABLE, SOURCE_FLAG };

struct value {
    enum source source;
    bool took_env; /* from the second variable */
    int64_t number;
    char **items; /* as they were typed; only LIST and EACH have more than one */
    size_t n_items;
};

struct options {
    enum command command;
    struct value values[OPTION_COUNT];
    char **args; /* borrowed from argv */
    size_t n_args;
};

const char *command_word(enum command command)
{
    static const char *const words[] = {"setup",  "enqueue",  "worker", "cleaner", "status",
                                        "show",   "schedule", "list",   "retry",   "cancel",
                                        "delete", "run-now",  "set",    "pause",   "resume",
                                        "queue",  "kind",     "audit",  "why",     "adopt",
                                        "doctor", "flow",     "limit",  "outbox",  "wait",
                                        "signal", "scaler",   "canary", "ui",      "dev",
                                        "health", "sync",     "intake", "logs",    "dead",
                                        "mcp"};
    return words[command];
}

bool option_is_of(const struct option_row *row, enum command command)
{
    return row->commands >> command & 1;
}

bool option_is_kept(const struct option_row *row, enum command command)
{
    return option_is_of(row, command) &&
           (!row->typed || (row->untyped >> command & UINT64_C(1)) != 0);
}

const struct option_row *option_find(const char *name, size_t bytes)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strlen(option_rows[i].name) == bytes && memcmp(option_rows[i].name, name, bytes) == 0) {
            return &option_rows[i];
        }
    }
    return NULL;
}

static struct value *value_of(struct options *o, const struct option_row *row)
{
    return &o->values[row - option_rows];
}

/* --- setting a value ------------------------------------------------------------------------ */

static void value_empty(struct value *v)
{
    for (size_t i = 0; i < v->n_items; i++) {
        free(v->items[i]);
    }
    free(v->items);
    *v = (struct value){.source = SOURCE_NONE};
}

static bool item_add(struct value *v, const struct option_row *row, const char *where,
                     const char *text, struct fault *f)
{
    if (!option_value_check(row, where, text, &v->number, f)) {
        return false;
    }
    if (v->n_items == ITEMS_MAX) {
        return fault_set(f, FAULT_CONFIG, "%s is given more than %d times", where, ITEMS_MAX);
    }
    char **items = realloc(v->items, (v->n_items + 1) * sizeof *items);
    char *copy = strdup(text);
    v->items = items ? items : v->items;
    if (!items || !copy) {
        free(copy);
        return fault_memory(f);
    }
    items[v->n_items++] = copy;
    return true;
}

/* Add the parts of a text between separators, without the blanks around them. */
static bool items_split(struct value *v, const struct option_row *row, const char *where,
                        const char *text, const char *separator, struct fault *f)
{
    char *copy = strdup(text), *rest = copy, *item;
    bool ok = copy || fault_memory(f);
    while (ok && (item = strsep(&rest, separator))) {
        item += strspn(item, " \t");
        for (size_t n = strlen(item); n > 0 && isspace((unsigned char)item[n - 1]); n--) {
            item[n - 1] = '\0';
        }
        ok = item_add(v, row, where, item, f);
    }
    free(copy);
    return ok;
}

/* Take a value unless a stronger source has given one; what EACH got from the same source stays. */
static bool value_set(struct options *o, const struct option_row *row, enum source source,
                      const char *where, const char *text, struct fault *f)
{
    struct value *v = value_of(o, row);
    if (source < v->source) {
        return true;
    }
    if (source > v->source || row->type != OPTION_TYPE_EACH) {
        value_empty(v);
    }
    v->source = source;
    if (row->type == OPTION_TYPE_LIST) {
        return items_split(v, row, where, text, ",", f);
    }
    if (row->type == OPTION_TYPE_EACH && source == SOURCE_VARIABLE) {
        return items_split(v, row, where, text, "\n", f);
    }
    return item_add(v, row, where, text, f);
}

/* --- the command line ----------------------------------------------------------------------- */

static const struct option_row *row_of_letter(char letter)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_rows[i].letter && option_rows[i].letter == letter) {
            return &option_rows[i];
        }
    }
    return NULL;
}

/* "--slots 8", "--slots=8", "-p 3", "-p3"; `next` is the word behind, or NULL.
 *   ret_used   whether `next` is the value */
static bool read_flag(struct options *o, const char *word, const char *next, bool *ret_used,
                      struct fault *f)
{
    bool is_long = word[1] == '-';
    size_t n = is_long ? strcspn(word, "=") : 2;
    const struct option_row *row = is_long ? option_find(word + 2, n - 2) : row_of_letter(word[1]);
    const char *command = command_word(o->command);
    if (!row || !option_is_of(row, o->command)) {
        return fault_set(f, FAULT_CONFIG,
                         "%.*s is not an option of tenon %s; tenon %s --help lists them", (int)n,
                         word, command, command);
    }
    *ret_used = !word[n] && row->type != OPTION_TYPE_FLAG;
    const char *text = word[n] ? word + n + is_long : *ret_used ? next : "yes";
    if (!text) {
        char allowed[OPTION_ALLOWED_BYTES];
        option_value_allowed(row, allowed);
        return fault_set(f, FAULT_CONFIG, "--%s needs a value: %s", row->name, allowed);
    }
    char where[NAME_BYTES_MAX];
    (void)snprintf(where, sizeof where, "--%s", row->name);
    return value_set(o, row, SOURCE_FLAG, where, text, f);
}

static bool read_flags(struct options *o, int argc, char **argv, struct fault *f)
{
    bool only_args = false;
    o->args = argv + 1;
    for (int i = 1; i < argc; i++) {
        bool used = false;
        if (only_args || argv[i][0] != '-' || !argv[i][1]) {
            o->args[o->n_args++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            only_args = true;
        } else if (!read_flag(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &used, f)) {
            return false;
        }
        i += used;
    }
    return true;
}

/* --- the environment, the file, the defaults ------------------------------------------------ */

static bool read_variable(struct options *o, const struct option_row *row, const char *name,
                          struct fault *f)
{
    const char *text = getenv(name);
    if (!text || !*text || value_of(o, row)->source >= SOURCE_VARIABLE) {
        return true;
    }
    bool ok = value_set(o, row, SOURCE_VARIABLE, name, text, f);
    value_of(o, row)->took_env = name == row->env;
    return ok;
}

static bool read_variables(struct options *o, struct fault *f)
{
    for (const struct option_row *row = option_rows; row < option_rows + OPTION_COUNT; row++) {
        char name[NAME_BYTES_MAX];
        option_variable(row, name, sizeof name);
        if (option_is_kept(row, o->command) &&
            (!read_variable(o, row, name, f) ||
             (row->env && !read_variable(o, row, row->env, f)))) {
            return false;
        }
    }
    return true;
}

/* What this command does not take, or a stronger source has given, is checked all the same. */
static bool on_config(void *owner, const struct option_row *row, const char *where,
                      const char *const *values, size_t n, struct fault *f)
{
    struct options *o = owner;
    struct value unused = {.source = SOURCE_NONE}, *v = value_of(o, row);
    bool ok = true;
    if (!option_is_kept(row, o->command) || v->source > SOURCE_FILE) {
        v = &unused;
    }
    value_empty(v);
    v->source = SOURCE_FILE;
    for (size_t i = 0; ok && i < n; i++) {
        ok = item_add(v, row, where, values[i], f);
    }
    value_empty(&unused);
    return ok;
}

static bool read_file(struct options *o, struct fault *f)
{
    const char *path = option_text(o, OPTION_CONFIG);
    return !path || config_read(path, on_config, o, f);
}

/* What nobody has given: its default, or a fault when it is required. A handler that is run by hand
 * meets no server, and requires nothing. */
static bool read_defaults(struct options *o, struct fault *f)
{
    bool by_hand = option_is_given(o, OPTION_RUN_ONE);
    for (const struct option_row *row = option_rows; row < option_rows + OPTION_COUNT; row++) {
        if (!option_is_of(row, o->command) || value_of(o, row)->source != SOURCE_NONE) {
            continue;
        }
        if (!by_hand && row->required >> o->command & 1) {
            char allowed[OPTION_ALLOWED_BYTES];
            option_value_allowed(row, allowed);
            return fault_set(f, FAULT_CONFIG, "--%s is missing: set it, or the variable %s, to %s",
                             row->name, row->env, allowed);
        }
        if (row->def && !value_set(o, row, SOURCE_DEFAULT, row->name, row->def, f)) {
            return false;
        }
    }
    return true;
}

static bool read_all(struct options *o, int argc, char **argv, struct fault *f)
{
    return read_flags(o, argc, argv, f) &&
           (option_flag(o, OPTION_HELP) ||
            (read_variables(o, f) && read_file(o, f) && read_defaults(o, f)));
}

bool options_read(enum command command, int argc, char **argv, struct options **ret,
                  struct fault *f)
{
    struct options *o = calloc(1, sizeof *o);
    if (!o) {
        return fault_memory(f);
    }
    o->command = command;
    if (!read_all(o, argc, argv, f)) {
        options_free(o);
        return false;
    }
    *ret = o;
    return true;
}

void options_free(struct options *o)
{
    for (size_t i = 0; o && i < OPTION_COUNT; i++) {
        value_empty(&o->values[i]);
    }
    free(o);
}

/* --- asking --------------------------------------------------------------------------------- */

enum command options_command(const struct options *o)
{
    return o->command;
}

const char *option_text(const struct options *o, enum option_id id)
{
    const struct value *v = &o->values[id];
    return v->n_items > 0 ? v->items[v->n_items - 1] : NULL;
}

int64_t option_int(const struct options *o, enum option_id id)
{
    return o->values[id].number;
}

bool option_flag(const struct options *o, enum option_id id)
{
    return o->values[id].number != 0;
}

bool option_is_given(const struct options *o, enum option_id id)
{
    return o->values[id].source > SOURCE_DEFAULT;
}

bool option_is_typed(const struct options *o, enum option_id id)
{
    return o->values[id].source == SOURCE_FLAG;
}

bool option_took_env(const struct options *o, enum option_id id)
{
    return o->values[id].took_env;
}

size_t option_items(const struct options *o, enum option_id id)
{
    return o->values[id].n_items;
}

const char *option_item(const struct options *o, enum option_id id, size_t i)
{
    return o->values[id].items[i];
}

size_t options_args(const struct options *o)
{
    return o->n_args;
}

const char *options_arg(const struct options *o, size_t i)
{
    return o->args[i];
}
