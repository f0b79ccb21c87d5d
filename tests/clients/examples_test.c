/* label: e2e */
/* only: all */
/* The examples do what they say. (The one in JavaScript: clients_node_test.)
 * */
#include "tests/support/process.h"
#include "tests/support/producer.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Run a shell's words with $EXAMPLES (the sources) and $BUILT (the programs); its stdout, free().
 * */
static char *shell(struct fixture *fx, int code, const char *script)
{
    char source[400], built[400], self[300], maildir[400];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    for (int up = 0; up < 2; up++) {
        *strrchr(self, '/') = '\0';
    }
    (void)snprintf(source, sizeof source, "EXAMPLES=%s/examples", repository);
    (void)snprintf(built, sizeof built, "BUILT=%s/examples", self);
    (void)snprintf(maildir, sizeof maildir, "MAILDIR=%s/mail", fx->dir);
    const char *const argv[] = {"sh", "-c", "IFS=; eval \"$0\"", script,
                                NULL}; /* blanks in paths */
    const char *const env[] = {source, built, maildir, NULL};
    struct process *p = process_spawn(fx, argv, env);
    int status = process_wait(p, LIMIT_MS);
    if (status != code) {
        char *log = file_text(p->log);
        fail_msg("%s: exit code %d: %s", script, status, log);
    }
    return file_text(p->out);
}

static void test_producers(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    broker_spy(b, "default/welcome_mail", "default/welcome_mail");
    free(shell(fx, 0, "$BUILT/producer ann@example.org"));
    free(shell(fx, 1, "$BUILT/producer ann@example.org")); /* is there already: no second task */
    assert_int_equal(broker_depth(b, "default/welcome_mail"), 1);
    free(shell(fx, 0, "$EXAMPLES/producer.py bob@example.org"));
    assert_int_equal(broker_depth(b, "default/welcome_mail"), 1); /* left to the cleaner */
    free(shell(fx, 0, "$EXAMPLES/producer_publish.py eve@example.org joe@example.org"));
    assert_int_equal(broker_depth(b, "default/welcome_mail"), 3);
    free(
        shell(fx, 0, "AMQP_URL=amqp://127.0.0.1:1/ $EXAMPLES/producer_publish.py zoe@example.org"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM users"), 5);
    assert_int_equal(tasks(fx), 5);
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.task t JOIN users u"
                                  " ON t.payload->>'to' = u.mail WHERE t.kind = 'welcome_mail'"),
                     5);
    broker_close(b);
}

static void test_psql(void **state)
{
    struct fixture *fx = *state;
    char *out = shell(fx, 0,
                      "psql -X -v ON_ERROR_STOP=1 -AF ' ' -f $EXAMPLES/psql.sql \"$DATABASE_URL\"");
    assert_contains(out,
                    "ready welcome_mail {\"to\": \"nobody@example.org\"}\n(1 row)\nROLLBACK\n");
    assert_contains(out, "state kind count\nready login_code 1\nready thumbnail 100\n"
                         "ready welcome_mail 1\nscheduled index_customer 1\nscheduled report 1\n");
    free(out);
    assert_true(test_sql_bool(
        fx, "SELECT bool_and(CASE kind"
            " WHEN 'report' THEN payload = '{\"month\": \"2026-01\", \"format\": \"pdf\"}'"
            " WHEN 'index_customer' THEN run_at BETWEEN now() AND now() + interval '6 s'"
            " WHEN 'login_code' THEN start_before BETWEEN now() + interval '14 min' AND now() +"
            " interval '15 min' AND retry = 'exponential(2 s, 1 min, 20 %%)' ELSE true END)"
            " FROM tenon.task"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE kind = 'thumbnail'"),
                     100);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE kind = 'report'"), 1);
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.task WHERE kind = 'welcome_mail'"),
                     1);
    free(shell(fx, 0,
               "cd $EXAMPLES/.. && AMQP_URL=none $BUILT/../tenon worker --slots 2 --until-empty"
               " --handlers examples/handlers.conf"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history WHERE outcome = 'done'"),
                     101);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 0);
}

