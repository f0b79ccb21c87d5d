/* The outbox on the page: what waits and what was refused, and to retry or delete it. */
#include "ui/api.h"

#include "cli/statements.h"
#include "cli/tasks/filter.h"
#include "core/base/array.h"
#include "ui/statements.h"

#include <stdlib.h>
#include <string.h>

#define COUNTED_MAX "10000"
#define PAGE_MESSAGES "50"

enum { PAGE_MESSAGES_MAX = 200, DIGITS_MAX = 18, IDS_BYTES_MAX = 1 << 20 };

static const char *argument(const struct call *c, const char *name)
{
    const char *text = http_argument(c->request, name);
    return text && *text ? text : NULL;
}

static bool number_check(const char *name, const char *text, long long most, struct fault *f)
{
    size_t digits = text ? strspn(text, "0123456789") : 1;
    bool ok = !text || (digits > 0 && digits <= DIGITS_MAX && !text[digits] &&
                        strtoll(text, NULL, 10) >= 1 && strtoll(text, NULL, 10) <= most);
    return ok ||
           fault_set(f, FAULT_REFUSED, "%s must be a whole number from 1 to %lld", name, most);
}

static bool state_check(const char *state, struct fault *f)
{
    return !state || strcmp(state, "refused") == 0 || strcmp(state, "waiting") == 0 ||
           fault_set(f, FAULT_REFUSED, "state must be refused or waiting");
}

static void put_messages(struct buf *b, const struct rows *r)
{
    int json = rows_columns(r) - 1;
    json_put_key(b, "messages");
    buf_put_char(b, '[');
    for (size_t i = 0; i < rows_count(r) && !rows_is_null(r, i, json); i++) {
        buf_printf(b, "%s\n", i ? "," : "");
        buf_put(b, rows_text(r, i, json), rows_bytes(r, i, json));
    }
    buf_put_char(b, ']');
}

bool read_outbox(struct call *c, struct fault *f)
{
    enum { WAITING, REFUSED, AT_LEAST, OLDEST_S, NEXT = 0 };
    static const char *const counted[] = {COUNTED_MAX};
    const char *limit = argument(c, "limit");
    const char *const params[] = {argument(c, "state"), argument(c, "exchange"),
                                  argument(c, "cursor"), limit ? limit : PAGE_MESSAGES};
    struct db_call calls[] = {{.statement = &sql_outbox, .params = counted, .n_params = 1},
                              {.statement = &sql_outbox_list, .params = params, .n_params = 4}};
    struct buf *b = &c->answer->body;
    if (!state_check(params[0], f) || !number_check("cursor", params[2], INT64_MAX, f) ||
        !number_check("limit", params[3], PAGE_MESSAGES_MAX, f) ||
        !pool_run(c->ui->pool, calls, 2, true, f)) {
        return false;
    }
    buf_put_char(b, '{');
    json_put_raw(b, "waiting", rows_text(calls[0].rows, 0, WAITING));
    json_put_raw(b, "refused", rows_text(calls[0].rows, 0, REFUSED));
    json_put_raw(b, "at_least", rows_bool(calls[0].rows, 0, AT_LEAST) ? "true" : "false");
    json_put_raw(b, "oldest_seconds", rows_text(calls[0].rows, 0, OLDEST_S));
    json_put_raw(b, "next", rows_text(calls[1].rows, 0, NEXT));
    put_messages(b, calls[1].rows);
    buf_put_char(b, '}');
    rows_free(calls[0].rows);
    rows_free(calls[1].rows);
    return true;
}

/* --- acts ----------------------------------------------------------------------------------- */

/* The numbers as an array of SQL; *ret is NULL where none are given. */
static bool ids_read(const json_t *body, struct buf *b, const char **ret, struct fault *f)
{
    const json_t *ids = json_object_get(body, "ids");
    *ret = NULL;
    array_begin(b);
    if (!ids || json_is_null(ids)) {
        return true;
    }
    bool ok = json_is_array(ids);
    for (size_t i = 0; ok && i < json_array_size(ids); i++) {
        ok = json_is_integer(json_array_get(ids, i));
        array_put_int(b, json_integer_value(json_array_get(ids, i)));
    }
    *ret = array_end(b);
    return ok ? *ret || fault_memory(f)
              : fault_set(f, FAULT_REFUSED, "\"ids\" must be an array of whole numbers");
}

static bool act(struct call *c, const char *word, struct fault *f)
{
    struct buf ids;
    struct rows *rows = NULL;
    const char *params[] = {word, NULL, NULL, NULL, NULL};
    const json_t *exchange = json_object_get(c->body, "exchange");
    params[2] = json_string_value(exchange);
    buf_init(&ids, IDS_BYTES_MAX);
    bool ok = ids_read(c->body, &ids, &params[1], f);
    if (ok && exchange && !json_is_null(exchange) && !params[2]) {
        ok = fault_set(f, FAULT_REFUSED, "\"exchange\" must be a text");
    }
    ok = ok && exec_as(c, &sql_outbox_act, params, 5, &rows, f);
    if (ok) {
        buf_put_char(&c->answer->body, '{');
        json_put_raw(&c->answer->body, "n", rows_text(rows, 0, 0));
        buf_put_char(&c->answer->body, '}');
        rows_free(rows);
    }
    buf_clear(&ids);
    return ok;
}

bool change_outbox_retry(struct call *c, struct fault *f)
{
    return act(c, "retry", f);
}

bool change_outbox_delete(struct call *c, struct fault *f)
{
    return act(c, "delete", f);
}
