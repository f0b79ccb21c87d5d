/* label: e2e */
/* timeout: 120 */
/* only: all */
/* `tenon status` and `tenon show`: what they say about tasks in every state, how far they count. */
#include "tests/support/process.h"

#include <jansson.h>
#include <stdio.h>

enum { LIMIT_MS = 30000, COUNTED_MAX = 100000 };

/* --- helpers -------------------------------------------------------------------------------- */

static json_t *run_json(struct fixture *fx, const char *command, const char *id)
{
    const char *const args[] = {command, "--json", id, NULL};
    char *out = tenon_run(fx, 0, args);
    json_error_t error;
    json_t *o = json_loads(out, 0, &error);
    if (!o) {
        fail_msg("%s: %s", error.text, out);
    }
    free(out);
    return o;
}

static json_t *show_json(struct fixture *fx, int64_t id)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)id);
    return run_json(fx, "show", text);
}

static char *show_text(struct fixture *fx, int64_t id)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)id);
    return TENON_RUN(fx, 0, "show", text);
}

static json_int_t number(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    if (!json_is_integer(value)) {
        fail_msg("\"%s\" is no number", key);
    }
    return json_integer_value(value);
}

static const char *text(const json_t *o, const char *key)
{
    const char *value = json_string_value(json_object_get(o, key));
    if (!value) {
        fail_msg("\"%s\" is no text", key);
    }
    return value;
}

/* The object in a list whose `key` is `value`. */
static json_t *element(const json_t *list, const char *key, const char *value)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (strcmp(text(json_array_get(list, i), key), value) == 0) {
            return json_array_get(list, i);
        }
    }
    fail_msg("there is no %s %s", key, value);
    return NULL;
}

static void assert_why(struct fixture *fx, int64_t id, const char *why, const char *words)
{
    json_t *o = show_json(fx, id);
    assert_string_equal(text(o, "why"), why);
    json_decref(o);
    char *out = show_text(fx, id);
    assert_contains(out, words);
    free(out);
}

/* A worker as it registers itself; `present`: the fixture's session holds its lock. */
static void make_worker(struct fixture *fx, const char *queues, const char *kinds, bool present)
{
    test_sql(fx,
             "INSERT INTO tenon.worker (host, pid, slots, queues, kinds) "
             "VALUES ('h1', 12, 4, '%s', '%s')",
             queues, kinds);
    if (present) {
        test_sql(fx, "SELECT pg_advisory_lock(lock_key) FROM tenon.worker"
                     " ORDER BY started_at DESC LIMIT 1");
    }
}

static void claim(struct fixture *fx, int64_t id)
{
    test_sql(fx,
             "UPDATE tenon.task SET start_time = clock_timestamp(), claim_key = id, "
             "claims = claims + 1, worker_id = "
             "(SELECT id FROM tenon.worker ORDER BY started_at LIMIT 1) WHERE id = %lld",
             (long long)id);
}

/* Put a claimed task back for this reason. */
static void requeue(struct fixture *fx, int64_t id, const char *reason, const char *error)
{
    assert_int_equal(
        test_sql_int(fx,
                     "SELECT count(*) FROM tenon.task t, LATERAL tenon.requeue(ARRAY[t.id], "
                     "ARRAY[t.claim_key], '{%s}', ARRAY[%s], '{NULL}') WHERE t.id = %lld",
                     reason, error, (long long)id),
        1);
}

/* --- status --------------------------------------------------------------------------------- */

static void test_status_of_nothing(void **state)
{
    struct fixture *fx = *state;
    char *out = TENON_RUN(fx, 0, "status");
    assert_contains(out, "schema tenon, version ");
    assert_contains(out, "no queue has tasks, workers or settings");
    assert_contains(out, "no workers");
    assert_null(strstr(out, "INTAKE"));
    free(out);
    json_t *o = run_json(fx, "status", NULL);
    assert_int_equal(json_array_size(json_object_get(o, "intake")), 0);
    assert_int_equal(json_array_size(json_object_get(o, "queues")), 0);
    assert_int_equal(json_array_size(json_object_get(o, "workers")), 0);
    assert_int_equal(json_array_size(json_object_get(o, "unhandled")), 0);
    json_decref(o);
}