/* As docs/operations.md says. */
static void test_dead_tasks_again(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('send_mail', '{\"n\": 1}', priority => 7)");
    free(shell(fx, 0,
               "AMQP_URL=none $BUILT/../tenon worker --until-empty --handler 'send_mail=exit 65'"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 1);
    for (int i = 0; i < 2; i++) {
        free(shell(fx, 0,
                   "sed -n '/^SELECT tenon.retry_where(/p'"
                   " $EXAMPLES/../docs/operations.md |"
                   " psql -X -v ON_ERROR_STOP=1 \"$DATABASE_URL\""));
    }
    assert_int_equal(tasks(fx), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT priority FROM tenon.task"), 7);
}

/* Each death is told once, by mail or in a chat. */
static void test_on_dead(void **state)
{
    static const char server[] =
        "import http.server, os, sys\n"
        "class Post(http.server.BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        body = self.rfile.read(int(self.headers['Content-Length']))\n"
        "        open(sys.argv[1] + '/chat', 'ab').write(body + b'\\n')\n"
        "        self.send_response(200); self.end_headers()\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Post)\n"
        "open(sys.argv[1] + '/port.new', 'w').write(str(server.server_port))\n"
        "os.rename(sys.argv[1] + '/port.new', sys.argv[1] + '/port')\n"
        "server.handle_request()\n";
    struct fixture *fx = *state;
    char command[2048];
    test_sql(fx, "UPDATE tenon.setting SET on_dead = 'task_died';"
                 "SELECT tenon.enqueue('a', '{\"card\": 7}')");
    (void)
        snprintf(command, sizeof command,
                 "dir=$(dirname \"$MAILDIR\")\n"
                 "python3 -c \"$(cat <<'END'\n%sEND\n)\" \"$dir\" &\n"
                 "while ! test -f \"$dir/port\"; do :; done\n"
                 "printf '#!/bin/sh\\ncat >> %%s/letters\\n' \"$dir\" > \"$dir/send\"\n"
                 "chmod +x \"$dir/send\"\n"
                 "export WEBHOOK_URL=http://127.0.0.1:$(cat \"$dir/port\")/hook SENDMAIL=$dir/send"
                 " OPERATOR=ops@example.org AMQP_URL=none\n"
                 "$BUILT/../tenon worker --until-empty --handler 'a=echo no money >&2; exit 65'"
                 " --handler \"task_died=pool:exec $EXAMPLES/on_dead/chat.py\"\n"
                 "psql -Xqc \"SELECT tenon.enqueue('b')\" \"$DATABASE_URL\"\n"
                 "$BUILT/../tenon worker --until-empty --handler 'b=exit 65'"
                 " --handler \"task_died=$EXAMPLES/on_dead/mail.py\"\n"
                 "wait; cat \"$dir/chat\" \"$dir/letters\"",
                 server);
    char *out = shell(fx, 0, command);
    assert_contains(out,
                    "{\"text\": \"Task 1 (a) is dead after attempt 1: exit status 65: no money\"}");
    assert_contains(out, "To: ops@example.org\nSubject: task 3 (b) is dead: exit status 65\n");
    free(out);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history WHERE outcome = 'done'"),
                     2);
}

/* The two programs in Python of docs/start.md: one enqueues, the other handles. */
static void test_quick_start(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "CREATE TABLE public.users (mail text PRIMARY KEY)");
    free(shell(fx, 0,
               "awk -v dir=\"$(dirname \"$MAILDIR\")\" '"
               "/^```python$/ { n++; f = 1; next } /^```$/ { f = 0 }"
               " f { print > (dir \"/quick\" n \".py\") }' \"$EXAMPLES/../docs/start.md\""));
    free(shell(fx, 0, "/usr/bin/python3 \"$(dirname \"$MAILDIR\")/quick1.py\" ann@example.org"));
    assert_int_equal(tasks(fx), 1);
    free(
        shell(fx, 0,
              "cd \"$(dirname \"$MAILDIR\")\" && AMQP_URL=none $BUILT/../tenon worker --until-empty"
              " --handler 'welcome_mail=pool:exec /usr/bin/python3 quick2.py'"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history JOIN users ON true"
                                      " WHERE outcome = 'done' AND result = '{\"sent\": true}'"),
                     1);
}

static void test_exec_handler(void **state)
{
    struct fixture *fx = *state;
    char *out = shell(fx, 0,
                      "printf '%s' '{\"to\": \"ann@example.org\"}' | TENON_TASK_ID=7 "
                      "$EXAMPLES/handler.sh");
    assert_contains(out, "{\"sent\": true}");
    free(out);
    out = shell(fx, 0, "cat $MAILDIR/new/task-7");
    assert_contains(out, "To: ann@example.org");
    free(out);
    free(shell(fx, 65, "echo '{}' | TENON_TASK_ID=8 $EXAMPLES/handler.sh"));
}

