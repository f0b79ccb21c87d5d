/* label: e2e */
/* timeout: 300 */
/* The handler "*": the kinds that its program names are served, and stay the same. */
#include "tests/support/temporary.h"
#include "tests/support/working.h"

#include "core/base/now.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELLO(kinds) "{\"hello\":\"tenon\",\"in_flight\":2,\"stop\":true,\"kinds\":" kinds "}\n"

static void write_file(const char *path, const char *text)
{
    char beside[TEMPORARY_BYTES + 8];
    (void)snprintf(beside, sizeof beside, "%s.new", path);
    FILE *file = fopen(beside, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(beside, path), 0); /* at once: a child may read it */
}

/* "*=pool:exec .../kinds.sh FILE" */
static const char *any(char text[600], const char *file)
{
    char path[192];
    handler_path("kinds.sh", path, sizeof path);
    (void)snprintf(text, 600, "*=pool:exec %s %s", path, file);
    return text;
}

static void test_it_serves_the_kinds_that_no_other_has(void **state)
{
    struct fixture *fx = *state;
    char file[TEMPORARY_BYTES], h[600], b[256];
    temporary_file("{\"starting\":\"reading\"}\n" HELLO("[\"c\", \"b\",\"a\" ,\"a\"]"), file);
    struct process *p = TENON(fx, "worker", "--slots", "3", "--handler", any(h, file), "--handler",
                              handler(b, "b=pool:exec %s 0", "boot"));
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    assert_true(test_sql_bool(fx, "SELECT kinds = '{a,c,b}' AND backing_off IS NULL FROM "
                                  "tenon.worker"));
    test_sql(fx, "SELECT tenon.enqueue('d')"); /* 1 */
    test_sql(fx, "SELECT tenon.enqueue(k) FROM unnest('{a,b,c}'::text[]) k, generate_series(1, 9)");
    await_done(fx, 27);
    assert_true(
        test_sql_bool(fx,
                      "SELECT bool_and((result IS NOT NULL) = (kind <> 'b')) FROM tenon.history"));
    char *text = TENON_RUN(fx, 0, "why", "1");
    assert_contains(text, "No living worker handles the kind d");
    free(text);
    assert_int_equal(process_lines(p, "event=handler_backs_off"), 0);
    end_well(p);
    (void)unlink(file);
}

/* Its first child serves tasks: the application is loaded once. */
static void test_the_first_child_is_kept(void **state)
{
    struct fixture *fx = *state;
    char file[TEMPORARY_BYTES], h[600];
    temporary_file(HELLO("[\"a\"]"), file);
    struct process *p = TENON(fx, "worker", "--slots", "1", "--handler", any(h, file));
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    (void)unlink(file); /* no second child could start */
    test_sql(fx, "SELECT tenon.enqueue('a')");
    await_done(fx, 1);
    end_well(p);
}

/* Also of a task that a worker has just claimed, and gives back when no child starts. */
static bool why_says(struct fixture *fx, const char *words)
{
    bool says = false;
    for (int64_t end_ms = patience_end_ms(LIMIT_MS); !says && now_ms() < end_ms;) {
        char *text = TENON_RUN(fx, 0, "why", "1");
        says = strstr(text, words) != NULL;
        free(text);
    }
    return says;
}

