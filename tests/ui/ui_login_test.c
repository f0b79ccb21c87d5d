/* label: e2e */
/* timeout: 120 */
/* only: all */
/* How a person logs in to the page of `tenon ui`, in a real Chromium: tests/browser/login.py. */
#include "tests/support/web.h"

#include <stdio.h>
#include <unistd.h>

enum { LIMIT_MS = 60000 };

/* ann: secret. As "openssl passwd -6" makes it. */
static const char passwords[] =
    "ann:$6$tenontest$4XBunPmlnlAonrGYySHEN5P0eirZcKWKFa6l.0hwcgm67JiJgryrK1a1eAZQbG9R95785k1NYbZe"
    "h40o2dGgQ0\n";

static bool there_is_a_browser(void)
{
    bool there = access("/usr/bin/chromium", X_OK) == 0 &&
                 access("/usr/bin/chromedriver", X_OK) == 0 &&
                 access("/usr/lib/python3/dist-packages/selenium", R_OK) == 0;
    if (!there) {
        print_message(
            "skipped: there is no browser; script/bootstrap --with-browser installs it\n");
    }
    return there || getenv("TEST_NO_SKIP");
}

static void log_in(struct fixture *fx, const char *url, const char *token)
{
    char script[300], profile[300], home[320];
    (void)snprintf(script, sizeof script, "%s/tests/browser/login.py", repository);
    (void)snprintf(profile, sizeof profile, "%s/profile", fx->dir);
    (void)snprintf(home, sizeof home, "HOME=%s", fx->dir);
    const char *const args[] = {"/usr/bin/python3", script, url, profile, token, NULL};
    struct process *p = process_spawn(fx, args, (const char *const[]){home, NULL});
    int code = process_wait(p, LIMIT_MS);
    char *log = file_text(p->log);
    if (code != 0) {
        (void)fputs(log, stderr);
        fail_msg("login.py ended with %d", code);
    }
    free(log);
}

static void test_with_a_password(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char path[300], url[128];
    if (!there_is_a_browser()) {
        return;
    }
    (void)snprintf(path, sizeof path, "%s/passwords", fx->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(passwords, file) >= 0);
    assert_int_equal(fclose(file), 0);
    test_sql(fx, "SELECT tenon.enqueue('a', queue => 'mail')");
    WEB_OPEN(fx, &w, "--password-file", path);
    (void)snprintf(url, sizeof url, "http://ann:secret@127.0.0.1:%d/", w.port);
    log_in(fx, url, NULL);
    assert_true(test_sql_bool(fx, "SELECT what ->> 'web_user' = 'ann' FROM tenon.audit"));
    web_close(&w);
}

static void test_with_a_token(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char url[128];
    if (!there_is_a_browser()) {
        return;
    }
    test_sql(fx, "SELECT tenon.enqueue('a', queue => 'mail')");
    WEB_OPEN(fx, &w, NULL);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/", w.port);
    log_in(fx, url, w.token);
    assert_int_equal(process_lines(w.process, "event=ui_login_failed"), 1);
    web_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_with_a_password),
        WITH_DATABASE(test_with_a_token),
    };
    return RUN_GROUP(tests);
}
