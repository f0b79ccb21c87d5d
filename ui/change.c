/* What the page does: the SQL functions of the commands. The audit names the user who logged in. */
#include "ui/api.h"

#include "cli/statements.h"
#include "cli/tasks/filter.h"
#include "ui/statements.h"

#include <stdlib.h>
#include <string.h>

/* One transaction's work: the page asks again, tells how far it is, and can be stopped. */
#define PIECE_TASKS "1000"
enum { PIECE_TASKS_MAX = 10000 };

/* For how long a piece of a preview reads. */
#define PREVIEW_MS "25"

/* What a request may have said; the texts are borrowed from its body, the JSON is ours. */
struct wanted {
    const char *act, *why, *queue, *kind, *name, *worker;
    char *filter, *changes;
    char cursor[24], audit[24], flow[24], most[24];
};

/* --- what is asked for ---------------------------------------------------------------------- */

static const char *text_of(const json_t *body, const char *key)
{
    const char *text = json_string_value(json_object_get(body, key));
    return text && *text ? text : NULL;
}

/* "" = it is not there, or null */
static void number_of(const json_t *body, const char *key, char text[24])
{
    const json_t *value = json_object_get(body, key);
    *text = '\0';
    if (json_is_integer(value)) {
        (void)snprintf(text, 24, "%lld", (long long)json_integer_value(value));
    }
}

static bool object_of(const json_t *body, const char *key, char **ret, struct fault *f)
{
    const json_t *value = json_object_get(body, key);
    if (!value || json_is_null(value)) {
        return true;
    }
    if (!json_is_object(value)) {
        return fault_set(f, FAULT_REFUSED, "\"%s\" must be an object", key);
    }
    *ret = json_dumps(value, JSON_COMPACT);
    return *ret || fault_memory(f);
}

static bool wanted_read(struct wanted *w, const json_t *body, struct fault *f)
{
    *w = (struct wanted){.act = text_of(body, "act"),
                         .why = text_of(body, "why"),
                         .queue = text_of(body, "queue"),
                         .kind = text_of(body, "kind"),
                         .name = text_of(body, "name"),
                         .worker = text_of(body, "worker")};
    number_of(body, "cursor", w->cursor);
    number_of(body, "audit", w->audit);
    number_of(body, "flow", w->flow);
    number_of(body, "most", w->most);
    return object_of(body, "filter", &w->filter, f) && object_of(body, "changes", &w->changes, f);
}

static void wanted_clear(struct wanted *w)
{
    free(w->filter);
    free(w->changes);
}

/* --- what is done --------------------------------------------------------------------------- */

bool exec_as(struct call *c, const struct statement *statement, const char *const *params, int n,
             struct rows **ret, struct fault *f)
{
    const char *const user[] = {*c->who.user ? c->who.user : NULL};
    struct db_call calls[] = {{.statement = &sql_name_user, .params = user, .n_params = 1},
                              {.statement = statement, .params = params, .n_params = n}};
    if (!pool_run(c->ui->pool, calls, 2, false, f)) {
        return false;
    }
    rows_free(calls[0].rows);
    *ret = calls[1].rows;
    findings_forget(&c->ui->findings);
    return true;
}

static void put_example(struct buf *b, const struct rows *r, size_t i, bool first)
{
    enum { ID = 2, STATE = 4, KIND, QUEUE, ERROR };
    buf_printf(b, "%s\n{", first ? "" : ",");
    json_put_raw(b, "id", rows_text(r, i, ID));
    json_put_string(b, "state", rows_text(r, i, STATE));
    json_put_string(b, "kind", rows_text(r, i, KIND));
    json_put_string(b, "queue", rows_text(r, i, QUEUE));
    json_put_string(b, "error", rows_text(r, i, ERROR));
    buf_put_char(b, '}');
}