static void test_other_kinds_are_an_error(void **state)
{
    struct fixture *fx = *state;
    char file[TEMPORARY_BYTES], h[600];
    pid_t pids[8];
    temporary_file(HELLO("[\"a\",\"b\"]"), file);
    struct process *p = TENON(fx, "worker", "--slots", "1", "--handler", any(h, file));
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    write_file(file, HELLO("[\"a\",\"new\"]"));
    int n = process_children(p, pids, 8);
    for (int i = 0; i < n; i++) {
        if (process_is_handler(pids[i])) {
            assert_int_equal(kill(pids[i], SIGKILL), 0);
        }
    }
    test_sql(fx, "SELECT tenon.enqueue('a')"); /* 1 */
    process_await_line(p,
                       "protocol error: its hello names other kinds than the first child's: not b, "
                       "also new: restart the worker to serve them",
                       LIMIT_MS);
    test_await(fx, LIMIT_MS, "SELECT backing_off LIKE 'a,b: protocol error: %%' FROM tenon.worker");
    assert_true(
        why_says(fx, "its hello names other kinds than the first child's: not b, also new"));
    write_file(file, HELLO("[\"b\",\"a\"]")); /* the same in another order */
    await_done(fx, 1);
    end_well(p);
    (void)unlink(file);
}

/* It is told why, serves nothing, can be stopped, and begins when the program does. */
static void test_a_program_that_does_not_start(void **state)
{
    struct fixture *fx = *state;
    char file[TEMPORARY_BYTES], h[600];
    temporary_file("", file);
    (void)unlink(file);
    struct process *p = TENON(fx, "worker", "--slots", "1", "--handler", any(h, file));
    process_await_line(p, "event=kinds_unknown", LIMIT_MS);
    assert_int_equal(process_lines(p, "handler \\\"*\\\": exit status 3: cat: "), 1);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 0 FROM tenon.worker"));
    write_file(file, HELLO("[]"));
    process_await_line(p, "protocol error: its hello names no kind", LIMIT_MS);
    write_file(file, "{\"hello\":\"tenon\"}\n");
    process_await_line(p, "its hello does not say \\\"kinds\\\"", LIMIT_MS);
    write_file(file, HELLO("[\"a\",\"no kind\"]"));
    process_await_line(p, "has something in kinds that is not a kind: 1 to 100", LIMIT_MS);
    write_file(file, HELLO("[\"a\"]"));
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    end_well(p);
    (void)unlink(file);
    p = TENON(fx, "worker", "--slots", "1", "--handler", any(h, file));
    process_await_line(p, "event=kinds_unknown", LIMIT_MS);
    end_well(p);
    p = TENON(fx, "worker", "--start-limit", "1s", "--handler", "*=pool:exec sleep 1000");
    process_await_line(p, "no hello within the start limit: handler \\\"*\\\": killed by signal 9",
                       LIMIT_MS);
    end_well(p);
}

/* Kinds of 25 KB, as of a large application: they are told whole. */
static void test_a_thousand_kinds(void **state)
{
    struct fixture *fx = *state;
    static char hello[40000];
    char file[TEMPORARY_BYTES], h[600];
    size_t len = (size_t)snprintf(hello, sizeof hello, "{\"hello\":\"tenon\",\"kinds\":[");
    for (int i = 0; i < 1000; i++) {
        len += (size_t)snprintf(hello + len, sizeof hello - len, "%s\"Shop::Reports::Nr%03dJob\"",
                                i ? "," : "", i);
    }
    (void)snprintf(hello + len, sizeof hello - len, "]}\n");
    temporary_file(hello, file);
    struct process *p = TENON(fx, "worker", "--slots", "2", "--handler", any(h, file));
    process_await_line(p, "event=worker_ready", 2 * LIMIT_MS);
    assert_true(test_sql_bool(fx, "SELECT cardinality(kinds) = 1000 FROM tenon.worker"));
    test_sql(fx, "SELECT tenon.enqueue('Shop::Reports::Nr' || 100 + n || 'Job') FROM "
                 "generate_series(1, 50) n");
    await_done(fx, 50);
    end_well(p);
    (void)unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_it_serves_the_kinds_that_no_other_has),
        WITH_SERVERS(test_the_first_child_is_kept),
        WITH_SERVERS(test_other_kinds_are_an_error),
        WITH_SERVERS(test_a_program_that_does_not_start),
        WITH_SERVERS(test_a_thousand_kinds),
    };
    return RUN_GROUP(tests);
}