static void test_status_counts_every_state(void **state)
{
    struct fixture *fx = *state;
    make_worker(fx, "{default,idle}", "{mail}", true);
    test_sql(fx, "SELECT tenon.enqueue_many('mail', array_fill('{}'::jsonb, '{7}'))"); /* 1 to 7 */
    test_sql(fx, "SELECT tenon.enqueue('mail', delay => '1 hour', priority => i) "
                 "FROM generate_series(0, 9) i");
    test_sql(fx, "SELECT tenon.enqueue('mail', queue => 'held', priority => 9)");
    test_sql(fx, "SELECT tenon.pause('held'), tenon.set_queue('empty', priority => 4)");
    for (int64_t id = 1; id <= 4; id++) {
        claim(fx, id);
    }
    requeue(fx, 1, "failed", "'boom'");
    requeue(fx, 2, "dead", "'never'");
    test_sql(fx, "SELECT tenon.cancel(5)");
    test_sql(fx, "SELECT tenon.finish(concat_ws('/', id, claims, "
                 "lpad(to_hex(claim_key), 16, '0'))) FROM tenon.task WHERE id = 3");
    test_sql(fx, "INSERT INTO tenon.minute (minute, queue, kind, worker_id, done, failed, dead)"
                 " SELECT date_trunc('minute', now() - ago), 'q', 'a', gen_random_uuid(),"
                 " done, failed, dead FROM (VALUES (interval '1 min', 3, 2, 1),"
                 " ('2 hours', 7, 0, 0), ('25 hours', 9, 9, 9)) v (ago, done, failed, dead)");
    json_t *o = run_json(fx, "status", NULL);
    json_t *queues = json_object_get(o, "queues");
    assert_int_equal(json_array_size(queues), 4);
    assert_int_equal(number(element(queues, "queue", "idle"), "ready"), 0);
    json_t *q = element(queues, "queue", "default");
    assert_int_equal(number(q, "ready"), 2);
    assert_int_equal(number(q, "running"), 1);
    assert_int_equal(number(q, "scheduled"), 10);
    assert_int_equal(number(q, "retrying"), 1);
    assert_int_equal(number(q, "dead"), 1);
    assert_true(number(q, "oldest_ready_s") < 60);
    assert_true(json_is_false(json_object_get(q, "paused")));
    assert_true(json_is_false(json_object_get(q, "at_least")));
    q = element(queues, "queue", "held");
    assert_int_equal(number(q, "ready"), 1);
    assert_true(json_is_true(json_object_get(q, "paused")));
    assert_true(json_is_null(json_object_get(element(queues, "queue", "empty"), "oldest_ready_s")));
    json_t *counts = json_object_get(o, "counts");
    assert_int_equal(number(counts, "done_last_hour"), 3);
    assert_int_equal(number(counts, "failed_last_hour"), 2);
    assert_int_equal(number(counts, "died_last_hour"), 1);
    assert_int_equal(number(counts, "done_last_day"), 10);
    assert_int_equal(number(counts, "failed_last_day"), 2);
    assert_int_equal(number(counts, "died_last_day"), 1);
    json_t *worker = json_array_get(json_object_get(o, "workers"), 0);
    assert_string_equal(text(worker, "host"), "h1");
    assert_int_equal(number(worker, "running"), 1);
    assert_int_equal(number(worker, "slots"), 4);
    /* the kind in the paused queue waits for the queue, not for a worker */
    assert_int_equal(json_array_size(json_object_get(o, "unhandled")), 0);
    json_decref(o);
    char *out = TENON_RUN(fx, 0, "status");
    assert_contains(out, "paused");
    assert_contains(out, "SCHEDULED");
    assert_contains(out, "last hour: 3 done, 2 failed attempts, 1 dead\n");
    free(out);
}