static void test_pool_handler_in_python(void **state)
{
    struct fixture *fx = *state;
    char *out = shell(fx, 0,
                      "printf '%s\\n' "
                      "'{\"id\":7,\"kind\":\"welcome_mail\",\"payload\":{\"to\": \"a@b\"}}' "
                      "'{\"id\":8,\"kind\":\"welcome_mail\",\"payload\":{}}' "
                      "'{\"id\":9,\"kind\":\"other\",\"payload\":{}}' | $EXAMPLES/handler.py");
    assert_contains(out, "{\"hello\": \"tenon\", \"in_flight\": 8}\n");
    assert_contains(out, "{\"id\": 7, \"outcome\": \"done\", \"result\": {\"sent\": true}}\n");
    assert_contains(out, "{\"id\": 8, \"outcome\": \"dead\"");
    assert_contains(out, "{\"id\": 9, \"outcome\": \"failed\"");
    free(out);
    free(shell(fx, 0, "test -f $MAILDIR/new/task-7"));
}

/* Write block n of a language of a page, with a line before it, to $NAME. */
#define BLOCK(page, language, n, before, name)                                                     \
    "{ echo '" before "'; awk -v n=" #n " '/^```" language                                         \
    "$/ { i++; f = 1; next } /^```$/ { f = "                                                       \
    "0 } f && i == n' \"$EXAMPLES/../" page "\"; } > \"" name "\"\n"

/* What JSON libraries cannot read, and a task that is as others are. */
static const char odd_tasks[] =
    "dir=$(dirname \"$MAILDIR\"); cd \"$dir\"; mkdir -p mail/tmp mail/new mail/cur\n" //
    BLOCK("docs/start.md", "python", 2, "import sys", "start.py")                     //
    BLOCK("docs/start.md", "js", 2, "// of docs/start.md", "start.js")                //
    BLOCK("docs/handlers.md", "python", 1, "def handle(payload): return payload", "page.py") BLOCK(
        "docs/handlers.md", "python", 2,
        "import json, sys\n"
        "def run_all(payloads): return [{\"outcome\": \"done\"} for _ in payloads]",
        "page2.py") "cat > odd.py <<'END'\n"
                    "odd = '[' * 1500 + ']' * 1500, '[' * 3000 + ']' * 3000, '9' * 5000\n"
                    "for id, payload in enumerate([*odd, '{\"items\": 1}'], 1):\n"
                    "    print('{\"id\":%d,\"kind\":\"other\",\"attempt\":1,\"progress\":null,'\n"
                    "          '\"payload\":%s}' % (id, payload))\n"
                    "END\n";

static void answers_each(struct fixture *fx, const char *handler)
{
    char command[3000];
    (void)snprintf(command, sizeof command, "%spython3 odd.py | %s | tr -d ' '", odd_tasks,
                   handler);
    char *out = shell(fx, 0, command);
    for (int id = 1; id <= 4; id++) {
        char answer[40];
        (void)snprintf(answer, sizeof answer, "{\"id\":%d,\"outcome\":\"", id);
        assert_contains(out, answer);
    }
    free(out);
}

/* The handlers of docs/start.md and docs/handlers.md with results that are odd: a child that dies
 * of one would take its neighbours along. U+2028 is no end of a line. */
static void test_results_that_are_odd(void **state)
{
    static const char results[] =
        "py='{\"nan\": float(\"nan\"), \"big\": 10 ** 400, \"half\": \"\\\\ud83d\", \"none\": {1},"
        " \"plain\": 1}[payload[\"to\"]]'\n"
        "js='{ nan: NaN, big: 10n ** 400n, half: \"\\\\ud83d\", none: undefined,"
        " plain: 1 }[payload.to]'\n"
        "sed -i \"s/return {\\\"sent\\\": True}/return $py/\" start.py\n"
        "sed -i \"s/return payload/return $py/\" page.py\n"
        "sed -i \"s/return { sent: true }/return $js/\" start.js\n"
        "AMQP_URL=none $BUILT/../tenon worker --until-empty --slots 3"
        " --handler 'py=pool:exec python3 start.py' --handler 'page=pool:exec python3 page.py'"
        " --handler 'js=pool:exec node start.js'";
    struct fixture *fx = *state;
    char command[5000];
    test_sql(
        fx,
        "SELECT tenon.enqueue(k, jsonb_build_object('to', o, 'dash', U&'a\\2028b'),"
        " max_attempts => 1)"
        " FROM unnest('{py,page,js}'::text[]) k, unnest('{nan,big,half,none,plain}'::text[]) o");
    (void)snprintf(command, sizeof command, "%s%s", odd_tasks, results);
    free(shell(fx, 0, command));
    char *out = test_sql_text(
        fx, "SELECT string_agg(concat_ws(' ', kind, payload->>'to', state, CASE WHEN result ="
            " to_jsonb(10::numeric ^ 400) THEN '10^400' ELSE left(result::text, 31) END,"
            " left(last_error, 9)), E'\\n' ORDER BY kind, payload->>'to') FROM tenon.tasks");
    assert_string_equal(out, "js big dead TypeError\n"
                             "js half done \"tenon: the result was not kept\n"
                             "js nan done null\n"
                             "js none done\n"
                             "js plain done 1\n"
                             "page big done 10^400\n"
                             "page half done \"tenon: the result was not kept\n"
                             "page nan done \"tenon: the result was not kept\n"
                             "page none dead TypeError\n"
                             "page plain done 1\n"
                             "py big done 10^400\n"
                             "py half done \"tenon: the result was not kept\n"
                             "py nan done \"tenon: the result was not kept\n"
                             "py none dead TypeError\n"
                             "py plain done 1");
    free(out);
}

