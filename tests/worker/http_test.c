/* label: e2e */
/* only: all */
/* tenon-http under a worker: what the endpoint gets, and what its answers mean for the task. */
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define PRIVATE "\"--allow-private\", "

/* The path of each request is its kind. */
struct stage {
    struct fixture *fx;
    struct process *server;
    char url[64], file[300];
};

static void write_file(struct fixture *fx, const char *name, const char *text)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", fx->dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

static char *read_file(struct fixture *fx, const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", fx->dir, name);
    return file_text(path);
}

static void serve(struct stage *s, struct fixture *fx, const char *certificate, const char *key)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/tests/support/http_server.py", repository);
    const char *const argv[] = {"python3", path, fx->dir, certificate, key, NULL};
    s->fx = fx;
    s->server = process_spawn(fx, argv, (const char *const[]){"COUNT=500", NULL});
    process_await_line(s->server, "listening", LIMIT_MS);
    char *port = read_file(fx, "port");
    (void)snprintf(s->url, sizeof s->url, "http%s://127.0.0.1:%s/{kind}", certificate ? "s" : "",
                   port);
    free(port);
}

/* A handler for these kinds, with options such as "\"--retry-4xx\", ". */
static void add_handler(struct stage *s, const char *kinds, const char *options)
{
    (void)snprintf(s->file, sizeof s->file, "%s/handlers.conf", s->fx->dir);
    FILE *file = fopen(s->file, "a");
    assert_non_null(file);
    (void)fprintf(file,
                  "handler \"%s\" {\n    mode = \"pool\"\n"
                  "    command = {\"%s-http\", %s\"--url\", \"%s\"}\n}\n",
                  kinds, tenon_program, options, s->url);
    assert_int_equal(fclose(file), 0);
}

static struct process *start(struct stage *s, const char *kinds, const char *options)
{
    add_handler(s, kinds, options);
    return TENON(s->fx, "worker", "--slots", "8", "--handlers", s->file);
}

static int64_t enqueue(struct stage *s, const char *kind, const char *payload)
{
    return test_sql_int(s->fx, "SELECT tenon.enqueue('%s', '%s', timeout => '20 s')", kind,
                        payload);
}

static void await(struct stage *s, int64_t id, const char *what)
{
    test_await(s->fx, LIMIT_MS, "SELECT %s, t.* FROM tenon.tasks t WHERE id = %lld", what,
               (long long)id);
}

static void test_what_each_answer_means(void **state)
{
    static const struct {
        const char *kind, *what;
    } cases[] = {
        {"echo", "state = 'done' AND result = '{\"a\": 12345678901234567890.125}'"},
        {"text", "state = 'done' AND result IS NULL"},
        {"big", "state = 'done' AND result #>> '{}' LIKE '%% longer than 64 KiB'"},
        {"endless", "state = 'done' AND result #>> '{}' LIKE '%% longer than 64 KiB'"},
        {"500", "state = 'retrying' AND last_error = 'HTTP 500: said 500'"
                " AND error_class = 'http_500'"},
        {"503", "state = 'retrying' AND failures = 1"},
        {"404", "state = 'dead' AND last_error = 'HTTP 404: said 404'"
                " AND error_class = 'http_404'"},
        {"moved", "state = 'dead' AND last_error LIKE '%%redirects are not followed%%'"},
        {"503.after.3000", "state = 'scheduled' AND failures = 0"
                           " AND run_at - now() BETWEEN '2900 s' AND '3000 s'"},
        {"429.at.3000", "state = 'scheduled' AND failures = 0"
                        " AND run_at - now() BETWEEN '2900 s' AND '3000 s'"},
        {"drop", "state = 'retrying' AND error_class = 'network'"},
    };
    enum { N = sizeof cases / sizeof *cases };
    struct stage s;
    int64_t ids[N];
    serve(&s, *state, NULL, NULL);
    struct process *p =
        start(&s, "echo,text,big,endless,500,503,404,moved,503.after.3000,429.at.3000,drop",
              PRIVATE);
    for (size_t i = 0; i < N; i++) {
        ids[i] = enqueue(&s, cases[i].kind, "{\"a\": 12345678901234567890.125}");
    }
    for (size_t i = 0; i < N; i++) {
        await(&s, ids[i], cases[i].what);
    }
    char *requests = read_file(s.fx, "requests");
    assert_contains(requests, "{\\\"a\\\": 12345678901234567890.125}"); /* no digit is lost */
    free(requests);
    end_well(p);
}

