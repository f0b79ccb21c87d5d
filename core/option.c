#include "core/option.h"

#include "core/config.h"
#include "core/option_value.h"

#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 1000, NAME_BYTES_MAX = 64 };

/* Where a value came from; the higher one stands. */
enum source { SOURCE_NONE, SOURCE_DEFAULT, SOURCE_FILE, SOURCE_VARIABLE, SOURCE_FLAG };

struct value {
    enum source source;
    char *text; /* as it was typed; of LIST and EACH the last one */
    int64_t number;
    char **items; /* LIST and EACH */
    size_t n_items;
};

struct options {
    enum command command;
    struct value values[OPTION_COUNT];
    char **args; /* borrowed from argv */
    size_t n_args;
};

static bool is_many(const struct option_row *row)
{
    return row->type == OPTION_TYPE_LIST || row->type == OPTION_TYPE_EACH;
}

const char *command_word(enum command command)
{
    switch (command) {
    case COMMAND_SETUP:
        return "setup";
    case COMMAND_ENQUEUE:
        return "enqueue";
    case COMMAND_WORKER:
        return "worker";
    case COMMAND_CLEANER:
        return "cleaner";
    case COMMAND_STATUS:
        return "status";
    case COMMAND_SHOW:
        return "show";
    }
    return "unknown";
}

const struct option_row *option_find(const char *name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *a = option_rows[i].name;
        const char *b = name;
        while (*a && (*a == *b || (*a == '-' && *b == '_'))) {
            a++;
            b++;
        }
        if (!*a && !*b) {
            return &option_rows[i];
        }
    }
    return NULL;
}

/* --- setting a value ------------------------------------------------------------------------ */

static void value_empty(struct value *v)
{
    for (size_t i = 0; i < v->n_items; i++) {
        free(v->items[i]);
    }
    free(v->items);
    free(v->text);
    *v = (struct value){.source = SOURCE_NONE};
}

static bool item_add(struct value *v, const struct option_row *row, const char *where,
                     const char *text, struct fault *f)
{
    int64_t number;
    if (!option_value_check(row, where, text, &number, f)) {
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
                        const char *text, char separator, struct fault *f)
{
    const char ends[] = {separator, '\0'};
    for (const char *at = text;; at++) {
        size_t whole = strcspn(at, ends);
        size_t skip = strspn(at, " \t");
        size_t n = whole > skip ? whole - skip : 0;
        while (n > 0 && isspace((unsigned char)at[skip + n - 1])) {
            n--;
        }
        char *item = strndup(at + (n > 0 ? skip : 0), n);
        bool ok = item ? item_add(v, row, where, item, f) : fault_memory(f);
        free(item);
        at += whole;
        if (!ok || !*at) {
            return ok;
        }
    }
}

static bool value_set_one(struct value *v, const struct option_row *row, const char *where,
                          const char *text, struct fault *f)
{
    if (!option_value_check(row, where, text, &v->number, f)) {
        return false;
    }
    free(v->text);
    v->text = strdup(text);
    return v->text || fault_memory(f);
}

/* Take a value unless a stronger source has given one; what EACH got from the same source stays. */
static bool value_set(struct options *o, const struct option_row *row, enum source source,
                      const char *where, const char *text, struct fault *f)
{
    struct value *v = &o->values[row->id];
    if (source < v->source) {
        return true;
    }
    if (source > v->source || row->type == OPTION_TYPE_LIST) {
        value_empty(v);
    }
    v->source = source;
    if (row->type == OPTION_TYPE_LIST) {
        return items_split(v, row, where, text, ',', f);
    }
    if (row->type == OPTION_TYPE_EACH) {
        return source == SOURCE_VARIABLE ? items_split(v, row, where, text, '\n', f)
                                         : item_add(v, row, where, text, f);
    }
    return value_set_one(v, row, where, text, f);
}

/* --- the command line ----------------------------------------------------------------------- */

struct getopt_table {
    struct option
        longs[OPTION_COUNT + 1]; /* `val` is the row's id + 256, so that no letter meets it */
    char letters[3 * OPTION_COUNT + 2];
};

enum { LONG_VAL = 256 };

static void getopt_table_fill(struct getopt_table *t, enum command command)
{
    size_t n = 0;
    char *letter = t->letters;
    *letter++ = ':'; /* a missing value is told apart from an unknown option */
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        if (!(row->commands & command)) {
            continue;
        }
        bool flag = row->type == OPTION_TYPE_FLAG;
        t->longs[n++] = (struct option){.name = row->name,
                                        .has_arg = flag ? optional_argument : required_argument,
                                        .val = LONG_VAL + (int)row->id};
        if (row->letter) {
            *letter++ = row->letter;
            if (!flag) {
                *letter++ = ':';
            }
        }
    }
    t->longs[n] = (struct option){.name = NULL};
    *letter = '\0';
}

static const struct option_row *row_of_letter(int letter)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_rows[i].letter && option_rows[i].letter == letter) {
            return &option_rows[i];
        }
    }
    return NULL;
}

/* "worker and setup" */
static void commands_text(unsigned commands, char *text, size_t size)
{
    size_t len = 0;
    text[0] = '\0';
    for (unsigned c = 1; c < COMMANDS_ALL; c <<= 1) {
        if ((commands & c) && len < size) {
            int n = snprintf(text + len, size - len, "%s%s", len ? ", " : "",
                             command_word((enum command)c));
            len += n > 0 ? (size_t)n : 0;
        }
    }
}

