/* label: e2e */
/* only: all */
/* The flight recorder: what a worker recorded of an incident is replayed to the same actions, to
 * wherever the file is cut; what is not as then is named; and a disk that is full stops the
 * recording only. sim_record_test replays thousands of lives, in many files each. */
#include "tests/support/working.h"
#include "worker/record.h"
#include "worker/replay.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { CUT_EACH_BYTES = 1500, CUT_STEP_BYTES = 61, MANY = 1000 };

static void path_of(const struct fixture *fx, const char *name, char path[300])
{
    (void)snprintf(path, 300, "%s/%s", fx->dir, name);
}

static struct process *work(struct fixture *fx, const char *file)
{
    char pool[256];
    const char *const args[] = {"worker",
                                "--slots",
                                "2",
                                "--record",
                                file,
                                "--handler",
                                handler(pool, "a=pool:exec %s 1", "pool"),
                                "--handler",
                                "shell=exit 1",
                                NULL};
    return tenon_spawn(fx, args, NULL);
}

static int64_t enqueue(struct fixture *fx, const char *kind, const char *payload, const char *more)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('%s', '%s'%s)", kind, payload, more);
}

static void await_state(struct fixture *fx, int64_t id, const char *state)
{
    test_await(fx, LIMIT_MS, "SELECT state = '%s', t.* FROM tenon.tasks t WHERE id = %lld", state,
               (long long)id);
}

/* Retries, a timeout, a child that dies, a task that is cancelled while it runs, and good ends. */
static void incident(struct fixture *fx)
{
    int64_t failing = enqueue(fx, "a", "{\"do\": \"fail\", \"delay_ms\": 1, \"x\": \"hidden\"}",
                              ", max_attempts => 3");
    int64_t late = enqueue(fx, "a", "{\"do\": \"sleep\", \"ms\": 60000}", ", timeout => '100 ms'");
    int64_t crash = enqueue(fx, "a", "{\"do\": \"crash\"}", ", max_attempts => 1");
    int64_t shell = enqueue(fx, "shell", "{}", ", max_attempts => 1");
    int64_t result = enqueue(fx, "a", "{\"do\": \"result\", \"x\": \"hidden\"}", "");
    await_state(fx, failing, "dead");
    await_state(fx, late, "retrying");
    await_state(fx, crash, "dead");
    await_state(fx, shell, "dead");
    await_state(fx, result, "done");
    int64_t cancelled = enqueue(fx, "a", "{\"do\": \"sleep\", \"ms\": 60000}", "");
    await_state(fx, cancelled, "running");
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)cancelled);
    int64_t after = enqueue(fx, "a", "{\"do\": \"once later\", \"delay_ms\": 1}", "");
    await_state(fx, after, "done");
}

static char *replayed(struct fixture *fx, int code, const char *path)
{
    return TENON_RUN(fx, code, "replay", path);
}

static void test_an_incident_is_replayed(void **state)
{
    struct fixture *fx = *state;
    char path[300], older[310];
    path_of(fx, "recording", path);
    struct process *p = work(fx, path);
    incident(fx);
    end_well(p);
    char *text = file_text(path), *shown = replayed(fx, 0, path);
    assert_null(strstr(text, "hidden"));
    assert_null(strstr(text, "asked to"));
    assert_contains(shown, "log task_timed_out");
    assert_contains(shown, "log task_dead");
    assert_contains(shown, "-> slot");
    assert_contains(shown, "the worker ended here");
    free(shown);
    free(text);
    /* the next worker keeps what the last one recorded; this one is killed */
    p = work(fx, path);
    await_state(fx, enqueue(fx, "a", "{}", ""), "done");
    (void)enqueue(fx, "a", "{\"do\": \"sleep\", \"ms\": 60000}", "");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1 FROM tenon.tasks WHERE state = 'running'");
    process_kill(p);
    (void)snprintf(older, sizeof older, "%s.1", path);
    shown = replayed(fx, 0, older);
    assert_contains(shown, "the worker ended here");
    free(shown);
    shown = replayed(fx, 0, path);
    assert_contains(shown, "or the worker was killed");
    free(shown);
}