static void put_preview(struct buf *b, const struct rows *r)
{
    enum { N, NEXT, FITS = 3 };
    bool first = true;
    buf_put_char(b, '{');
    json_put_raw(b, "n", rows_text(r, 0, N));
    json_put_raw(b, "next", rows_text(r, 0, NEXT));
    json_put_key(b, "examples");
    buf_put_char(b, '[');
    for (size_t i = 0; i < rows_count(r); i++) {
        if (rows_bool(r, i, FITS)) {
            put_example(b, r, i, first);
            first = false;
        }
    }
    buf_put_text(b, "]}");
}

bool change_preview(struct call *c, struct fault *f)
{
    struct wanted w;
    struct rows *rows = NULL;
    bool ok = wanted_read(&w, c->body, f);
    const char *const params[] = {w.filter ? w.filter : "{}", w.act ? w.act : "", "{}",
                                  *w.cursor ? w.cursor : NULL, PREVIEW_MS};
    struct db_call call = {.statement = &sql_act_preview, .params = params, .n_params = 5};
    ok = ok && pool_run(c->ui->pool, &call, 1, true, f);
    rows = call.rows;
    wanted_clear(&w);
    if (ok) {
        put_preview(&c->answer->body, rows);
        rows_free(rows);
    }
    return ok;
}

static void put_piece(struct buf *b, const struct rows *r)
{
    static const char *const keys[] = {"n", "skipped", "next", "audit"};
    buf_put_char(b, '{');
    for (int i = 0; i < 4; i++) {
        json_put_raw(b, keys[i], rows_text(r, 0, i));
    }
    buf_put_char(b, '}');
}

/* A page that retries with a rate asks for as many as one second allows. */
static const char *piece_of(const struct wanted *w)
{
    long long n = *w->most ? strtoll(w->most, NULL, 10) : 0;
    return n >= 1 && n <= PIECE_TASKS_MAX ? w->most : PIECE_TASKS;
}

bool change_act(struct call *c, struct fault *f)
{
    struct wanted w;
    struct rows *rows = NULL;
    bool ok = wanted_read(&w, c->body, f);
    const char *const params[] = {w.act ? w.act : "",
                                  w.filter ? w.filter : "{}",
                                  w.changes,
                                  piece_of(&w),
                                  *w.cursor ? w.cursor : NULL,
                                  w.why,
                                  *w.audit ? w.audit : NULL};
    ok = ok && exec_as(c, &sql_act_change, params, 7, &rows, f);
    wanted_clear(&w);
    if (ok) {
        put_piece(&c->answer->body, rows);
        rows_free(rows);
    }
    return ok;
}

static bool change_target(struct call *c, const struct statement *statement, struct fault *f)
{
    struct wanted w;
    struct rows *rows = NULL;
    bool everything = json_is_true(json_object_get(c->body, "everything"));
    bool ok = wanted_read(&w, c->body, f);
    const char *const params[] = {w.queue, w.kind, everything ? "true" : "false", w.why};
    ok = ok && exec_as(c, statement, params, 4, &rows, f);
    rows_free(rows);
    wanted_clear(&w);
    if (ok) {
        buf_put_text(&c->answer->body, "{\"ok\": true}");
    }
    return ok;
}

bool change_pause(struct call *c, struct fault *f)
{
    return change_target(c, &sql_pause, f);
}

bool change_resume(struct call *c, struct fault *f)
{
    return change_target(c, &sql_pause_resume, f);
}

bool change_drain(struct call *c, struct fault *f)
{
    struct wanted w;
    struct rows *rows = NULL;
    bool ok = wanted_read(&w, c->body, f);
    const char *const params[] = {w.worker, w.why};
    ok = ok && (w.worker || fault_set(f, FAULT_REFUSED, "\"worker\" must be a worker's id")) &&
         exec_as(c, &sql_drain, params, 2, &rows, f);
    if (ok && !rows_bool(rows, 0, 0)) {
        ok = fault_set(f, FAULT_ABSENT, "the worker %.36s is not alive, or drains already",
                       w.worker);
    } else if (ok) {
        buf_put_text(&c->answer->body, "{\"ok\": true}");
    }
    rows_free(rows);
    wanted_clear(&w);
    return ok;
}

