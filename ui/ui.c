#include "ui/ui.h"

#include "core/base/log.h"
#include "ui/api.h"
#include "ui/gate.h"
#include "ui/page.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void on_request(void *owner, const struct http_request *r, struct http_answer *a)
{
    struct ui *ui = owner;
    struct fault f = {.code = FAULT_NONE};
    bool reads = strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
    gate_headers(a);
    if (!gate_host(ui->options, r, &f)) {
        a->status = 421;
        a->type = "text/plain; charset=utf-8";
        buf_printf(&a->body, "%s\n", f.text);
    } else if (strncmp(r->path, "/api/", 5) == 0) {
        api_answer(ui, r, a);
    } else if (!reads || !page_answer(r, a)) {
        a->status = 404;
        a->type = "text/plain; charset=utf-8";
        buf_put_text(&a->body, "there is no such page\n");
    }
}

/* A user of another machine must know a secret that somebody has chosen; and threads of
 * requests get no signals. */
static bool ui_open(struct ui *ui, struct fault *f)
{
    const struct options *o = ui->options;
    bool secret = option_text(o, OPTION_TOKEN_FILE) || option_text(o, OPTION_PASSWORD_FILE);
    if (!http_listen(option_text(o, OPTION_LISTEN), &ui->http, f)) {
        return false;
    }
    if (!http_is_loopback(ui->http) && !secret) {
        return fault_set(f, FAULT_CONFIG,
                         "other machines can reach the page at %s: this needs --password-file or "
                         "--token-file",
                         http_where(ui->http));
    }
    return auth_open(o, http_port(ui->http), &ui->auth, f) &&
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
    struct ui ui = {.options = o};
    struct fault f = {.code = FAULT_NONE};
    sigset_t signals;
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
    auth_close(ui.auth);
    return fault_exit_code(&f);
}
