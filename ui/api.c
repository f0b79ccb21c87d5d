#include "ui/api.h"

#include "cli/tasks/filter.h"
#include "core/base/log.h"
#include "core/db/sqlstate.h"
#include "ui/gate.h"

#include <string.h>

enum needs { READER, OPERATOR };

static api_call describe;

static const struct route {
    const char *method, *path; /* one that ends with / is followed by a parameter */
    enum needs needs;
    api_call *run;
} routes[] = {
    {"GET", "/api/openapi.json", READER, describe},
    {"GET", "/api/session", READER, read_session},
    {"GET", "/api/overview", READER, read_overview},
    {"GET", "/api/doctor", READER, read_doctor},
    {"GET", "/api/rates", READER, read_rates},
    {"GET", "/api/load", READER, read_load},
    {"GET", "/api/kinds", READER, read_kinds},
    {"GET", "/api/names", READER, read_names},
    {"GET", "/api/tasks", READER, read_tasks},
    {"GET", "/api/tasks/", READER, read_task},
    {"GET", "/api/dead", READER, read_dead},
    {"GET", "/api/flows", READER, read_flows},
    {"GET", "/api/flows/", READER, read_flow},
    {"GET", "/api/limits", READER, read_limits},
    {"GET", "/api/schedules", READER, read_schedules},
    {"GET", "/api/workers", READER, read_workers},
    {"GET", "/api/audit", READER, read_audit},
    {"GET", "/api/outbox", READER, read_outbox},
    {"POST", "/api/preview", READER, change_preview},
    {"POST", "/api/act", OPERATOR, change_act},
    {"POST", "/api/pause", OPERATOR, change_pause},
    {"POST", "/api/resume", OPERATOR, change_resume},
    {"POST", "/api/drain", OPERATOR, change_drain},
    {"POST", "/api/schedule", OPERATOR, change_schedule},
    {"POST", "/api/flow", OPERATOR, change_flow},
    {"POST", "/api/limit", OPERATOR, change_limit},
    {"POST", "/api/outbox/retry", OPERATOR, change_outbox_retry},
    {"POST", "/api/outbox/delete", OPERATOR, change_outbox_delete},
};
enum { ROUTES = sizeof routes / sizeof *routes };

void json_put_raw(struct buf *b, const char *key, const char *json)
{
    json_put_key(b, key);
    buf_put_text(b, json ? json : "null");
}

void json_put_string(struct buf *b, const char *key, const char *text)
{
    json_put_key(b, key);
    buf_put_json_or_null(b, text);
}

static bool describe(struct call *c, struct fault *f)
{
    (void)f;
    buf_put_text(&c->answer->body, api_description);
    return true;
}

/* --- faults --------------------------------------------------------------------------------- */

static int status_of(const struct fault *f)
{
    switch (f->code) {
    case FAULT_REFUSED:
    case FAULT_ROW:
        return 400;
    case FAULT_ABSENT:
        return 404;
    case FAULT_AGAIN:
        return 409;
    case FAULT_CONFIG:
        return sqlstate_is(f->sqlstate, "42501") ? 403 : 503;
    case FAULT_RETRY:
    case FAULT_SCHEMA:
        return 503;
    case FAULT_NONE:
    case FAULT_BUG:
    case FAULT_MEMORY:
    default:
        return 500;
    }
}

static void put_error(struct http_answer *a, int status, const char *text)
{
    buf_empty(&a->body);
    a->status = status;
    buf_put_char(&a->body, '{');
    json_put_string(&a->body, "error", text);
    buf_put_char(&a->body, '}');
}

static const char *json_bool(bool value)
{
    return value ? "true" : "false";
}

/* The page must know which means there are. */
static void put_unknown(const struct ui *ui, const struct fault *f, struct http_answer *a)
{
    auth_challenge(ui->auth, f, a);
    buf_put_char(&a->body, '{');
    json_put_string(&a->body, "error", f->code == FAULT_NONE ? "log in first" : f->text);
    json_put_key(&a->body, "login");
    buf_printf(&a->body, "{\"token\": %s, \"password\": %s, \"proxy\": %s}}",
               json_bool(auth_has_token(ui->auth)), json_bool(auth_has_passwords(ui->auth)),
               json_bool(auth_has_proxy(ui->auth)));
}

/* --- requests ------------------------------------------------------------------------------- */

static bool route_fits(const struct route *route, const struct http_request *r, const char **rest)
{
    size_t n = strlen(route->path);
    bool open = route->path[n - 1] == '/';
    *rest = r->path + n;
    return (strcmp(r->method, route->method) == 0 ||
            (strcmp(r->method, "HEAD") == 0 && strcmp(route->method, "GET") == 0)) &&
           strncmp(r->path, route->path, n) == 0 && (open ? r->path[n] != 0 : r->path[n] == 0);
}

static const struct route *route_of(const struct http_request *r, const char **rest)
{
    for (size_t i = 0; i < ROUTES; i++) {
        if (route_fits(&routes[i], r, rest)) {
            return &routes[i];
        }
    }
    return NULL;
}

/* A POST has an object, of no great depth, and says that it is JSON. */
static bool body_read(const struct http_request *r, json_t **ret, struct fault *f)
{
    json_error_t error;
    const char *type = http_header(r, "Content-Type");
    if (!type || strncmp(type, "application/json", 16) != 0) {
        return fault_set(f, FAULT_REFUSED, "the body must have the type application/json");
    }
    *ret = json_loads(r->body, JSON_REJECT_DUPLICATES, &error);
    if (!*ret || !json_is_object(*ret)) {
        return fault_set(f, FAULT_REFUSED, "the body is not a JSON object%s%s", *ret ? "" : ": ",
                         *ret ? "" : error.text);
    }
    return true;
}

static void run_route(const struct route *route, struct call *c)
{
    struct fault f = {.code = FAULT_NONE};
    json_t *body = NULL;
    bool is_post = strcmp(route->method, "POST") == 0;
    bool ok = !is_post || body_read(c->request, &body, &f);
    c->body = body;
    c->answer->status = 200;
    if (!ok || !route->run(c, &f)) {
        put_error(c->answer, status_of(&f), f.text);
        if (c->answer->status >= 500) {
            log_fault(LOG_WARNING, "ui_request_failed", &f);
        }
    }
    json_decref(body);
}

void api_answer(struct ui *ui, const struct http_request *r, struct http_answer *a)
{
    struct fault f = {.code = FAULT_NONE};
    struct call c = {.ui = ui, .request = r, .answer = a};
    const struct route *route = route_of(r, &c.rest);
    a->type = "application/json";
    http_answer_header(a, "Cache-Control", "no-store");
    if (!route) {
        put_error(a, 404, "there is no such path, or it does not take this method");
    } else if (!gate_origin(r, strcmp(route->method, "POST") == 0, &f)) {
        put_error(a, 403, f.text);
    } else if (!auth_knows(ui->auth, r, &c.who, &f)) {
        put_unknown(ui, &f, a);
    } else if (route->needs == OPERATOR &&
               (c.who.read_only || option_flag(ui->options, OPTION_READ_ONLY))) {
        put_error(a, 403, c.who.read_only ? "you have read-only access" : "this page is read-only");
    } else {
        run_route(route, &c);
    }
}
