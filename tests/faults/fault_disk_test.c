/* label: fault */
/* timeout: 120 */
/* long: 300 */
/* only: all */
/* What becomes of tasks when a disk of PostgreSQL's is full: the one with the tables, where what
 * must extend a file fails, and the one with the WAL, where the server ends itself and does not
 * come up again. A private PostgreSQL with both on small tmpfs, which are mounted for this program
 * and what it starts alone; where it may not mount anything, the tests are skipped, or fail when
 * TEST_NO_SKIP is set. Two workers, a cleaner and two producers go on through all of it. With
 * TEST_LONG set the disks stay full for longer. */
#include "tests/support/fleet.h"
#include "tests/support/servers.h"

#include "core/base/now.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BACKLOG = 1000,
    SERIES_MAX = 5, /* a round may find room for a moment */
    TABLES_MIB = 48,
    WAL_MIB = 128,
    MET_LIMIT_MS = 20000,
    RECOVERY_MS = 15000,
    CHECK_LIMIT_MS = 40000,
    BLOCK_BYTES = 4096,
};

static struct disk {
    char path[300], filler[320];
} tables, wal;

static struct fleet all; /* fx is NULL when nothing may be mounted */

/* --- small disks --- */

static bool put_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) {
        (void)close(fd);
    }
    return ok;
}

/* Who is not root may mount in a user namespace of his own, if the system lets him have one. */
static bool own_users(void)
{
    char uids[64], gids[64];
    (void)snprintf(uids, sizeof uids, "%d %d 1", (int)getuid(), (int)getuid());
    (void)snprintf(gids, sizeof gids, "%d %d 1", (int)getgid(), (int)getgid());
    return getuid() != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           put_text("/proc/self/setgroups", "deny") && put_text("/proc/self/uid_map", uids) &&
           put_text("/proc/self/gid_map", gids);
}

/* From now on what is mounted is seen by us and our children alone, and gone with the last one. */
static bool own_mounts(void)
{
    return (unshare(CLONE_NEWNS) == 0 || own_users()) &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static bool disk_open(struct disk *d, const char *beside, const char *name, int mib)
{
    char options[100], data[300];
    struct stat info;
    (void)snprintf(data, sizeof data, "%s", beside);
    assert_int_equal(stat(data, &info), 0);
    (void)snprintf(d->path, sizeof d->path, "%.280s/%s", dirname(data), name);
    (void)snprintf(d->filler, sizeof d->filler, "%s/filler", d->path);
    (void)snprintf(options, sizeof options, "size=%dm,mode=0700,uid=%d,gid=%d", mib,
                   (int)info.st_uid, (int)info.st_gid);
    return mkdir(d->path, 0700) == 0 && mount("tmpfs", d->path, "tmpfs", 0, options) == 0;
}

static void disk_fill(const struct disk *d)
{
    static const char block[BLOCK_BYTES];
    int fd = open(d->filler, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, block, sizeof block) > 0) {
    }
    assert_int_equal(errno, ENOSPC);
    (void)close(fd);
}

static void disk_free(const struct disk *d)
{
    assert_int_equal(unlink(d->filler), 0);
}

static void move_wal(const char *data)
{
    char command[1024];
    (void)snprintf(command, sizeof command,
                   "cp -a '%s/pg_wal/.' '%s' && rm -rf '%s/pg_wal' && ln -s '%s' '%s/pg_wal'", data,
                   wal.path, data, wal.path, data);
    assert_int_equal(system(command), 0);
}

static bool disks_open(void)
{
    PGconn *conn = sql_connect(test_env("DATABASE_URL"));
    sql_run(conn, "ALTER SYSTEM SET min_wal_size = '32MB'");
    sql_run(conn, "ALTER SYSTEM SET max_wal_size = '64MB'");
    PQfinish(conn);
    const char *data = test_env("TENON_PGDATA");
    server_do("stop");
    if (!own_mounts() || !disk_open(&tables, data, "disk-tables", TABLES_MIB) ||
        !disk_open(&wal, data, "disk-wal", WAL_MIB)) {
        print_message("no tmpfs can be mounted here (%s): that needs root, or user namespaces for "
                      "everybody\n",
                      strerror(errno));
        return false;
    }
    move_wal(data);
    server_do("start");
    return true;
}

/* --- start and end --- */

static void move_tables(struct fixture *fx)
{
    sql_run(fx->maintenance, "CREATE TABLESPACE small LOCATION '%s'", tables.path);
    PQfinish(fx->conn); /* nobody may use the database meanwhile */
    sql_run(fx->maintenance, "ALTER DATABASE %s SET TABLESPACE small", fx->database);
    fx->conn = sql_connect(fx->database_url);
}

