#include "ui/ui.h"

#include "core/base/log.h"
#include "ui/api.h"
#include "ui/gate.h"
#include "ui/page.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void put_text(struct http_answer *a, int status, const char *text)
{
    a->status = status;
    a->type = "text/plain; charset=utf-8";
    buf_printf(&a->body, "%s\n", text);
}

/* A browser asks for the password before it shows the page, and then sends it with each request. */
static bool may_see(const struct ui *ui, const struct http_request *r, struct fault *f)
{
    struct who who;
    return !auth_has_passwords(ui->auth) || strncmp(r->path, "/static/", 8) == 0 ||
           auth_knows(ui->auth, r, &who, f);
}

static void answer_page(const struct ui *ui, const struct http_request *r, struct http_answer *a)
{
    struct fault f = {.code = FAULT_NONE};
    if (!may_see(ui, r, &f)) {
        auth_challenge(ui->auth, &f, a);
        put_text(a, a->status, f.code == FAULT_NONE ? "log in first" : f.text);
    } else if (!page_answer(r, a)) {
        put_text(a, 404, "there is no such page");
    }
}

/* For programs that start and replace processes: nobody logs in, and nothing else is told. */
static void answer_health(struct ui *ui, struct http_answer *a)
{
    bool well = pool_answers(ui->pool);
    http_answer_header(a, "Cache-Control", "no-store");
    put_text(a, well ? 200 : 503, well ? "the database answers" : "the database does not answer");
}

static void on_request(void *owner, const struct http_request *r, struct http_answer *a)
{
    struct ui *ui = owner;
    struct fault f = {.code = FAULT_NONE};
    bool reads = strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
    gate_headers(a);
    if (!gate_request(ui->options, r, &f)) {
        http_answer_header(a, "Connection", "close");
        put_text(a, 400, f.text);
    } else if (!gate_host(ui->options, r, &f)) {
        put_text(a, 421, f.text);
    } else if (strncmp(r->path, "/api/", 5) == 0) {
        api_answer(ui, r, a);
    } else if (reads && strcmp(r->path, "/healthz") == 0) {
        answer_health(ui, a);
    } else if (reads) {
        answer_page(ui, r, a);
    } else {
        put_text(a, 404, "there is no such page");
    }
}

/* A user of another machine must be known by something that somebody has chosen; and threads of
 * requests get no signals. */
static bool ui_open(struct ui *ui, struct fault *f)
{
    const struct options *o = ui->options;
    bool chosen = option_text(o, OPTION_TOKEN_FILE) || option_text(o, OPTION_PASSWORD_FILE) ||
                  option_text(o, OPTION_USER_HEADER);
    if (!http_listen(option_text(o, OPTION_LISTEN), &ui->http, f)) {
        return false;
    }
    if (!http_is_loopback(ui->http) && !chosen) {
        return fault_set(f, FAULT_CONFIG,
                         "other machines can reach the page at %s: this needs --password-file, "
                         "--token-file or --user-header",
                         http_where(ui->http));
    }
    return auth_open(o, &ui->auth, f) &&
           pool_open(option_text(o, OPTION_DATABASE_URL), &ui->pool, f) &&
           http_serve(ui->http, on_request, ui, f);
}

/* The address goes to the user who started it; a token must not appear in a log. */
static void tell_address(const struct ui *ui)
{
    const char *token = auth_made_token(ui->auth);
    (void)printf("http://%s/%s%s\n", http_where(ui->http), token ? "#token=" : "",
                 token ? token : "");
    (void)fflush(stdout);
    log_event(LOG_INFO, LOG_EVENT("ui_ready"), LOG_TEXT("listen", http_where(ui->http)),
              LOG_TEXT("database", pool_where(ui->pool)),
              LOG_TEXT("insecure", http_is_loopback(ui->http) ? NULL : "HTTP not encrypted"));
}

static void wait_for_stop(const sigset_t *signals)
{
    int signal;
    while (sigwait(signals, &signal) != 0) {
    }
}

int ui_main(const struct options *o)
{
    struct ui ui = {.options = o, .findings = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    struct fault f = {.code = FAULT_NONE};
    sigset_t signals;
    buf_init(&ui.findings.json, UI_FINDINGS_BYTES_MAX);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    if (ui_open(&ui, &f)) {
        tell_address(&ui);
        wait_for_stop(&signals);
        log_event(LOG_INFO, LOG_EVENT("ui_stopped"));
    } else {
        log_fault(LOG_ERROR, "ui_failed", &f);
    }
    http_close(ui.http);
    pool_close(ui.pool);
    buf_clear(&ui.findings.json);
    auth_close(ui.auth);
    return fault_exit_code(&f);
}
