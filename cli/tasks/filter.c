#include "cli/tasks/filter.h"

#include "cli/print.h"
#include "cli/statements.h"
#include "core/db/db.h"

#include <string.h>

enum { ID_DIGITS_MAX = 18 };

bool id_check(const char *text, struct fault *f)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > ID_DIGITS_MAX || text[digits]) {
        return fault_set(
            f, FAULT_CONFIG,
            "the ID \"%.100s\" is not allowed: it must be a task's number, at most %d digits", text,
            ID_DIGITS_MAX);
    }
    return true;
}

void json_put_key(struct buf *b, const char *key)
{
    const char *text = buf_text(b);
    bool first = b->len > 0 && text[b->len - 1] == '{';
    buf_printf(b, "%s\"%s\": ", first ? "" : ", ", key);
}

void json_put_pair(struct buf *b, const char *key, const char *text)
{
    if (text) {
        json_put_key(b, key);
        buf_put_json(b, text, strlen(text));
    }
}

static const char *typed(const struct options *o, enum option_id id)
{
    return option_is_typed(o, id) ? option_text(o, id) : NULL;
}

static void put_states(struct buf *b, const struct options *o)
{
    size_t n = option_items(o, OPTION_STATE);
    if (n == 0) {
        return;
    }
    json_put_key(b, "state");
    for (size_t i = 0; i < n; i++) {
        const char *state = option_item(o, OPTION_STATE, i);
        buf_put_char(b, i ? ',' : '[');
        buf_put_json(b, state, strlen(state));
    }
    buf_put_char(b, ']');
}

static bool put_ids(struct buf *b, const struct options *o, size_t first, struct fault *f)
{
    if (options_args(o) <= first) {
        return true;
    }
    json_put_key(b, "ids");
    for (size_t i = first; i < options_args(o); i++) {
        const char *id = options_arg(o, i);
        if (!id_check(id, f)) {
            return false;
        }
        id += strspn(id, "0"); /* which JSON does not allow in front */
        buf_printf(b, "%s%s", i == first ? "[" : ",", *id ? id : "0");
    }
    buf_put_char(b, ']');
    return true;
}

static void put_older_than(struct buf *b, const struct options *o)
{
    if (option_is_typed(o, OPTION_OLDER_THAN)) {
        json_put_key(b, "older_than");
        buf_printf(b, "\"%lld ms\"", (long long)option_int(o, OPTION_OLDER_THAN));
    }
}

bool filter_read(struct buf *b, const struct options *o, size_t first, struct fault *f)
{
    buf_init(b, FILTER_BYTES_MAX);
    buf_put_char(b, '{');
    put_states(b, o);
    json_put_pair(b, "queue", typed(o, OPTION_QUEUE));
    json_put_pair(b, "kind", typed(o, OPTION_KIND));
    json_put_pair(b, "error", typed(o, OPTION_ERROR));
    json_put_pair(b, "unique_key", typed(o, OPTION_UNIQUE_KEY));
    json_put_pair(b, "payload", typed(o, OPTION_PAYLOAD));
    json_put_pair(b, "flow", typed(o, OPTION_FLOW));
    json_put_pair(b, "limit_key", typed(o, OPTION_LIMIT_KEY));
    json_put_pair(b, "tag", typed(o, OPTION_TAG));
    put_older_than(b, o);
    bool ok = put_ids(b, o, first, f);
    buf_put_char(b, '}');
    return ok && (!b->failed || fault_memory(f));
}

bool filter_is_empty(const struct buf *b)
{
    return strcmp(buf_text(b), "{}") == 0;
}

bool filter_tell_errors(const struct buf *filter, const struct options *o, const char *act,
                        struct db *db, struct fault *f)
{
    struct rows *rows = NULL;
    struct buf line;
    const char *const params[] = {buf_text(filter), act};
    if (!option_is_typed(o, OPTION_ERROR)) {
        return true;
    }
    if (!db_exec(db, &sql_filter_errors, params, 2, &rows, f)) {
        return fault_add(f, "could not find which errors there are");
    }
    buf_init(&line, FILTER_BYTES_MAX);
    if (!rows_is_null(rows, 0, 0)) {
        buf_put_text(&line, "no task has the error ");
        put_safe(&line, option_text(o, OPTION_ERROR));
        buf_put_text(&line, "; the tasks that match the other options have: ");
        put_safe(&line, rows_text(rows, 0, 0));
        (void)fprintf(stderr, "%s\n", buf_text(&line));
    }
    bool ok = !line.failed || fault_memory(f);
    buf_clear(&line);
    rows_free(rows);
    return ok;
}