/* A time, one that has passed, or what cannot be read: whoever says it is well, so nothing is
 * charged. (http_parts_test has the delays.) */
static void test_retry_after(void **state)
{
    static const char *const said[] = {"1.5",  "0", "-120", "Wed, 21 Oct 2015 07:28:00 GMT",
                                       "soon", ""};
    enum { N = sizeof said / sizeof *said };
    struct stage s;
    char kinds[1024] = "echo";
    int64_t ids[N];
    serve(&s, *state, NULL, NULL);
    for (size_t i = 0; i < N; i++) {
        size_t len = strlen(kinds);
        len += (size_t)snprintf(kinds + len, sizeof kinds - len, ",%d.say.", i % 2 ? 503 : 429);
        for (const char *c = said[i]; *c; c++) {
            len += (size_t)snprintf(kinds + len, sizeof kinds - len, "%02x", (unsigned char)*c);
        }
        ids[i] = enqueue(&s, strrchr(kinds, ',') + 1, "1");
    }
    struct process *p = start(&s, kinds, PRIVATE);
    for (size_t i = 0; i < N; i++) {
        await(&s, ids[i],
              "state <> 'dead' AND failures = 0 AND last_error LIKE 'HTTP %%: said %%'");
    }
    assert_int_equal(process_lines(p, "event=task_failed"), 0);
    end_well(p);
}

static void test_retry_4xx(void **state)
{
    struct stage s;
    serve(&s, *state, NULL, NULL);
    struct process *p = start(&s, "404", PRIVATE "\"--retry-4xx\", ");
    await(&s, enqueue(&s, "404", "1"), "state = 'retrying' AND error_class = 'http_404'");
    end_well(p);
}

/* The snippets of docs/json-api.md take what was sent, by each of two secrets, and nothing else. */
static const char by_python[] =
    "import json, re, sys\n"
    "page = open(sys.argv[1] + '/docs/json-api.md', encoding='utf-8').read()\n"
    "blocks = re.findall(r'^```python\\n(.*?)^```', page, re.M | re.S)\n"
    "exec(next(b for b in blocks if 'def is_from_tenon' in b))\n"
    "request = json.loads(open(sys.argv[2] + '/requests').readline())\n"
    "headers, body, url = request['headers'], request['body'].encode(), sys.argv[3]\n"
    "sent = headers['Tenon-Signature']\n"
    "assert 'v1=' not in sent\n"
    "for secret in b'the first of two secrets', b'the second of two secrets':\n"
    "    assert is_from_tenon(secret, url, headers, body)\n"
    "    assert not is_from_tenon(secret, url, headers, body + b' ')\n"
    "    assert not is_from_tenon(secret, url + '/', headers, body)\n"
    "    assert not is_from_tenon(secret, url, headers, body, tolerance_s=-1)\n"
    "    changes = {'Tenon-Signature': sent.replace('t=', 't=1'), 'Tenon-Task-Id': '2',\n"
    "               'Tenon-Kind': 'echo2', 'Tenon-Attempt': '2'}\n"
    "    for name, value in changes.items():\n"
    "        assert not is_from_tenon(secret, url, {**headers, name: value}, body), name\n"
    "assert not is_from_tenon(b'another secret, not known', url, headers, body)\n"
    "expected = {'Tenon-Task-Id': '1', 'Tenon-Kind': 'echo', 'Tenon-Queue': 'default',\n"
    "    'Tenon-Attempt': '1', 'Content-Type': 'application/json', 'X-Own': 'a',\n"
    "    'Authorization': 'Bearer b',\n"
    "    'traceparent': '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01'}\n"
    "assert {**headers, **expected} == headers, headers\n"
    "assert body.decode() == '{\"to\": \"\\u00e4\"}', body\n";
