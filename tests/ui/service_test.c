/* label: e2e */
/* What worker and cleaner tell a service manager (Type=notify): a socket of the test's own stands
 * for systemd's. */
#include "tests/support/working.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct manager {
    int fd;
    char socket[160];
};

static struct manager manager_open(void)
{
    struct manager m = {.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(m.fd >= 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "/tmp/tenon-notify.%d", getpid());
    (void)unlink(address.sun_path);
    assert_int_equal(bind(m.fd, (struct sockaddr *)&address, sizeof address), 0);
    (void)snprintf(m.socket, sizeof m.socket, "NOTIFY_SOCKET=%s", address.sun_path);
    return m;
}

static void manager_close(struct manager *m)
{
    (void)unlink(strchr(m->socket, '=') + 1);
    (void)close(m->fd);
}

/* What it is told next. */
static void hears(const struct manager *m, const char *expected)
{
    char text[64] = "";
    struct pollfd fd = {.fd = m->fd, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, LIMIT_MS * PATIENCE), 1);
    ssize_t n = recv(m->fd, text, sizeof text - 1, 0);
    assert_true(n > 0);
    assert_string_equal(text, expected);
}

/* What it is told next but signs of life. */
static void hears_at_last(const struct manager *m, const char *expected)
{
    char text[64];
    do {
        struct pollfd fd = {.fd = m->fd, .events = POLLIN};
        assert_int_equal(poll(&fd, 1, LIMIT_MS * PATIENCE), 1);
        memset(text, 0, sizeof text);
        assert_true(recv(m->fd, text, sizeof text - 1, 0) > 0);
    } while (strcmp(text, "WATCHDOG=1") == 0);
    assert_string_equal(text, expected);
}

static void test_a_worker_is_ready_lives_and_stops(void **state)
{
    struct fixture *fx = *state;
    struct manager m = manager_open();
    char kept[256], command[320];
    (void)snprintf(kept, sizeof kept, "%s/env", fx->dir);
    (void)snprintf(command, sizeof command, "a=env >'%s'", kept);
    const char *const args[] = {"worker", "--slots", "1", "--handler", command, NULL};
    const char *const env[] = {m.socket, "WATCHDOG_USEC=20000000", NULL};
    struct process *p = tenon_spawn(fx, args, env);
    hears(&m, "READY=1");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.worker"), 1);
    hears(&m, "WATCHDOG=1");
    test_sql(fx, "SELECT tenon.enqueue('a')");
    await_done(fx, 1);
    char *seen = file_text(kept); /* handlers are no part of the service's protocol */
    assert_contains(seen, "TENON_TASK_ID=");
    assert_null(strstr(seen, "NOTIFY_SOCKET"));
    assert_null(strstr(seen, "WATCHDOG_"));
    free(seen);
    process_signal(p, SIGTERM);
    hears_at_last(&m, "STOPPING=1");
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    manager_close(&m);
}

/* One leads, the other stands by: both do their work. */
static void test_cleaners_are_ready_live_and_stop(void **state)
{
    struct fixture *fx = *state;
    for (int i = 0; i < 2; i++) {
        struct manager m = manager_open();
        const char *const args[] = {"cleaner", NULL};
        const char *const env[] = {m.socket, "WATCHDOG_USEC=4000000", NULL};
        struct process *p = tenon_spawn(fx, args, env);
        hears_at_last(&m, "READY=1");
        hears(&m, "WATCHDOG=1");
        if (i == 1) {
            process_signal(p, SIGTERM);
            hears_at_last(&m, "STOPPING=1");
            assert_int_equal(process_wait(p, LIMIT_MS), 0);
        }
        manager_close(&m);
    }
}

/* It lives and is not ready. */
static void test_who_waits_for_the_database_is_not_ready(void **state)
{
    struct fixture *fx = *state;
    struct manager m = manager_open();
    const char *const args[] = {"cleaner", "--database-url", "postgresql:///?host=/nowhere", NULL};
    const char *const env[] = {m.socket, "WATCHDOG_USEC=400000", NULL};
    struct process *p = tenon_spawn(fx, args, env);
    hears(&m, "WATCHDOG=1");
    hears(&m, "WATCHDOG=1");
    process_signal(p, SIGTERM);
    hears_at_last(&m, "STOPPING=1");
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    manager_close(&m);
}

/* Another process's watchdog, and sockets that are none. */
static void test_what_is_not_meant_for_it(void **state)
{
    struct fixture *fx = *state;
    struct manager m = manager_open();
    const char *const args[] = {"cleaner", "--once", NULL};
    const char *const env[] = {m.socket, "WATCHDOG_USEC=4000", "WATCHDOG_PID=1", NULL};
    assert_int_equal(process_wait(tenon_spawn(fx, args, env), LIMIT_MS), 0);
    hears(&m, "READY=1");
    hears(&m, "STOPPING=1");
    static const char *const wrong[] = {"NOTIFY_SOCKET=/nowhere/at/all", "NOTIFY_SOCKET=relative",
                                        "NOTIFY_SOCKET=@tenon-nobody"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *const without[] = {wrong[i], NULL};
        assert_int_equal(process_wait(tenon_spawn(fx, args, without), LIMIT_MS), 0);
    }
    manager_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_worker_is_ready_lives_and_stops),
        WITH_DATABASE(test_cleaners_are_ready_live_and_stop),
        WITH_DATABASE(test_who_waits_for_the_database_is_not_ready),
        WITH_DATABASE(test_what_is_not_meant_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
