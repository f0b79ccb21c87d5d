/* label: unit */
/* timeout: 120 */
/* only: all */
/* Without memory: the parts that need no server, with every allocation failing in its turn. */
#include "tests/support/deciding.h"
#include "tests/support/nth.h"
#include "tests/support/temporary.h"

#include "core/amqp/amqp_url.h"
#include "core/base/array.h"
#include "core/options/config.h"
#include "enqueue/pending.h"
#include "worker/line.h"

#include <stdio.h>
#include <unistd.h>
#include <utlist.h>

/* Either it worked, or it says that there is no memory. */
static void judge(bool ok, const struct fault *f)
{
    if (!ok && (!nth_struck() || (f->code != FAULT_MEMORY && !strstr(f->text, "memory")))) {
        fail_msg("%s: %s", fault_word(f->code), f->text);
    }
    if (ok) {
        assert_int_equal(f->code, FAULT_NONE);
    }
}

static void judged(long n, const char *what)
{
    print_message("%s: %ld allocations failed\n", what, n);
    assert_true(n > 0);
}

/* --- options, config file, handlers ---------------------------------------------------------- */

static char file_path[TEMPORARY_BYTES];

static bool read_options(const char *flag, struct options **ret, struct fault *f)
{
    char words[][32] = {"worker",   "--database-url", "postgresql://h", "--amqp-url", "none",
                        "--queues", "a,b,c",          "--handler",      "x=true",     "--slots",
                        "3"};
    char *argv[16];
    int argc = 0;
    for (; argc < (int)(sizeof words / sizeof *words); argc++) {
        argv[argc] = words[argc];
    }
    char option[32];
    (void)snprintf(option, sizeof option, "%s", flag);
    argv[argc++] = option;
    argv[argc++] = file_path;
    argv[argc] = NULL;
    return options_read(COMMAND_WORKER, argc, argv, ret, f);
}

static void run_options(void *arg)
{
    (void)arg;
    struct options *o = NULL;
    struct fault f = {0};
    bool ok = read_options("--config", &o, &f);
    judge(ok, &f);
    if (ok) {
        assert_int_equal(option_items(o, OPTION_QUEUES), 3);
        options_free(o);
    }
}

static void test_options(void **state)
{
    (void)state;
    temporary_file("log-level = debug\nqueues = {d, e}\nhandler = {\"y=sleep 1\"}\n", file_path);
    judged(nth_each(run_options, NULL), "options and config file");
    (void)unlink(file_path);
}

static void run_handlers(void *arg)
{
    (void)arg;
    struct options *o = NULL;
    struct handlers hs = {0};
    struct fault f = {0};
    bool ok = read_options("--handlers", &o, &f) && handlers_load(o, &hs, &f);
    judge(ok, &f);
    if (ok) {
        assert_int_equal(hs.n, 3);
        handlers_clear(&hs);
    }
    options_free(o);
}

static void test_handlers(void **state)
{
    (void)state;
    temporary_file("handler \"a,b\" { command = {sh, -c, true} directory = \"/tmp\" }\n"
                   "handler c { command = sh mode = pool }\n",
                   file_path);
    judged(nth_each(run_handlers, NULL), "handlers file");
    (void)unlink(file_path);
}

/* --- lines ----------------------------------------------------------------------------------- */

static void run_lines(void *arg)
{
    (void)arg;
    static const char reply[] = "{\"id\":7,\"outcome\":\"done\",\"error\":\"x\",\"result\":[1,2]}";
    struct claim *c = claim_new(7, "default", "mail", NULL, "{\"a\": 1}", 8);
    struct buf b;
    struct event event = {.outcome = OUTCOME_NONE};
    struct fault f = {0};
    buf_init(&b, 1 << 20);
    if (c) {
        line_put_task(&b, c);
        char **env = line_environment(environ, c);
        assert_true(env || nth_struck());
        free(env);
    }
    assert_true(!c || b.failed == (b.len == 0 || buf_text(&b)[b.len - 1] != '\n'));
    bool ok = line_parse(reply, strlen(reply), &event, &f);
    judge(ok, &f);
    assert_true(!ok || (event.reply && strcmp(event.reply, "{\"result\":[1,2]}") == 0));
    free(event.reply);
    free(event.error);
    buf_clear(&b);
    claim_free(c);
}

static void test_lines(void **state)
{
    (void)state;
    judged(nth_each(run_lines, NULL), "lines");
}

