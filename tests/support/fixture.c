#include "tests/support/fixture.h"

#include "core/base/now.h"
#include "tests/support/broker.h"
#include "tests/support/process.h"
#include "tests/support/template.h"
#include "tests/support/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { VHOSTS = 16, VHOST_LIMIT_MS = 60000, VHOST_PAUSE_MS = 10 };

const char *test_env(const char *name)
{
    const char *value = getenv(name);
    if (!value || !*value) {
        fail_msg("%s is not set: run script/test, or eval \"$(script/services env)\"", name);
    }
    return value;
}

void url_with_path(const char *url, const char *path, char *ret, size_t size)
{
    const char *host = strstr(url, "://");
    const char *slash = host ? strrchr(host + 3, '/') : NULL;
    if (!host ||
        (size_t)snprintf(ret, size, "%.*s/%s", (int)((slash ? slash : url + strlen(url)) - url),
                         url, path) >= size) {
        fail_msg(
            "DATABASE_URL and AMQP_URL must be URLs such as postgresql://user:word@host:port/name");
    }
}

/* Databases of tests whose process is gone without having cleaned up: test_<pid>_<n>. */
static void drop_leftovers(PGconn *maintenance)
{
    PGresult *result = PQexec(maintenance,
                              "SELECT datname, split_part(datname, '_', 2) FROM pg_database "
                              "WHERE datname ~ '^test_[0-9]+_[0-9]+$'");
    for (int i = 0; i < PQntuples(result); i++) {
        pid_t pid = (pid_t)strtol(PQgetvalue(result, i, 1), NULL, 10);
        if (kill(pid, 0) != 0 && errno == ESRCH) {
            sql_run(maintenance, "DROP DATABASE IF EXISTS %s WITH (FORCE)",
                    PQgetvalue(result, i, 0));
        }
    }
    PQclear(result);
}

static void make_database(struct fixture *fx)
{
    static int count;
    char template[TEMPLATE_NAME_BYTES];
    const char *url = test_env("DATABASE_URL");
    fx->maintenance = sql_connect(url);
    if (count == 0) {
        drop_leftovers(fx->maintenance);
    }
    template_make(fx->maintenance, url, template);
    (void)snprintf(fx->database, sizeof fx->database, "test_%d_%d", (int)getpid(), ++count);
    sql_run(fx->maintenance, "CREATE DATABASE %s TEMPLATE %s", fx->database, template);
    url_with_path(url, fx->database, fx->database_url, sizeof fx->database_url);
    fx->conn = sql_connect(fx->database_url);
    sql_run(fx->conn,
            "UPDATE tenon.home h SET database = d.oid FROM pg_database d WHERE d.datname ="
            " current_database();"
            "UPDATE tenon.partition SET begun_at = now()"); /* the template is older */
}

/* Whoever holds the lock (hashtext('tenon tests'), n) on the maintenance
 * database owns the virtual host t<n>. */
static int lock_vhost(PGconn *maintenance)
{
    for (int64_t end_ms = patience_end_ms(VHOST_LIMIT_MS); now_ms() < end_ms;) {
        for (int n = 1; n <= VHOSTS; n++) {
            if (sql_bool(maintenance, "SELECT pg_try_advisory_lock(hashtext('tenon tests'), %d)",
                         n)) {
                return n;
            }
        }
        (void)poll(NULL, 0, VHOST_PAUSE_MS);
    }
    fail_msg("all of the virtual hosts t1 to t%d are in use", VHOSTS);
    return 0;
}

/* script/test makes them all in one go; here only for somebody who runs a test program by hand. */
static struct broker *open_vhost(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    if (!b) {
        char command[1024];
        (void)snprintf(command, sizeof command, "%s vhosts %s >&2", test_env("TENON_SERVICES"),
                       fx->vhost);
        if (system(command) != 0) {
            fail_msg("could not make the virtual host %s: %s", fx->vhost, command);
        }
        b = broker_open(fx->amqp_url);
    }
    if (!b) {
        fail_msg("the virtual host %s does not exist: script/services vhosts %d", fx->vhost,
                 VHOSTS);
    }
    return b;
}