/* PostgreSQL accepts them; a handler that dies of one would take its neighbours with it. */
static void test_payloads_that_libraries_cannot_read(void **state)
{
    static const char *const handlers[] = {
        "$EXAMPLES/handler.py",
        "$BUILT/handler",
        "$EXAMPLES/checkpoint.py",
        "$EXAMPLES/order.py",
        "WEBHOOK_URL=http://127.0.0.1:1/ $EXAMPLES/on_dead/chat.py",
        "$EXAMPLES/signup/mailer.py mail journal",
        "$BUILT/signup/mailer mail journal",
        "python3 start.py",
        "python3 page.py",
        "{ echo '{\"tasks\":4}'; cat; } | python3 page2.py",
    };
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        answers_each(*state, handlers[i]);
    }
}

static void test_node_handler_of_the_page(void **state)
{
    char *there = shell(*state, 0, "command -v node || true");
    bool skips = *there == '\0';
    free(there);
    if (skips) {
        print_message("skipped: node is not there\n");
        skip();
    }
    answers_each(*state, "node start.js");
}

static void test_pool_handler_in_c(void **state)
{
    struct fixture *fx = *state;
    char *out = shell(fx, 0,
                      "printf '%s\\n' "
                      "'{\"id\":7,\"kind\":\"echo\",\"payload\":{\"n\": 12345678901234567890.5}}' "
                      "'{\"id\":8,\"kind\":\"sum\",\"payload\":{\"numbers\": [1, 2, 39]}}' "
                      "'{\"id\":9,\"kind\":\"sum\",\"payload\":{}}' "
                      "'{\"id\":10,\"kind\":\"other\",\"payload\":{}}' "
                      "'{\"id\":11,\"kind\":\"noop\",\"payload\":{}}' | $BUILT/handler");
    assert_contains(out, "{\"hello\":\"tenon\",\"in_flight\":256}\n{\"id\":7,\"outcome\":\"done\"");
    assert_contains(out, "{\"id\":8,\"outcome\":\"done\",\"result\":42}\n");
    assert_contains(out, "{\"id\":9,\"outcome\":\"dead\",\"error\":");
    assert_contains(out, "{\"id\":10,\"outcome\":\"failed\",\"error\":");
    assert_contains(out, "{\"id\":11,\"outcome\":\"done\"}\n");
    free(out);
    free(shell(fx, 1, "echo 'no task' | $BUILT/handler"));
    /* a line that is longer than what is read at once */
    out = shell(fx, 0,
                "{ printf '{\"id\":12,\"kind\":\"echo\",\"payload\":\"'; head -c 900000 /dev/zero |"
                " tr '\\0' x; echo '\"}'; } | $BUILT/handler | tail -1 | wc -c");
    assert_int_equal(strtol(out, NULL, 10),
                     900000 + strlen("{\"id\":12,\"outcome\":\"done\",\"result\":\"\"}\n"));
    free(out);
}

