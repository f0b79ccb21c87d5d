/* label: e2e */
/* timeout: 240 */
/* only: all */
/* Encrypted tasks of the clients for Python and Node: a dump of the database, the logs and the page
 * have ciphertext, and nothing else. */
#include "tests/support/clients.h"
#include "tests/support/web.h"
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>

/* A part of the card's number that no base64 has, as there is a space in it. */
static const char plain[] = "1111 1111";

static void assert_hidden(const char *where, const char *text)
{
    const char *at = strstr(text, plain);
    if (at) {
        fail_msg("%s shows \"%.80s\"", where, at - 20 > text ? at - 20 : text);
    }
}

static void assert_hidden_in_output(const char *where, const struct process *p)
{
    char *out = file_text(p->out), *log = file_text(p->log);
    assert_hidden(where, out);
    assert_hidden(where, log);
    free(out);
    free(log);
}

/* A shell's words, which must end well. */
static struct process *shell(struct fixture *fx, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    int status = process_wait(p, LIMIT_MS);
    if (status != 0) {
        fail_msg("%s: exit code %d: %s", script, status, file_text(p->log));
    }
    return p;
}

static void run_worker(struct fixture *fx, const char *command)
{
    char url[600], handler_url[600], handler[1000];
    (void)snprintf(url, sizeof url, "TENON_DATABASE_URL=%s", fx->database_url);
    (void)snprintf(handler_url, sizeof handler_url, "DATABASE_URL=%s", fx->database_url);
    (void)snprintf(handler, sizeof handler, "charge=pool:%s", command);
    const char *const args[] = {"worker",    "--until-empty", "--slots", "1",
                                "--handler", handler,         NULL};
    const char *const env[] = {url, handler_url, "SECRET_CHILD=1", NULL};
    struct process *p = tenon_spawn(fx, args, env);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    if (process_lines(p, "event=task_") == 0) {
        fail_msg("it said nothing of its tasks: %s", file_text(p->log));
    }
    assert_hidden_in_output("the worker's log", p);
}

static void check_dump(struct fixture *fx)
{
    struct process *p = shell(fx, "exec \"$TENON_PGBIN/pg_dump\" \"$DATABASE_URL\"");
    char *dump = file_text(p->out);
    assert_contains(dump, "{\"tenon:secret\": {");
    assert_contains(dump, "Secret, but said on purpose");
    assert_hidden("the dump", dump);
    free(dump);
}

/* Returns what the API of the page answers, free(). */
static char *asked(const struct web *w, const char *path)
{
    json_t *answer = web_get(w, 200, path);
    char *text = json_dumps(answer, 0);
    assert_hidden(path, text);
    json_decref(answer);
    return text;
}

static void check_page(struct fixture *fx)
{
    static const char *const paths[] = {"/api/overview", "/api/tasks", "/api/dead", "/api/workers",
                                        "/api/audit"};
    struct web w;
    WEB_OPEN(fx, &w, "--read-only");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        free(asked(&w, paths[i]));
    }
    int64_t n = test_sql_int(fx, "SELECT max(id) FROM tenon.tasks");
    for (int64_t id = 1; id <= n; id++) {
        char path[100];
        (void)snprintf(path, sizeof path, "/api/tasks/%lld", (long long)id);
        char *text = asked(&w, path);
        assert_contains(text, "tenon:secret");
        free(text);
    }
    struct process *page = w.process;
    web_close(&w);
    assert_hidden_in_output("the page's log", page);
}

/* One that is done, and those that failed, each in its way. */
static void check(struct fixture *fx)
{
    assert_true(test_sql_bool(fx, "SELECT count(*) FILTER (WHERE state = 'done') > 0"
                                  " AND count(*) FILTER (WHERE state = 'dead') >= 4"
                                  " FROM tenon.tasks"));
    check_dump(fx);
    check_page(fx);
    struct process *cleaner = TENON(fx, "cleaner", "--once");
    assert_int_equal(process_wait(cleaner, LIMIT_MS), 0);
    assert_hidden_in_output("the cleaner's log", cleaner);
}

static void test_python(void **state)
{
    struct fixture *fx = *state;
    char env[256], command[1000];
    clients_environment(fx, "script/python-env", env, sizeof env);
    (void)snprintf(command, sizeof command,
                   "cd '%s/clients/python/tests' && exec '%s/bin/python' -B -c \"\n"
                   "import os, psycopg\n"
                   "from secret_app import Card, charge\n"
                   "conn = psycopg.connect(os.environ['DATABASE_URL'], autocommit=True)\n"
                   "for fails in None, 'raises', 'says', 'retries', 'result', 'misfit':\n"
                   "    charge.enqueue(conn, Card(number='4111 1111 1111 1111', fails=fails))\n\"",
                   repository, env);
    (void)shell(fx, command);
    (void)snprintf(command, sizeof command,
                   "cd '%s/clients/python/tests' && exec '%s/bin/python' -B -m tenon"
                   " secret_app:secret",
                   repository, env);
    run_worker(fx, command);
    check(fx);
}

static void test_node(void **state)
{
    struct fixture *fx = *state;
    char env[256], command[1000];
    clients_environment(fx, "script/node-env", env, sizeof env);
    (void)snprintf(command, sizeof command,
                   "cd '%s/tests' && exec node --input-type=module -e \"\n"
                   "import pg from 'pg';\n"
                   "import { enqueue } from 'tenon-tasks';\n"
                   "import { charge } from './secrets.fixture.js';\n"
                   "const db = new pg.Client({ connectionString: process.env.DATABASE_URL });\n"
                   "await db.connect();\n"
                   "for (const fails of [null, 'raises', 'says', 'retries', 'result', 'misfit'])\n"
                   "    await enqueue(db, charge, { number: '4111 1111 1111 1111', fails });\n"
                   "await db.end();\"",
                   env);
    (void)shell(fx, command);
    (void)snprintf(command, sizeof command,
                   "cd '%s' && exec node node_modules/tenon-tasks/bin/tenon-node.js"
                   " ./tests/secrets.fixture.js",
                   env);
    run_worker(fx, command);
    check(fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_DATABASE(test_python), WITH_DATABASE(test_node)};
    return RUN_GROUP(tests);
}