static void test_status_knows_who_is_present(void **state)
{
    struct fixture *fx = *state;
    make_worker(fx, "{default}", "{mail}", true);
    json_t *o = run_json(fx, "status", NULL);
    json_t *worker = json_array_get(json_object_get(o, "workers"), 0);
    assert_string_equal(text(worker, "state"), "alive");
    assert_true(json_is_true(json_object_get(worker, "present")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(worker, "kinds"), 0)),
                        "mail");
    json_decref(o);
    test_sql(fx, "SELECT pg_advisory_unlock_all()");
    char *out = TENON_RUN(fx, 0, "status");
    assert_contains(out, "alive, gone");
    free(out);
    test_sql(fx, "UPDATE tenon.worker SET state = 'left', ended_at = now()");
    out = TENON_RUN(fx, 0, "status");
    assert_contains(out, "no workers");
    free(out);
}

static void test_status_names_kinds_that_nobody_handles(void **state)
{
    struct fixture *fx = *state;
    make_worker(fx, "{default}", "{mail}", true);
    test_sql(fx, "SELECT tenon.enqueue('mail'), tenon.enqueue('fax'), tenon.enqueue('fax'), "
                 "tenon.enqueue('mail', queue => 'slow'), tenon.enqueue('fax', delay => '1 hour')");
    json_t *o = run_json(fx, "status", NULL);
    json_t *unhandled = json_object_get(o, "unhandled");
    assert_int_equal(json_array_size(unhandled), 2);
    assert_int_equal(number(element(unhandled, "kind", "fax"), "ready"), 2);
    assert_string_equal(text(element(unhandled, "kind", "mail"), "queue"), "slow");
    json_decref(o);
    char *out = TENON_RUN(fx, 0, "status");
    assert_contains(out, "no living worker handles the kind fax in the queue default: 2 ready");
    free(out);
}

/* Of tenon intake: one that takes messages, one that cannot, one that was killed. */
static void test_status_of_intake(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx,
             "INSERT INTO tenon.intake (queue, host, pid, is_stream, version, started_at, seen_at,"
             " taken, repeated, rejected, kept, unkeyed, error, error_since) VALUES"
             " ('a', 'h', 7, false, '1', '2026-11-28 08:00:00Z', now(), 12, 3, 1, 0, 2, NULL,"
             " NULL), ('b', 'h', 7, true, '1', now(), now(), 0, 0, 0, 0, 0, 'no stream b',"
             " now()), ('c', 'h', 8, false, '1', now(), now() - interval '701 s', 0, 0, 0, 0, 0,"
             " NULL, NULL)");
    char *out = TENON_RUN(fx, 0, "status");
    assert_contains(out, "\nINTAKE  HOST  PID  STATE             TAKEN  REPEATED  REJECTED  SINCE\n"
                         "a       h       7  taking               12         3         1  "
                         "2026-11-28T08:00:00Z\n"
                         "b       h       7  waiting  ");
    assert_contains(out, "\nc       h       8  silent for 7");
    assert_contains(out, "\nb (h, pid 7): no stream b\n");
    free(out);
    json_t *o = run_json(fx, "status", NULL);
    json_t *intake = json_object_get(o, "intake"), *a = element(intake, "queue", "a");
    assert_string_equal(text(a, "state"), "taking");
    assert_true(json_is_null(json_object_get(a, "error")));
    assert_int_equal(number(a, "taken"), 12);
    assert_int_equal(number(a, "unkeyed"), 2);
    json_t *b = element(intake, "queue", "b"), *c = element(intake, "queue", "c");
    assert_string_equal(text(b, "state"), "waiting");
    assert_string_equal(text(b, "error"), "no stream b");
    assert_true(json_is_true(json_object_get(b, "is_stream")));
    assert_string_equal(text(c, "state"), "silent");
    assert_true(number(c, "silent_s") >= 701);
    json_decref(o);
}

/* A producer may make up as many names as he likes. */
static void test_status_of_thousands_of_queues(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('mail', queue => 'a' || i) FROM generate_series(1, 3000) i");
    test_sql(fx, "SELECT tenon.enqueue('mail', queue => q) FROM unnest('{yy,zz}'::text[]) q");
    test_sql(fx, "SELECT tenon.pause('yy')");
    make_worker(fx, "{zz}", "{fax}", true);
    json_t *o = run_json(fx, "status", NULL);
    json_t *queues = json_object_get(o, "queues");
    assert_int_equal(json_array_size(queues), 1000);
    assert_true(json_is_true(json_object_get(element(queues, "queue", "yy"), "paused")));
    assert_int_equal(number(element(queues, "queue", "zz"), "ready"), 1);
    assert_int_equal(number(element(json_object_get(o, "unhandled"), "queue", "zz"), "ready"), 1);
    json_decref(o);
    char *out = TENON_RUN(fx, 0, "status");
    assert_contains(out, "(only 1000 queues");
    free(out);
}