static bool fault_unknown(enum command command, const char *typed, struct fault *f)
{
    const char *word = command_word(command);
    char name[NAME_BYTES_MAX];
    const char *dashless = typed + strspn(typed, "-");
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(dashless, "="), dashless);
    const struct option_row *row = strncmp(typed, "--", 2) == 0 ? option_find(name) : NULL;
    if (row && !(row->commands & command)) {
        char whose[NAME_BYTES_MAX];
        commands_text(row->commands, whose, sizeof whose);
        return fault_set(f, FAULT_CONFIG, "--%s is not an option of tenon %s, but of: %s",
                         row->name, word, whose);
    }
    return fault_set(f, FAULT_CONFIG,
                     "%.*s is not an option of tenon %s; tenon %s --help lists them",
                     (int)strcspn(typed, "="), typed, word, word);
}

/* getopt_long() said '?' or ':'. */
static bool fault_getopt(enum command command, int said, char **argv, struct fault *f)
{
    if (said == ':') {
        const struct option_row *row = optopt >= LONG_VAL ? &option_rows[optopt - LONG_VAL]
                                                          : row_of_letter(optopt);
        char allowed[OPTION_ALLOWED_BYTES];
        option_value_allowed(row, allowed);
        return fault_set(f, FAULT_CONFIG, "--%s wants a value: %s", row->name, allowed);
    }
    if (optopt > 0 && optopt < LONG_VAL) {
        const char letter[] = {'-', (char)optopt, '\0'};
        return fault_unknown(command, letter, f);
    }
    return fault_unknown(command, argv[optind - 1], f);
}

static bool read_flags(struct options *o, int argc, char **argv, struct fault *f)
{
    struct getopt_table table;
    getopt_table_fill(&table, o->command);
    optind = 0; /* glibc: start anew */
    opterr = 0;
    int said;
    while ((said = getopt_long(argc, argv, table.letters, table.longs, NULL)) != -1) {
        if (said == '?' || said == ':') {
            return fault_getopt(o->command, said, argv, f);
        }
        const struct option_row *row = said >= LONG_VAL ? &option_rows[said - LONG_VAL]
                                                        : row_of_letter(said);
        char where[NAME_BYTES_MAX];
        (void)snprintf(where, sizeof where, "--%s", row->name);
        if (!value_set(o, row, SOURCE_FLAG, where, optarg ? optarg : "yes", f)) {
            return false;
        }
    }
    o->args = argv + optind;
    o->n_args = (size_t)(argc - optind);
    return true;
}

/* --- the environment, the file, the defaults ------------------------------------------------ */

static bool read_variable(struct options *o, const struct option_row *row, const char *name,
                          struct fault *f)
{
    const char *text = getenv(name);
    if (!text || !*text || o->values[row->id].source >= SOURCE_VARIABLE) {
        return true;
    }
    return value_set(o, row, SOURCE_VARIABLE, name, text, f);
}

static bool read_variables(struct options *o, struct fault *f)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        char name[NAME_BYTES_MAX];
        option_variable(row, name, sizeof name);
        if ((row->commands & o->command) && row->id != OPTION_HELP &&
            (!read_variable(o, row, name, f) ||
             (row->env && !read_variable(o, row, row->env, f)))) {
            return false;
        }
    }
    return true;
}

static bool on_config(void *owner, const struct option_row *row, const char *where,
                      const char *const *values, size_t n, struct fault *f)
{
    struct options *o = owner;
    struct value unused = {.source = SOURCE_NONE};
    struct value *v = &o->values[row->id];
    /* what this command does not take, or a stronger source has given, is checked all the same */
    if (!(row->commands & o->command) || v->source > SOURCE_FILE) {
        v = &unused;
    }
    value_empty(v);
    v->source = SOURCE_FILE;
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        ok = is_many(row) ? item_add(v, row, where, values[i], f)
                          : value_set_one(v, row, where, values[i], f);
    }
    value_empty(&unused);
    return ok;
}

static bool read_file(struct options *o, struct fault *f)
{
    const char *path = option_text(o, OPTION_CONFIG);
    return !path || config_read(path, on_config, o, f);
}

static bool read_defaults(struct options *o, struct fault *f)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        if ((row->commands & o->command) && row->def &&
            !value_set(o, row, SOURCE_DEFAULT, row->name, row->def, f)) {
            return false;
        }
    }
    return true;
}

static bool check_required(const struct options *o, struct fault *f)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        if ((row->required & o->command) && o->values[i].source == SOURCE_NONE) {
            char name[NAME_BYTES_MAX];
            char allowed[OPTION_ALLOWED_BYTES];
            option_variable(row, name, sizeof name);
            option_value_allowed(row, allowed);
            return fault_set(f, FAULT_CONFIG, "--%s (or the variable %s) is needed: %s", row->name,
                             row->env ? row->env : name, allowed);
        }
    }
    return true;
}

static bool read_all(struct options *o, int argc, char **argv, struct fault *f)
{
    if (!read_flags(o, argc, argv, f)) {
        return false;
    }
    if (option_flag(o, OPTION_HELP)) {
        return true;
    }
    /* a handler that is run by hand meets no server */
    return read_variables(o, f) && read_file(o, f) && read_defaults(o, f) &&
           (option_is_given(o, OPTION_RUN_ONE) || check_required(o, f));
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
    return o->values[id].text;
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