static const char by_node[] =
    "const fs = require('fs'), assert = require('assert');\n"
    "const [root, dir, url] = process.argv.slice(1);\n"
    "const page = fs.readFileSync(root + '/docs/json-api.md', 'utf8');\n"
    "const blocks = [...page.matchAll(/^```js\\n([^]*?)^```/gm)].map((m) => m[1]);\n"
    "const block = blocks.find((b) => b.includes('function isFromTenon'));\n"
    "const source = block.replace(/^import .*$/gm, '') + 'return isFromTenon;';\n"
    "const isFromTenon = new Function('createHmac', 'timingSafeEqual', source)(\n"
    "    require('crypto').createHmac, require('crypto').timingSafeEqual);\n"
    "const request = JSON.parse(fs.readFileSync(dir + '/requests', 'utf8').split('\\n')[0]);\n"
    "const lower = Object.entries(request.headers).map(([k, v]) => [k.toLowerCase(), v]);\n"
    "const headers = Object.fromEntries(lower), body = Buffer.from(request.body);\n"
    "const sent = headers['tenon-signature'];\n"
    "for (const secret of ['the first of two secrets', 'the second of two secrets']) {\n"
    "    assert(isFromTenon(secret, url, headers, body));\n"
    "    assert(!isFromTenon(secret, url, headers, Buffer.concat([body, body])));\n"
    "    assert(!isFromTenon(secret, url + '/', headers, body));\n"
    "    assert(!isFromTenon(secret, url, headers, body, -1));\n"
    "    const changes = {'tenon-signature': sent.replace('t=', 't=1'), 'tenon-task-id': '2',\n"
    "        'tenon-kind': 'echo2', 'tenon-attempt': '2'};\n"
    "    for (const [name, value] of Object.entries(changes)) {\n"
    "        assert(!isFromTenon(secret, url, {...headers, [name]: value}, body), name);\n"
    "    }\n"
    "}\n"
    "assert(!isFromTenon('another secret, not known', url, headers, body));\n"
    "const other = {...headers, 'tenon-signature': 't=1,v2=00'};\n"
    "assert(!isFromTenon('the first of two secrets', url, other, body));\n"
    "assert(!isFromTenon('the first of two secrets', url, {}, body));\n";

static void verified_by(struct stage *s, const char *const *command)
{
    char url[300];
    (void)snprintf(url, sizeof url, "%.*secho", (int)(strlen(s->url) - strlen("{kind}")), s->url);
    const char *const argv[] = {command[0], command[1], command[2], repository,
                                s->fx->dir, url,        NULL};
    struct process *v = process_spawn(s->fx, argv, NULL);
    int status = process_wait(v, LIMIT_MS);
    char *log = file_text(v->log);
    assert_string_equal(log, "");
    assert_int_equal(status, 0);
    free(log);
}

static void test_what_is_sent(void **state)
{
    struct stage s;
    serve(&s, *state, NULL, NULL);
    char options[1024];
    write_file(s.fx, "secrets", "the first of two secrets\nthe second of two secrets\n");
    write_file(s.fx, "headers", "X-Own: a\nAuthorization: Bearer b\n");
    (void)snprintf(options, sizeof options,
                   PRIVATE "\"--secret-file\", \"%s/secrets\", \"--headers\", "
                           "\"%s/headers\", ",
                   s.fx->dir, s.fx->dir);
    struct process *p = start(&s, "echo", options);
    int64_t id = test_sql_int(s.fx, "SELECT tenon.enqueue('echo', '{\"to\": \"\u00e4\"}', trace =>"
                                    " '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01')");
    await(&s, id, "state = 'done'");
    verified_by(&s, (const char *const[]){"python3", "-c", by_python});
    verified_by(&s, (const char *const[]){"node", "-e", by_node});
    end_well(p);
}

/* Each way to write this host's address, by number or by name: refused before a byte is sent. */
static void test_private_addresses_are_refused(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost",  "[::1]", "[::ffff:127.0.0.1]",
                                        "0",         "2130706433", "0x7f.1"};
    enum { N = sizeof hosts / sizeof *hosts };
    struct stage s;
    char kind[16], path[300];
    serve(&s, *state, NULL, NULL);
    char *port = read_file(s.fx, "port");
    for (int i = 0; i < N; i++) {
        (void)snprintf(kind, sizeof kind, "k%d", i);
        (void)snprintf(s.url, sizeof s.url, "http://%s:%s/echo", hosts[i], port);
        (void)enqueue(&s, kind, "1");
        add_handler(&s, kind, "");
    }
    free(port);
    struct process *p = start(&s, "another", "");
    test_await(s.fx, LIMIT_MS,
               "SELECT count(*) FILTER (WHERE state = 'retrying'"
               " AND error_class = 'private_address') = %d, array_agg(last_error)"
               " FROM tenon.tasks",
               N);
    end_well(p);
    (void)snprintf(path, sizeof path, "%s/requests", s.fx->dir);
    assert_null(fopen(path, "r")); /* nobody came */
}