static void test_status_stops_counting(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority, delayed, "
        "announced, queue, kind, payload) "
        "SELECT now() - interval '90 s', now(), 1000, 25, i %% 10, "
        "false, false, 'default', 'mail', '{}' FROM generate_series(1, %d) i",
        COUNTED_MAX + 1000);
    json_t *o = run_json(fx, "status", NULL);
    json_t *q = element(json_object_get(o, "queues"), "queue", "default");
    assert_int_equal(number(q, "ready"), COUNTED_MAX);
    assert_true(number(q, "oldest_ready_s") >= 90);
    assert_true(json_is_true(json_object_get(q, "at_least")));
    json_decref(o);
    char *out = TENON_RUN(fx, 0, "status");
    assert_contains(out, " 100000+ ");
    assert_contains(out, "(+: a lower bound");
    free(out);
    test_sql(fx, "SELECT tenon.count_depth()"); /* as the cleaner that leads */
    test_sql(fx, "UPDATE tenon.depth_count SET counted_at = counted_at - interval '12 s'");
    o = run_json(fx, "status", NULL);
    q = element(json_object_get(o, "queues"), "queue", "default");
    assert_int_equal(number(q, "ready"), COUNTED_MAX + 1000);
    assert_true(number(q, "age_s") >= 12);
    assert_true(json_is_false(json_object_get(q, "at_least")));
    json_decref(o);
    out = TENON_RUN(fx, 0, "status");
    assert_contains(out, " 101000 ");
    assert_contains(out, "as of 1");
    assert_contains(out, " s ago\n");
    assert_null(strstr(out, "a lower bound"));
    free(out);
}

/* Is there a line in which each of these is more than nothing, and one worker lives? */
static bool watched_all(struct process *p)
{
    static const char *const rates[] = {"arrived_per_s", "ended_per_s", "failed_per_s",
                                        "died_per_s"};
    char *out = file_text(p->out), *rest = out;
    bool all = false;
    for (char *line; !all && (line = strsep(&rest, "\n"));) {
        json_t *o = json_loads(line, 0, NULL); /* NULL: it is not whole yet */
        all = o && json_integer_value(json_object_get(o, "workers")) == 1 &&
              json_integer_value(json_object_get(o, "slots")) == 3;
        for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
            all = all && json_number_value(json_object_get(o, rates[i])) > 0;
        }
        json_decref(o);
    }
    free(out);
    return all;
}

/* With a worker, whose sessions tell PostgreSQL's counters about once a second what they did. */
static void test_watch_counts_ends(void **state)
{
    struct fixture *fx = *state;
    struct process *worker = TENON(fx, "worker", "--slots", "3", "--handler", "good=true",
                                   "--handler", "bad=exit 1");
    struct process *p = TENON(fx, "status", "--watch", "--json");
    while (!watched_all(p)) {
        assert_false(process_is_gone(p));
        test_sql(fx, "SELECT tenon.enqueue('good'), tenon.enqueue('bad', max_attempts => 1)");
        test_flush_statistics(fx);
        test_await(fx, LIMIT_MS, "SELECT NOT EXISTS (SELECT FROM tenon.task)");
    }
    process_kill(p);
    process_kill(worker);
}

/* --- show ----------------------------------------------------------------------------------- */