static void run_exec(void *arg)
{
    (void)arg;
    struct child c = {0};
    struct event event = {.outcome = OUTCOME_NONE};
    buf_init(&c.output, 1000);
    buf_put_text(&c.output, "two\nlines");
    line_exec_outcome(&c, 0, "exit status 0", &event);
    assert_true(event.outcome == OUTCOME_DONE || nth_struck());
    if (event.outcome == OUTCOME_DONE && !c.output.failed) {
        assert_string_equal(event.reply, "{\"result\":\"two\\nlines\"}");
    }
    free(event.reply);
    free(event.error);
    event.reply = event.error = NULL;
    line_exec_outcome(&c, 1, "exit status 1", &event);
    assert_int_equal(event.outcome, OUTCOME_FAILED);
    free(event.error);
    buf_clear(&c.output);
}

static void test_exec(void **state)
{
    (void)state;
    judged(nth_each(run_exec, NULL), "results of exec");
}

/* --- small parts ----------------------------------------------------------------------------- */

static int count_wakeups(struct wakeup *list)
{
    const struct wakeup *w;
    int n = 0;
    DL_COUNT(list, w, n);
    wakeups_free(&list);
    return n;
}

static void run_small(void *arg)
{
    (void)arg;
    struct amqp_url url = {0};
    struct fault f = {0};
    struct pending l = {0};
    struct buf b;
    int added = 0, taken = 0;
    judge(amqp_url_parse("amqp://u:p@h:1/v", &url, &f), &f);
    amqp_url_clear(&url);
    for (int64_t id = 1; id <= 40; id++) {
        added += pending_add(&l, id % 2 ? &url : NULL, wakeup_new("tenon", "a", id));
    }
    taken += count_wakeups(pending_take(&l, &url));
    taken += count_wakeups(pending_take(&l, NULL));
    assert_int_equal(added, taken);
    assert_true(added == 40 || nth_struck());
    pending_clear(&l);
    buf_init(&b, 1 << 16);
    array_begin(&b);
    for (int i = 0; i < 1000; i++) {
        array_put_int(&b, i);
    }
    assert_true(array_end(&b) || nth_struck());
    buf_clear(&b);
}

static void test_small_parts(void **state)
{
    (void)state;
    judged(nth_each(run_small, NULL), "URL, pending, arrays");
}

/* --- the worker's head ----------------------------------------------------------------------- */

static struct claim *found(int64_t id)
{
    struct claim *c = claim_new(id, "default", "a", NULL, "{}", 2);
    if (c) {
        c->claims = 1;
        c->timeout_ms = 10000;
    }
    return c;
}

static void commit_found(struct decider *d, int64_t now, int64_t first, size_t n)
{
    struct claim *found_now[8];
    size_t got = 0;
    if (!d->rounds.in_flight) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct claim *c = found(first + (int64_t)i);
        if (c) {
            found_now[got++] = c;
        }
    }
    commit(d, now, found_now, got);
    (void)decide(d, now);
}

/* Claims, a reply, a failure, a wake-up, a lost round, a child that dies, the end. */
static void live(struct decider *d)
{
    static const int64_t ids[] = {21, 22, 23};
    present(d, 0);
    feed(d, 0, (struct event){.type = EVENT_BROKER, .up = true, .epoch = 1});
    (void)decide(d, 0);
    commit_found(d, 1, 1, 4);
    for (int slot = 0; slot < 2; slot++) {
        feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = slot, .room = 3});
    }
    (void)decide(d, 2);
    reply(d, 3, 1, OUTCOME_DONE);
    reply(d, 3, 2, OUTCOME_FAILED);
    feed(d, 4,
         (struct event){.type = EVENT_WAKEUPS, .epoch = 1, .ids = ids, .n = 3, .last_tag = 3});
    (void)decide(d, 4);
    commit_found(d, 5, 21, 2);
    feed(d, 6,
         (struct event){.type = EVENT_ROUND_FAILED,
                        .failure = FAILURE_UNKNOWN,
                        .text = "it broke"});
    (void)decide(d, 200);
    commit_found(d, 300, 30, 2);
    gone(d, 301, 0, "killed by signal 9");
    (void)decide(d, 301);
    commit_found(d, 302, 40, 1);
    feed(d, 303, (struct event){.type = EVENT_STOP});
    (void)decide(d, 30000);
    commit_found(d, 30001, 50, 0);
}

static void run_decider(void *arg)
{
    (void)arg;
    static const char *const kinds[] = {"a"};
    struct decider *d = decider_new(2, 1, kinds, pool_mode, 1000, false, 7, 0);
    assert_true(d || nth_struck());
    if (!d) {
        return;
    }
    live(d);
    decider_free(d);
}

static void test_decider(void **state)
{
    (void)state;
    judged(nth_each(run_decider, NULL), "decider");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),     cmocka_unit_test(test_handlers),
        cmocka_unit_test(test_lines),       cmocka_unit_test(test_exec),
        cmocka_unit_test(test_small_parts), cmocka_unit_test(test_decider),
    };
    return RUN_GROUP(tests);
}