/* 500 of one child wait for each other at the endpoint. */
static void test_many_in_flight(void **state)
{
    struct stage s;
    serve(&s, *state, NULL, NULL);
    add_handler(&s, "together", PRIVATE);
    struct process *p = TENON(s.fx, "worker", "--slots", "1", "--handlers", s.file);
    test_sql(s.fx, "SELECT tenon.enqueue_many('together', array_fill('1'::jsonb, '{500}'))");
    await_done(s.fx, 500);
    end_well(p);
}

/* A task that is cancelled lets go of its connection; the others go on. */
static void test_a_cancelled_task_is_aborted(void **state)
{
    struct stage s;
    serve(&s, *state, NULL, NULL);
    struct process *p = start(&s, "hang,echo", PRIVATE);
    int64_t id = test_sql_int(s.fx, "SELECT tenon.enqueue('hang', '1', timeout => '1 h')");
    await(&s, id, "state = 'running'");
    await(&s, enqueue(&s, "echo", "2"), "state = 'done'"); /* so the first one is out, too */
    test_sql(s.fx, "SELECT tenon.cancel(%lld)", (long long)id);
    process_await_line(s.server, "gone /hang", LIMIT_MS);
    await(&s, enqueue(&s, "echo", "3"), "state = 'done'");
    end_well(p);
}

/* It ends by itself a little before the worker would stop it. */
static void test_a_request_ends_before_its_deadline(void **state)
{
    struct stage s;
    serve(&s, *state, NULL, NULL);
    struct process *p = start(&s, "hang", PRIVATE);
    int64_t id = test_sql_int(s.fx, "SELECT tenon.enqueue('hang', '1', timeout => '3 s')");
    await(&s, id, "state = 'retrying' AND error_class = 'timeout'");
    end_well(p);
}

/* Of the server, "right", and of another one. */
static void make_certificates(struct fixture *fx)
{
    static const char make[] =
        "cd \"$0\"; for name in right other; do"
        " openssl req -x509 -days 2 -nodes -newkey ec -pkeyopt"
        " ec_paramgen_curve:prime256v1 -subj /CN=$name -addext subjectAltName=$(test $name = right"
        " && echo IP:127.0.0.1 || echo DNS:other.example) -keyout $name.key -out $name.pem"
        " || exit 1; done";
    const char *const argv[] = {"sh", "-c", make, fx->dir, NULL};
    assert_int_equal(process_wait(process_spawn(fx, argv, NULL), LIMIT_MS), 0);
}

static void test_tls_is_verified(void **state)
{
    struct stage s;
    struct fixture *fx = *state;
    char key[300], pem[300], options[512];
    make_certificates(fx);
    for (int right = 0; right < 2; right++) {
        const char *name = right ? "right" : "other";
        (void)snprintf(pem, sizeof pem, "%s/%s.pem", fx->dir, name);
        (void)snprintf(key, sizeof key, "%s/%s.key", fx->dir, name);
        (void)snprintf(options, sizeof options, PRIVATE "\"--ca-file\", \"%s\", ", pem);
        serve(&s, fx, pem, key);
        add_handler(&s, name, options); /* for 127.0.0.1, or for another host */
        add_handler(&s, right ? "unknown" : "unknown2", PRIVATE);
    }
    struct process *p = start(&s, "another", "");
    await(&s, enqueue(&s, "right", "1"), "state = 'dead' AND error_class = 'http_404'");
    for (size_t i = 0; i < 3; i++) {
        static const char *const bad[] = {"other", "unknown", "unknown2"};
        await(&s, enqueue(&s, bad[i], "1"), "state = 'retrying' AND error_class = 'tls'");
    }
    end_well(p);
}