static void test_show_says_why(void **state)
{
    struct fixture *fx = *state;
    make_worker(fx, "{default,held}", "{mail}", true);
    test_sql(fx, "SELECT tenon.pause('held')");
    int64_t ready = test_sql_int(fx, "SELECT tenon.enqueue('mail')");
    assert_why(fx, ready, "no_free_slot", "waits for a free slot, behind 0 tasks");
    int64_t due = test_sql_int(fx, "SELECT tenon.enqueue('mail', delay => '2 hours')");
    assert_why(fx, due, "not_due", "It is due at ");
    assert_why(fx, due, "not_due", "(in 0");
    int64_t held = test_sql_int(fx, "SELECT tenon.enqueue('mail', queue => 'held')");
    assert_why(fx, held, "queue_paused", "The queue held is paused");
    int64_t fax = test_sql_int(fx, "SELECT tenon.enqueue('fax')");
    assert_why(fx, fax, "no_worker", "No living worker handles the kind fax in the queue default");
    int64_t slow = test_sql_int(fx, "SELECT tenon.enqueue('mail', queue => 'slow')");
    assert_why(fx, slow, "no_worker", "No living worker handles the kind mail in the queue slow");
    claim(fx, ready);
    assert_why(fx, ready, "running", "It runs on h1, pid 12, claimed ");
    requeue(fx, ready, "failed", "'boom'");
    assert_why(fx, ready, "not_due", "retrying");
    test_sql(fx, "UPDATE tenon.worker SET state = 'draining'");
    int64_t late = test_sql_int(fx, "SELECT tenon.enqueue('mail')");
    assert_why(fx, late, "no_worker", "No living worker");
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)late);
    assert_why(fx, late, "ended", "cancelled");
    char *out = show_text(fx, late);
    assert_null(strstr(out, "(ran")); /* it never ran */
    free(out);
}

static void test_show_says_what_to_do_about_a_dead_one(void **state)
{
    struct fixture *fx = *state;
    make_worker(fx, "{default}", "{mail}", true);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('mail')");
    claim(fx, id);
    requeue(fx, id, "dead", "'boom'");
    assert_why(fx, id, "ended", "Dead since ");
    assert_why(fx, id, "ended", "can never work: boom");
    assert_why(fx, id, "ended", "once the cause is fixed: tenon retry ");
}

static void test_show_keeps_every_digit(void **state)
{
    struct fixture *fx = *state;
    static const char big[] = "12345678901234567890.1234567890123456789";
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('mail', '{\"n\": %s}')", big);
    char id_text[32];
    (void)snprintf(id_text, sizeof id_text, "%lld", (long long)id);
    char *out = TENON_RUN(fx, 0, "show", id_text, "--json");
    assert_contains(out, big);
    free(out);
    out = show_text(fx, id);
    assert_contains(out, big);
    free(out);
}

static void test_show_is_harmless_on_a_terminal(void **state)
{
    struct fixture *fx = *state;
    make_worker(fx, "{default}", "{mail}", true);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('mail', jsonb_build_object('x', "
                                  "U&'\\009b31m\\202e\\007f \\00e4'))");
    claim(fx, id);
    requeue(fx, id, "dead", "E'one\\ntwo \\x1b[31mred\\x07'");
    char *out = show_text(fx, id);
    assert_contains(out, "last error     one\n");
    assert_contains(out, "two \\x1b[31mred\\x07\n");
    assert_contains(out, "\\u009b31m\\u202e\\x7f \xC3\xA4");
    for (const unsigned char *c = (const unsigned char *)out; *c; c++) {
        assert_true((*c >= 0x20 && *c != 0x7F) || *c == '\n');
    }
    assert_contains(out, "reason         handler\n");
    free(out);
    json_t *o = show_json(fx, id);
    assert_string_equal(text(o, "last_error"), "one\ntwo \x1b[31mred\x07");
    assert_string_equal(text(o, "dead_reason"), "handler");
    assert_string_equal(text(o, "state"), "dead");
    json_decref(o);
}

/* Of a long stack trace, both ends: in some languages what failed is first, in others last. */
static void test_show_has_both_ends_of_an_error(void **state)
{
    struct fixture *fx = *state;
    make_worker(fx, "{default}", "{mail}", true);
    int64_t short_one = test_sql_int(fx, "SELECT tenon.enqueue('mail')");
    claim(fx, short_one);
    requeue(fx, short_one, "failed", "E'1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\nten'");
    char *out = show_text(fx, short_one);
    assert_null(strstr(out, "more lines"));
    assert_contains(out, " 5\n");
    assert_contains(out, " ten\n");
    free(out);
    int64_t long_one = test_sql_int(fx, "SELECT tenon.enqueue('mail')");
    claim(fx, long_one);
    requeue(fx, long_one, "failed", "E'1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n10\\neleven'");
    out = show_text(fx, long_one);
    assert_contains(out, " 4\n");
    assert_contains(out, " ... 2 more lines (--json shows all)\n");
    assert_contains(out, " 7\n");
    assert_contains(out, " eleven\n");
    assert_null(strstr(out, " 5\n"));
    assert_null(strstr(out, " 6\n"));
    free(out);
}

/* A task of a kind, whose only attempt ends as it must; then a part of what is said of that. */
static void assert_attempt(struct fixture *fx, const char *kind, const char *parts)
{
    char part_of[300], *rest = part_of;
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('%s', max_attempts => 1, timeout => '1 s')",
                              kind);
    test_await(fx, LIMIT_MS, "SELECT state = 'dead' FROM tenon.tasks WHERE id = %lld",
               (long long)id);
    char *out = show_text(fx, id);
    (void)snprintf(part_of, sizeof part_of, "%s", parts);
    for (char *part; (part = strsep(&rest, "|"));) {
        assert_contains(out, part);
    }
    char *where = test_sql_text(fx, "SELECT ' on ' || host || ', worker ' || id FROM tenon.worker");
    assert_contains(out, where);
    free(where);
    free(out);
}