static void make_vhost(struct fixture *fx)
{
    const char *url = test_env("AMQP_URL");
    (void)snprintf(fx->vhost, sizeof fx->vhost, "t%d", lock_vhost(fx->maintenance));
    url_with_path(url, fx->vhost, fx->amqp_url, sizeof fx->amqp_url);
    struct broker *b = open_vhost(fx);
    broker_delete_queue(b, "default/a");
    broker_delete_queue(b, "default/mail");
    broker_delete_exchange(b);
    broker_declare_exchange(b);
    broker_close(b);
}

/* AMQP cannot list queues; but every queue of a test is named in its database, or has one of two
 * usual names. */
static void empty_vhost(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    PGresult *result = PQexec(fx->conn, "SELECT queue || '/' || kind FROM tenon.tasks UNION "
                                        "SELECT q || '/' || k FROM tenon.worker, unnest(queues) q, "
                                        "unnest(kinds) k UNION SELECT name FROM tenon.queue UNION "
                                        "SELECT unnest(ARRAY['default/a', 'default/mail'])");
    for (int i = 0; b && i < PQntuples(result); i++) {
        broker_delete_queue(b, PQgetvalue(result, i, 0));
    }
    PQclear(result);
    if (b) {
        broker_delete_exchange(b);
    }
    broker_close(b);
}

static void make_dir(struct fixture *fx)
{
    temporary_directory("tenon-test", fx->dir, sizeof fx->dir);
    (void)snprintf(fx->journal, sizeof fx->journal, "%s/journal", fx->dir);
}

static void remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char file[512];
        (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlink(file) != 0) {
            remove_dir(file);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    (void)rmdir(path);
}

static struct fixture *current;

static void print_logs(void)
{
    processes_print(current);
}

int fixture_setup_database(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    *state = current = fx;
    sql_when_late = print_logs;
    make_database(fx); /* first, as it fails where there are no servers */
    make_dir(fx);
    return 0;
}

int fixture_setup(void **state)
{
    int failed = fixture_setup_database(state);
    make_vhost(*state);
    return failed;
}

/* Whatever the test did: start_time, claim_key and worker_id go together, and step_count and
 * step_bytes are those of the task's steps. Claims rely on it, and no CHECK of the table says so.
 * Where there is no table, that is right as well. */
static bool tasks_are_whole(const struct fixture *fx)
{
    PGconn *conn = PQconnectdb(fx->database_url);
    PGresult *torn = PQexec(
        conn,
        "SELECT t.id FROM tenon.task t CROSS JOIN LATERAL (SELECT nullif(count(*), 0) AS n,"
        " octet_length(jsonb_object_agg(s.name, s.value)::text) AS bytes FROM tenon.task_step s"
        " WHERE s.task_id = t.id) s"
        " WHERE num_nulls(t.start_time, t.claim_key, t.worker_id) NOT IN (0, 3)"
        " OR (t.step_count, t.step_bytes) IS DISTINCT FROM (s.n, s.bytes)");
    int n = PQntuples(torn);
    if (n > 0) {
        print_error("task %s has only some of start_time, claim_key and worker_id, or other steps"
                    " than step_count and step_bytes say\n",
                    PQgetvalue(torn, 0, 0));
    }
    PQclear(torn);
    PQfinish(conn);
    return n == 0;
}

int fixture_teardown(void **state)
{
    struct fixture *fx = *state;
    sql_when_late = NULL;
    processes_end(fx);
    bool whole = tasks_are_whole(fx);
    if (*fx->vhost) {
        empty_vhost(fx);
    }
    PQfinish(fx->conn);
    sql_run(fx->maintenance, "DROP DATABASE %s WITH (FORCE)", fx->database);
    PQfinish(fx->maintenance);
    if (getenv("TEST_KEEP")) {
        print_message("kept: %s\n", fx->dir);
    } else {
        remove_dir(fx->dir);
    }
    free(fx);
    return whole ? 0 : -1;
}