/* 250 mails, of which the API takes 248: calls of 100 at most, and an outcome for each. */
static void test_bulk_mail(void **state)
{
    static const char server[] =
        "import http.server, json, os, sys\n"
        "class Post(http.server.BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        mails = json.loads(self.rfile.read(int(self.headers['Content-Length'])))\n"
        "        open(sys.argv[1] + '/mails', 'a').write('%d\\n' % len(mails))\n"
        "        self.send_response(200); self.end_headers()\n"
        "        self.wfile.write(json.dumps([{'error': 'no such address'} if m['to'] == 'nobody'\n"
        "            else {'id': 'mail-' + m['key']} for m in mails]).encode())\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Post)\n"
        "open(sys.argv[1] + '/port.new', 'w').write(str(server.server_port))\n"
        "os.rename(sys.argv[1] + '/port.new', sys.argv[1] + '/port')\n"
        "server.serve_forever()\n";
    struct fixture *fx = *state;
    char command[2048];
    test_sql(fx, "SELECT tenon.enqueue('mail', jsonb_build_object('to', CASE WHEN n IN (7, 200)"
                 " THEN 'nobody' ELSE 'ann' || n END, 'subject', 'News'))"
                 " FROM generate_series(1, 250) n");
    (void)snprintf(command, sizeof command,
                   "dir=$(dirname \"$MAILDIR\")\n"
                   "python3 -c \"$(cat <<'END'\n%sEND\n)\" \"$dir\" 2>/dev/null &\n"
                   "while ! test -f \"$dir/port\"; do :; done\n"
                   "export MAIL_API_URL=http://127.0.0.1:$(cat \"$dir/port\")/ AMQP_URL=none\n"
                   "cd $EXAMPLES/.. && $BUILT/../tenon worker --slots 1 --until-empty"
                   " --handlers examples/bulk.conf\n"
                   "kill $!; sort -rn \"$dir/mails\" | head -1",
                   server);
    char *out = shell(fx, 0, command);
    assert_string_equal(out, "100\n");
    free(out);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 248 AND bool_and(result ->> 'message' ="
                                  " 'mail-task-' || id) FROM tenon.history"));
    assert_true(test_sql_bool(fx, "SELECT count(*) = 2 AND bool_and(last_error ="
                                  " 'no such address') FROM tenon.dead"));
}

/* What is no mail is dead, and does not concern the others of its call. While the API is away, each
 * of them is failed. */
static void test_bulk_mail_that_fails(void **state)
{
    struct fixture *fx = *state;
    char *out = shell(fx, 0,
                      "printf '{\"tasks\":2}\\n{\"id\":7,\"payload\":%s}\\n"
                      "{\"id\":8,\"payload\":{\"to\": \"ann\"}}\\n'"
                      " \"$(printf '%05000d' 0 | tr 0 9)\" |"
                      " MAIL_API_URL=http://127.0.0.1:1/ $EXAMPLES/bulk_mail.py");
    assert_contains(out, "{\"hello\": \"tenon\", \"chunks\": true}\n");
    assert_contains(out, "{\"id\": 7, \"outcome\": \"dead\"");
    assert_contains(out, "{\"id\": 8, \"outcome\": \"failed\"");
    free(out);
}

/* As its first lines say. */
static void test_flow(void **state)
{
    struct fixture *fx = *state;
    free(shell(fx, 0, "psql -X -v ON_ERROR_STOP=1 -f $EXAMPLES/flow.sql \"$DATABASE_URL\""));
    struct process *cleaner = TENON(fx, "cleaner", "--amqp-url", "none");
    struct process *worker = TENON(fx, "worker", "--amqp-url", "none", "--handler",
                                   "fetch=echo '{\"files\": 2}'", "--handler",
                                   "resize=echo '{\"pixels\": 640}'", "--handler",
                                   "index=echo '{\"words\": 1000}'", "--handler", "ship=cat",
                                   "--handler", "import_row=true", "--handler", "report=cat");
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = 0, count(*) FROM tenon.task WHERE kind <> 'x'"
               " HAVING (SELECT count(*) FROM tenon.history) = 10");
    assert_true(test_sql_bool(
        fx, "SELECT result = '{\"parents\": {\"images\": {\"pixels\": 640}, \"texts\": {\"words\":"
            " 1000}}}' FROM tenon.tasks WHERE kind = 'ship'"));
    assert_true(test_sql_bool(fx, "SELECT result = '{\"import\": 7, \"flow\": 2}' FROM tenon.tasks"
                                  " WHERE kind = 'report'"));
    process_signal(worker, SIGTERM);
    process_signal(cleaner, SIGTERM);
    assert_int_equal(process_wait(worker, LIMIT_MS), 0);
    assert_int_equal(process_wait(cleaner, LIMIT_MS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_producers),
        WITH_DATABASE(test_psql),
        WITH_DATABASE(test_dead_tasks_again),
        WITH_DATABASE(test_on_dead),
        WITH_DATABASE(test_quick_start),
        WITH_DATABASE(test_exec_handler),
        WITH_DATABASE(test_pool_handler_in_python),
        WITH_DATABASE(test_payloads_that_libraries_cannot_read),
        WITH_DATABASE(test_results_that_are_odd),
        WITH_DATABASE(test_node_handler_of_the_page),
        WITH_DATABASE(test_pool_handler_in_c),
        WITH_DATABASE(test_bulk_mail),
        WITH_DATABASE(test_bulk_mail_that_fails),
        WITH_SERVERS(test_flow),
    };
    return RUN_GROUP(tests);
}