static int start_all(void **state)
{
    void *fixture = NULL;
    struct fixture before = {.vhost = ""};
    server_open("postgres");
    server_vhost(&before, "fault_disk"); /* rabbitmqctl does not work in a user namespace */
    if (!disks_open()) {
        return 0;
    }
    if (fixture_setup_database(&fixture) != 0) {
        return -1;
    }
    struct fixture *fx = all.fx = fixture;
    move_tables(fx);
    memcpy(fx->vhost, before.vhost, sizeof fx->vhost);
    memcpy(fx->amqp_url, before.amqp_url, sizeof fx->amqp_url);
    declare(fx);
    fleet_start(&all, fx);
    *state = &all;
    return 0;
}

static void need_disks(void)
{
    if (all.fx) {
        return;
    }
    if (getenv("TEST_NO_SKIP")) {
        fail_msg("TEST_NO_SKIP is set, and no disk can be filled here");
    }
    print_message("skipped: no disk can be filled here\n"); /* tests/CMakeLists.txt looks for it */
    skip();
}

/* All that was placed has run, once; nobody was declared dead, no attempt was charged. */
static void check(const char *fault, int64_t recovery_ms)
{
    struct load_counts counts;
    load_check(all.fx, CHECK_LIMIT_MS, 0, &counts);
    assert_int_equal(process_lines(all.cleaner, "event=worker_dead"), 0);
    assert_int_equal(test_sql_int(all.fx, "SELECT count(*) FROM tenon.tasks WHERE failures > 0"),
                     0);
    print_message("%s: %lld ms to the next start; %lld placed, lost 0, rolled back 0, doubled 0\n",
                  fault, (long long)recovery_ms, (long long)counts.placed);
}

/* --- the faults --- */

static void test_tables_full(void **state)
{
    (void)state;
    need_disks();
    load_await_running(all.fx, 2);
    /* a full table stops producers first: workers must have something left to finish */
    test_sql(all.fx,
             "INSERT INTO public.placed SELECT tenon.enqueue('a', '{\"do\": \"sleep\", "
             "\"ms\": 10}') FROM generate_series(1, %d)",
             BACKLOG);
    int64_t failures = all.load.shared->failures;
    disk_fill(&tables);
    for (int i = 0; i < FLEET_WORKERS; i++) {
        process_await_line(all.workers[i], "No space left on device", MET_LIMIT_MS);
    }
    (void)poll(NULL, 0, load_is_long() ? 30000 : 4000); /* the time that the fault lasts */
    assert_true(all.load.shared->failures > failures);
    disk_free(&tables);
    int64_t recovery_ms = load_await_start(all.fx, load_now_ns(), RECOVERY_MS);
    for (int i = 0; i < FLEET_WORKERS; i++) {
        process_await_line(all.workers[i], "event=round_works", RECOVERY_MS);
        /* told once per series, not with each try */
        assert_in_range(process_lines(all.workers[i], "event=round_failed"), 1, SERIES_MAX);
    }
    check("the tables' disk full", recovery_ms);
}

/* What usually fills it: WAL that is kept for a standby which does not come for it. */
static void fill_wal(void)
{
    int64_t deadline_ms = patience_end_ms(MET_LIMIT_MS);
    PGconn *conn = sql_connect(all.fx->database_url);
    sql_run(conn, "SELECT pg_create_physical_replication_slot('absent', true)");
    disk_fill(&wal);
    while (PQstatus(conn) == CONNECTION_OK) {
        if (now_ms() > deadline_ms) {
            fail_msg("PostgreSQL still writes WAL after %d ms", MET_LIMIT_MS);
        }
        PQclear(PQexec(conn, "SELECT pg_switch_wal()"));
        (void)poll(NULL, 0, 5);
    }
    PQfinish(conn);
}

static void test_wal_full(void **state)
{
    (void)state;
    need_disks();
    load_await_running(all.fx, 2);
    pid_t postmaster = server_postmaster();
    fill_wal();
    server_signal(postmaster, 0);                       /* its recovery needs WAL too */
    (void)poll(NULL, 0, load_is_long() ? 15000 : 2000); /* the time that the fault lasts */
    disk_free(&wal);
    server_do("start");
    server_reconnect(all.fx);
    int64_t recovery_ms = load_await_start(all.fx, load_now_ns(), RECOVERY_MS);
    test_sql(all.fx, "SELECT pg_drop_replication_slot('absent')");
    check("the WAL's disk full", recovery_ms);
}

static void test_all_ends_well(void **state)
{
    (void)state;
    need_disks();
    load_stop(&all.load);
    if (load_is_long()) {
        fleet_await_judge(&all); /* whoever lost his lock in the crash would be dead now */
    }
    check("in the end", 0);
    fleet_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_full),
        cmocka_unit_test(test_wal_full),
        cmocka_unit_test(test_all_ends_well),
    };
    return cmocka_run_group_tests(tests, start_all, fleet_close);
}