/* Of each attempt: when, how it ended, on whom, and the last lines of what it said. */
static void test_show_tells_of_attempts(void **state)
{
    struct fixture *fx = *state;
    struct process *p = TENON(fx, "worker", "--handler",
                              "exit=printf 'one\\n2\\n3\\n4\\n5\\nsix\\n' >&2; exit 3", "--handler",
                              "trace=printf 'Traceback:\\n at x\\nValueError: bad\\n' >&2; exit 1",
                              "--handler", "killed=echo dying >&2; kill -9 $$", "--handler",
                              "slow=echo so slow >&2; exec sleep 60");
    assert_attempt(
        fx, "exit",
        " UTC: failed (exit_3, exit 3) after 00:00:0|\n               2\n|\n               six\n");
    assert_attempt(
        fx, "trace",
        " UTC: failed (ValueError, exit 1) after 00:00:0|\n               exit status 1: "
        "Traceback:\n                at x\n               ValueError: bad\n");
    assert_attempt(fx, "killed", " UTC: failed (signal_9, signal 9) after |dying\n");
    assert_attempt(fx, "slow", " UTC: timed_out (timeout) after 00:00:0|so slow\n");
    process_kill(p);
}

static void test_show_of_no_task(void **state)
{
    struct fixture *fx = *state;
    static const struct {
        const char *id;
        int code;
        const char *words;
    } bad[] = {{"17", 1, "there is no task 17"},
               {"0", 1, "there is no task 0"},
               {"abc", 2, "abc"},
               {"1x", 2, "at most 18 digits"},
               {"9999999999999999999", 2, "at most 18 digits"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct process *p = TENON(fx, "show", bad[i].id);
        assert_int_equal(process_wait(p, LIMIT_MS), bad[i].code);
        char *log = file_text(p->log);
        assert_contains(log, bad[i].words);
        free(log);
        char *out = file_text(p->out);
        assert_string_equal(out, "");
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_status_of_nothing),
        WITH_DATABASE(test_status_counts_every_state),
        WITH_DATABASE(test_status_knows_who_is_present),
        WITH_DATABASE(test_status_names_kinds_that_nobody_handles),
        WITH_DATABASE(test_status_of_intake),
        WITH_DATABASE(test_status_of_thousands_of_queues),
        WITH_DATABASE(test_status_stops_counting),
        WITH_DATABASE(test_watch_counts_ends),
        WITH_DATABASE(test_show_says_why),
        WITH_DATABASE(test_show_says_what_to_do_about_a_dead_one),
        WITH_DATABASE(test_show_keeps_every_digit),
        WITH_DATABASE(test_show_is_harmless_on_a_terminal),
        WITH_DATABASE(test_show_has_both_ends_of_an_error),
        WITH_DATABASE(test_show_tells_of_attempts),
        WITH_DATABASE(test_show_of_no_task),
    };
    return RUN_GROUP(tests);
}
