/* label: fault */
/* timeout: 180 */
/* only: all */
/* An older data directory is restored while workers run: each of them works again, and claims from
 * before are over when their workers are not there. A private PostgreSQL. */
#include "tests/support/held.h"
#include "tests/support/process.h"
#include "tests/support/servers.h"
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>

#define WITH_A_SERVER(test) cmocka_unit_test_setup_teardown(test, start, end)

enum { BACK_MS = 35000 };

static int start(void **state)
{
    server_open("postgres");
    return fixture_setup_database(state);
}

static int end(void **state)
{
    int code = fixture_teardown(state);
    server_close();
    return code;
}

static void shell(const char *format)
{
    char command[600];
    const char *data = test_env("TENON_PGDATA");
    (void)snprintf(command, sizeof command, format, data, data, data, data);
    assert_int_equal(system(command), 0);
}

/* A worker that is not there any more, and the claim of a task that it runs. */
static char *left_claim(struct fixture *fx)
{
    test_sql(fx, "INSERT INTO tenon.worker (host, pid, slots, queues, kinds)"
                 " VALUES ('there', 1, 1, '{default}', '{none}')");
    test_sql(fx, "SELECT tenon.enqueue('none')");
    test_sql(fx, "UPDATE tenon.task SET start_time = clock_timestamp(), claims = 1,"
                 " claim_key = id, worker_id = (SELECT id FROM tenon.worker WHERE host = 'there')");
    return test_sql_text(fx, "SELECT concat_ws('/', id, claims,"
                             " lpad(to_hex(claim_key), 16, '0')) FROM tenon.task");
}

static struct process *worker_of(struct fixture *fx, const char *kind)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%s=exec true", kind);
    struct process *p = TENON(fx, "worker", "--handler", text);
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    return p;
}

static void test_a_restore_in_place(void **state)
{
    struct fixture *fx = *state;
    struct process *workers[4];
    char kind[] = "w0";
    char *claim = left_claim(fx);
    workers[0] = worker_of(fx, "w0");
    server_do("stop");
    shell("cp -a %s %s.copy");
    server_do("start");
    server_reconnect(fx);
    for (int i = 1; i < 4; i++) { /* the copy does not know these */
        kind[1] = (char)('0' + i);
        workers[i] = worker_of(fx, kind);
    }
    server_do("stop");
    shell("rm -rf %s && mv %s.copy %s");
    server_do("start");
    server_reconnect(fx);
    struct process *cleaner = TENON(fx, "cleaner");
    test_await(fx, BACK_MS,
               "SELECT count(*) = 4 FROM tenon.worker WHERE lock_key IN"
               " (SELECT key FROM tenon.lock WHERE counts)");
    test_sql(fx, "SELECT tenon.enqueue('w' || i) FROM generate_series(0, 3) i");
    await_done(fx, 4);
    test_await(fx, BACK_MS, "SELECT start_time IS NULL FROM tenon.task");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.worker WHERE state = 'dead'"), 1);
    test_sql_fails(fx, "55000", "no longer valid", "SELECT tenon.finish('%s')", claim);
    assert_int_equal(process_lines(workers[0], "renewed=1"), 0);
    assert_int_equal(process_lines(workers[1], "renewed=1"), 1);
    for (int i = 0; i < 4; i++) {
        end_well(workers[i]);
    }
    end_well(cleaner);
    free(claim);
}

static void refused(struct fixture *fx, const char *claim)
{
    test_sql_fails(fx, "55000", "no longer valid", "SELECT tenon.finish('%s')", claim);
    test_sql_fails(fx, "55000", "no longer valid", "SELECT tenon.step('%s', 's')", claim);
    test_sql_fails(fx, "55000", "no longer valid", "SELECT tenon.progress('%s', '1')", claim);
    test_sql_fails(fx, "55000", "no longer valid", "SELECT tenon.extend('%s', '1 s')", claim);
}

static void claim_text(struct fixture *fx, int64_t id, char text[HELD_TEXT_BYTES])
{
    struct held c;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    assert_true(held_take(fx, worker, id, &c));
    assert_int_equal(c.claims, 1);
    held_text(&c, text);
}

/* Refused at once, no cleaner is needed; also when the task has a claim of the same number. */
static void test_a_claim_that_the_backup_does_not_know(void **state)
{
    struct fixture *fx = *state;
    char lost[HELD_TEXT_BYTES], valid[HELD_TEXT_BYTES];
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    server_do("stop");
    shell("cp -a %s %s.copy");
    server_do("start");
    server_reconnect(fx);
    claim_text(fx, id, lost);
    server_do("stop");
    shell("rm -rf %s && mv %s.copy %s");
    server_do("start");
    server_reconnect(fx);
    refused(fx, lost);
    claim_text(fx, id, valid);
    refused(fx, lost);
    test_sql(fx, "SELECT tenon.finish('%s')", valid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_SERVER(test_a_restore_in_place),
        WITH_A_SERVER(test_a_claim_that_the_backup_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