static void write_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void check_cut(const char *path, const char *bytes, size_t n, int64_t *events)
{
    struct replay sum;
    struct fault f = {0};
    write_bytes(path, bytes, n);
    bool ok = replay_file(path, NULL, &sum, &f);
    if (!ok) {
        assert_contains(f.text, "it is cut before its first event");
    }
    assert_int_equal(sum.end, REPLAY_CUT);
    assert_true(sum.events >= *events);
    *events = sum.events;
}

/* Whoever changes it on purpose. */
static void seal_again(char *text)
{
    uint32_t sum = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        size_t bytes = (size_t)(end - line) - RECORD_SUM_BYTES;
        record_seal(&sum, line, bytes, line + bytes);
    }
}

static void assert_refused(const char *path, const char *bytes, size_t n, const char *why)
{
    struct replay sum;
    struct fault f = {0};
    write_bytes(path, bytes, n);
    assert_false(replay_file(path, NULL, &sum, &f));
    assert_contains(f.text, why);
}

/* Any bit of it, but that of the last newline, without which it is cut. */
static void check_changed(const char *path, char *bytes, size_t n)
{
    for (size_t i = 0; i < n - 1; i += i < CUT_EACH_BYTES ? 1 : CUT_STEP_BYTES) {
        char was = bytes[i];
        bytes[i] = (char)(was ^ (1 << i % 8));
        assert_refused(path, bytes, n, "");
        bytes[i] = was;
    }
}

/* To where it is cut, and says so; and what was changed is found. */
static void test_a_recording_that_is_cut_or_changed(void **state)
{
    struct fixture *fx = *state;
    char path[300], cut[300];
    struct replay whole;
    struct fault f = {0};
    path_of(fx, "recording", path);
    path_of(fx, "cut", cut);
    struct process *p = work(fx, path);
    incident(fx);
    end_well(p);
    char *text = file_text(path);
    size_t n = strlen(text);
    int64_t events = 0;
    for (size_t i = 0; i < n;
         i += i < CUT_EACH_BYTES || n - i < CUT_EACH_BYTES ? 1 : CUT_STEP_BYTES) {
        check_cut(cut, text, i, &events);
    }
    assert_ok(replay_file(path, NULL, &whole, &f), &f);
    assert_int_equal(whole.end, REPLAY_ENDED);
    assert_int_equal(whole.events, events);
    char *reply = strstr(text, "\nR ");
    assert_non_null(reply);
    check_changed(cut, text, n);
    reply[1] = 'L'; /* a reply that never came */
    assert_refused(cut, text, n, "was changed");
    seal_again(text);
    assert_refused(cut, text, n, "then");
    free(text);
    free(replayed(fx, 1, cut));
    free(replayed(fx, 2, "/dev/null/none"));
}

static void test_a_full_disk(void **state)
{
    struct fixture *fx = *state;
    char path[300], command[1000], h[256];
    path_of(fx, "recording", path);
    (void)snprintf(command, sizeof command,
                   "ulimit -f 64; trap '' XFSZ; exec '%s' worker --record '%s' --handler '%s'",
                   tenon_program, path, handler(h, "a=pool:exec %s 16", "pool"));
    const char *const argv[] = {"sh", "-c", command, NULL};
    const char *const env[] = {"TEST_JOURNAL", NULL}; /* which would be full as well */
    struct process *p = process_spawn(fx, argv, env);
    test_sql(fx, "SELECT count(tenon.enqueue('a')) FROM generate_series(1, %d)", MANY);
    await_done(fx, MANY);
    process_await_line(p, "event=recording_stopped", LIMIT_MS);
    end_well(p);
    char *shown = replayed(fx, 0, path);
    assert_contains(shown, "it is cut here");
    free(shown);
}

static void test_a_file_that_cannot_be_had(void **state)
{
    struct fixture *fx = *state;
    char path[300];
    path_of(fx, "recording", path);
    struct process *p = work(fx, "/dev/null");
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    assert_int_equal(process_lines(p, "could not make the file /dev/null"), 1);
    p = work(fx, path);
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    struct process *second = work(fx, path);
    assert_int_equal(process_wait(second, LIMIT_MS), 2);
    assert_int_equal(process_lines(second, "another worker records to it"), 1);
    end_well(p);
    free(replayed(fx, 0, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_an_incident_is_replayed),
        WITH_DATABASE(test_a_recording_that_is_cut_or_changed),
        WITH_DATABASE(test_a_full_disk),
        WITH_DATABASE(test_a_file_that_cannot_be_had),
    };
    return RUN_GROUP(tests);
}