/* Whose certificates the system trusts is told by /etc/ssl/certs, which in a mount namespace of its
 * own has the server's: --ca-file stands instead of it, not beside it. */
static void test_a_ca_file_replaces_the_systems(void **state)
{
    static const char worker[] =
        "mkdir \"$0/certs\" && cp \"$0/right.pem\" \"$0/certs/\" && openssl rehash \"$0/certs\" &&"
        " cp \"$0/other.pem\" \"$0/certs/ca-certificates.crt\" &&" /* Debian's bundle */
        " mount --bind \"$0/certs\" /etc/ssl/certs &&"
        " exec \"$1\" worker --slots 4 --until-empty --handlers \"$2\"";
    struct fixture *fx = *state;
    struct stage s;
    char key[300], pem[300], options[512];
    const char *const may[] = {"unshare", "-m", "true", NULL};
    if (process_wait(process_spawn(fx, may, NULL), LIMIT_MS) != 0) {
        print_message("skipped: --ca-file beside the system's authorities, no mount namespace\n");
        skip();
    }
    make_certificates(fx);
    (void)snprintf(pem, sizeof pem, "%s/right.pem", fx->dir);
    (void)snprintf(key, sizeof key, "%s/right.key", fx->dir);
    serve(&s, fx, pem, key);
    (void)snprintf(options, sizeof options, PRIVATE "\"--ca-file\", \"%s/other.pem\", ", fx->dir);
    add_handler(&s, "by_system", PRIVATE);
    add_handler(&s, "by_file", options);
    int64_t by_system = enqueue(&s, "by_system", "1"), by_file = enqueue(&s, "by_file", "1");
    const char *const argv[] = {"unshare", "-m",          "sh",   "-c", worker,
                                fx->dir,   tenon_program, s.file, NULL};
    assert_int_equal(process_wait(process_spawn(fx, argv, NULL), LIMIT_MS), 0);
    await(&s, by_system, "state = 'dead' AND error_class = 'http_404'"); /* it was connected to */
    await(&s, by_file, "state = 'retrying' AND error_class = 'tls'");
}

/* SSL_CERT_FILE names the system's authorities, as for OpenSSL; --ca-file replaces them. */
static void test_ssl_cert_file(void **state)
{
    struct fixture *fx = *state;
    struct stage s;
    char key[300], pem[300], options[512], variable[320];
    make_certificates(fx);
    (void)snprintf(pem, sizeof pem, "%s/right.pem", fx->dir);
    (void)snprintf(key, sizeof key, "%s/right.key", fx->dir);
    serve(&s, fx, pem, key);
    (void)snprintf(options, sizeof options, PRIVATE "\"--ca-file\", \"%s/other.pem\", ", fx->dir);
    add_handler(&s, "by_variable", PRIVATE);
    add_handler(&s, "by_file", options);
    int64_t by_variable = enqueue(&s, "by_variable", "1"), by_file = enqueue(&s, "by_file", "1");
    (void)snprintf(variable, sizeof variable, "SSL_CERT_FILE=%s", pem);
    const char *const argv[] = {tenon_program, "worker", "--until-empty",
                                "--handlers",  s.file,   NULL};
    const char *const env[] = {variable, NULL};
    assert_int_equal(process_wait(process_spawn(fx, argv, env), LIMIT_MS), 0);
    await(&s, by_variable, "state = 'dead' AND error_class = 'http_404'"); /* it was connected to */
    await(&s, by_file, "state = 'retrying' AND error_class = 'tls'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_ssl_cert_file),
        WITH_DATABASE(test_what_each_answer_means),
        WITH_DATABASE(test_retry_after),
        WITH_DATABASE(test_retry_4xx),
        WITH_DATABASE(test_what_is_sent),
        WITH_DATABASE(test_private_addresses_are_refused),
        WITH_DATABASE(test_many_in_flight),
        WITH_DATABASE(test_a_cancelled_task_is_aborted),
        WITH_DATABASE(test_a_request_ends_before_its_deadline),
        WITH_DATABASE(test_tls_is_verified),
        WITH_DATABASE(test_a_ca_file_replaces_the_systems),
    };
    return RUN_GROUP(tests);
}