/* Is the act one of these, separated by spaces? */
static bool act_check(const struct wanted *w, const char *allowed, struct fault *f)
{
    size_t n = w->act ? strlen(w->act) : 0;
    for (const char *at = allowed; n > 0 && *at; at += strspn(at, " ")) {
        size_t bytes = strcspn(at, " ");
        if (bytes == n && memcmp(at, w->act, n) == 0) {
            return true;
        }
        at += bytes;
    }
    return fault_set(f, FAULT_REFUSED, "\"act\" must be one of %s", allowed);
}

/* `set`: what the changes are, as one statement and its parameters. */
static bool exec_set(struct call *c, const struct statement *statement, const struct wanted *w,
                     struct rows **ret, struct fault *f)
{
    const char *const params[] = {w->name ? w->name : "", w->changes ? w->changes : "{}"};
    return exec_as(c, statement, params, 2, ret, f);
}

bool change_schedule(struct call *c, struct fault *f)
{
    struct wanted w;
    struct rows *rows = NULL;
    bool ok = wanted_read(&w, c->body, f) && act_check(&w, "pause resume run-now remove set", f);
    bool sets = ok && strcmp(w.act, "set") == 0;
    const char *const params[] = {w.act ? w.act : "", w.name, w.why};
    ok = ok && (sets ? exec_set(c, &sql_schedule_change, &w, &rows, f)
                     : exec_as(c, &sql_schedule_act, params, 3, &rows, f));
    if (ok && sets && rows_count(rows) > 0) {
        buf_put_text(&c->answer->body, rows_text(rows, 0, 0));
    } else if (ok && (sets || rows_is_null(rows, 0, 0))) {
        ok = fault_set(f, FAULT_ABSENT, "there is no schedule %.100s", w.name ? w.name : "");
    } else if (ok) {
        buf_put_text(&c->answer->body, rows_text(rows, 0, 1));
    }
    rows_free(rows);
    wanted_clear(&w);
    return ok;
}

bool change_flow(struct call *c, struct fault *f)
{
    struct wanted w;
    struct rows *rows = NULL;
    bool ok = wanted_read(&w, c->body, f) && act_check(&w, "cancel close", f);
    const char *const params[] = {*w.flow ? w.flow : "0"};
    bool closes = ok && strcmp(w.act, "close") == 0;
    ok = ok && exec_as(c, closes ? &sql_flow_close : &sql_flow_cancel, params, 1, &rows, f);
    if (ok) {
        buf_put_text(&c->answer->body, rows_text(rows, 0, 1));
    } else if (strcmp(f->sqlstate, "22023") == 0) { /* of tenon.hold_flow */
        fault_clear(f);
        (void)fault_set(f, FAULT_ABSENT, "there is no flow %s", params[0]);
    }
    rows_free(rows);
    wanted_clear(&w);
    return ok;
}

bool change_limit(struct call *c, struct fault *f)
{
    struct wanted w;
    struct rows *rows = NULL;
    bool ok = wanted_read(&w, c->body, f) && act_check(&w, "pause resume remove set", f);
    bool sets = ok && strcmp(w.act, "set") == 0;
    const char *const params[] = {w.act ? w.act : "", w.name ? w.name : "", w.why};
    ok = ok && (sets ? exec_set(c, &sql_limit_change, &w, &rows, f)
                     : exec_as(c, &sql_limit_act, params, 3, &rows, f));
    if (ok && sets) {
        buf_put_text(&c->answer->body, rows_text(rows, 0, 0));
    } else if (ok && rows_is_null(rows, 0, 0)) {
        ok = fault_set(f, FAULT_ABSENT,
                       strcmp(w.act, "resume") == 0 ? "the limit %.100s is not paused"
                                                    : "there is no limit %.100s",
                       params[1]);
    } else if (ok) {
        buf_put_text(&c->answer->body, rows_text(rows, 0, 1));
    }
    rows_free(rows);
    wanted_clear(&w);
    return ok;
}
