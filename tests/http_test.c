/* label: e2e */
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

static void test_retry_4xx(void **state)
{
    struct stage s;
    serve(&s, *state, NULL, NULL);
    struct process *p = start(&s, "404", PRIVATE "\"--retry-4xx\", ");
    await(&s, enqueue(&s, "404", "1"), "state = 'retrying' AND error_class = 'http_404'");
    end_well(p);
}

/* The snippet of docs/handlers.md takes what was sent, by each of two secrets, and nothing else. */
static void test_what_is_sent(void **state)
{
    static const char verify[] =
        "import json, re, sys\n"
        "page = open(sys.argv[1] + '/docs/handlers.md', encoding='utf-8').read()\n"
        "blocks = re.findall(r'^```python\\n(.*?)^```', page, re.M | re.S)\n"
        "exec(next(b for b in blocks if 'def is_from_tenon' in b))\n"
        "request = json.loads(open(sys.argv[2] + '/requests').readline())\n"
        "headers, body = request['headers'], request['body'].encode()\n"
        "sent = headers['Tenon-Signature']\n"
        "for secret in b'the first of two secrets', b'the second of two secrets':\n"
        "    assert is_from_tenon(secret, sent, body)\n"
        "    assert not is_from_tenon(secret, sent, body + b' ')\n"
        "    assert not is_from_tenon(secret, sent.replace('t=', 't=1'), body)\n"
        "    assert not is_from_tenon(secret, sent, body, tolerance_s=-1)\n"
        "assert not is_from_tenon(b'another secret, not known', sent, body)\n"
        "expected = {'Tenon-Task-Id': '1', 'Tenon-Kind': 'echo', 'Tenon-Queue': 'default',\n"
        "    'Tenon-Attempt': '1', 'Content-Type': 'application/json', 'X-Own': 'a',\n"
        "    'Authorization': 'Bearer b',\n"
        "    'traceparent': '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01'}\n"
        "assert {**headers, **expected} == headers, headers\n"
        "assert body.decode() == '{\"to\": \"\\u00e4\"}', body\n";
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
    const char *const argv[] = {"python3", "-c", verify, repository, s.fx->dir, NULL};
    struct process *v = process_spawn(s.fx, argv, NULL);
    int status = process_wait(v, LIMIT_MS);
    char *log = file_text(v->log);
    assert_string_equal(log, "");
    assert_int_equal(status, 0);
    free(log);
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

static void test_tls_is_verified(void **state)
{
    static const char make[] =
        "cd \"$0\"; for name in right other; do\n"
        " openssl req -x509 -days 2 -nodes -newkey ec -pkeyopt"
        " ec_paramgen_curve:prime256v1 -subj /CN=$name -addext subjectAltName=$(test $name = right"
        " && echo IP:127.0.0.1 || echo DNS:other.example) -keyout $name.key -out $name.pem"
        " || exit 1; done";
    struct stage s;
    struct fixture *fx = *state;
    const char *const argv[] = {"sh", "-c", make, fx->dir, NULL};
    char key[300], pem[300], options[512];
    assert_int_equal(process_wait(process_spawn(fx, argv, NULL), LIMIT_MS), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_what_each_answer_means),
        WITH_DATABASE(test_retry_4xx),
        WITH_DATABASE(test_what_is_sent),
        WITH_DATABASE(test_private_addresses_are_refused),
        WITH_DATABASE(test_many_in_flight),
        WITH_DATABASE(test_a_cancelled_task_is_aborted),
        WITH_DATABASE(test_a_request_ends_before_its_deadline),
        WITH_DATABASE(test_tls_is_verified),
    };
    return RUN_GROUP(tests);
}
