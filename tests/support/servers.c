#include "tests/support/servers.h"

#include "tests/support/port.h"
#include "tests/support/process.h"
#include "tests/support/temporary.h"

#include "core/base/now.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { END_LIMIT_MS = 20000, UP_LIMIT_MS = 30000, POLL_MS = 5, COMMAND_BYTES = 2048 };

static struct server {
    char base[256], state[300], service[16], postmaster_file[512];
    const char *url; /* the variable with its address */
    int alive;       /* 0 = never opened; its other end sees our death */
} servers[SERVERS_MAX], *server = servers;

void server_use(int n)
{
    assert_in_range(n, 0, SERVERS_MAX - 1);
    server = &servers[n];
}

/* A server that we start must not become our child: processes_end() ends all of those. */
static void run(const char *command)
{
    int subreaper = 0;
    (void)prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    int status = system(command);
    (void)prctl(PR_SET_CHILD_SUBREAPER, subreaper);
    if (status != 0) {
        fail_msg("%s: status %d", command, status);
    }
}

/* A shell that waits for our end and then wipes; in a session of its own, so that what ends us does
 * not end it. */
static void leave_guard(void)
{
    char command[COMMAND_BYTES];
    int ends[2];
    if (pipe(ends) != 0) {
        fail_msg("could not make a pipe: %s", strerror(errno));
    }
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    (void)snprintf(
        command, sizeof command,
        "setsid sh -c 'cat <&%d; \"%s\" --dir \"%s\" wipe; rm -rf \"%s\"' >/dev/null 2>&1 &",
        ends[0], REPOSITORY "/script/services", server->state, server->base);
    run(command);
    (void)close(ends[0]);
    server->alive = ends[1];
}

static void make_base(void)
{
    char keep[300];
    temporary_directory("tenon-server", server->base, sizeof server->base);
    (void)snprintf(server->state, sizeof server->state, "%s/state", server->base);
    /* wiping removes the directories above that are empty */
    (void)snprintf(keep, sizeof keep, "%s/keep", server->base);
    (void)close(open(keep, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

void server_do(const char *verb)
{
    char command[COMMAND_BYTES];
    (void)snprintf(command, sizeof command, "'%s' --dir '%s' %s %s >&2",
                   REPOSITORY "/script/services", server->state, verb, server->service);
    run(command);
}

/* Take some of the variables that script/services names into our environment. */
static void take_environment(const char *names)
{
    char command[COMMAND_BYTES], line[COMMAND_BYTES];
    (void)snprintf(
        command, sizeof command,
        "eval \"$('%s' --dir '%s' env)\"; for n in %s; do eval \"echo \\\"$n=\\$$n\\\"\"; done",
        REPOSITORY "/script/services", server->state, names);
    FILE *out = popen(command, "re");
    while (out && fgets(line, sizeof line, out)) {
        char *value = strchr(line, '=');
        if (value) {
            line[strcspn(line, "\n")] = '\0';
            *value = '\0';
            (void)setenv(line, value + 1, 1);
        }
    }
    if (!out || pclose(out) != 0) {
        fail_msg("%s failed", command);
    }
}

void server_open(const char *service)
{
    (void)snprintf(server->service, sizeof server->service, "%s", service);
    make_base();
    leave_guard();
    server_do("start");
    if (strcmp(service, "postgres") == 0) {
        server->url = "DATABASE_URL";
        take_environment("DATABASE_URL TENON_PGDATA");
        (void)snprintf(server->postmaster_file, sizeof server->postmaster_file, "%s/postmaster.pid",
                       test_env("TENON_PGDATA"));
    } else {
        server->url = "AMQP_URL";
        take_environment("AMQP_URL TENON_SERVICES TENON_RABBITMQCTL");
    }
}

bool server_listens(void)
{
    int port = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const char *at = strrchr(test_env(server->url), '@');
    assert_true(at && sscanf(at, "@127.0.0.1:%d", &port) == 1);
    struct sockaddr_in address = port_address(port);
    bool is = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    return is;
}

bool server_falls_silent(void)
{
    for (int64_t until = patience_end_ms(END_LIMIT_MS); server_listens() && now_ms() < until;) {
        (void)poll(NULL, 0, POLL_MS);
    }
    return !server_listens();
}

size_t server_log_lines(const char *text)
{
    char path[400];
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/%s.log", server->state, server->service);
    char *log = file_text(path), *rest = log, *line;
    while ((line = strsep(&rest, "\n"))) {
        n += strstr(line, text) ? 1 : 0;
    }
    free(log);
    return n;
}

/* The guards wipe. */
void server_close(void)
{
    for (int i = 0; i < SERVERS_MAX; i++) {
        if (servers[i].alive > 0) {
            (void)close(servers[i].alive);
            servers[i].alive = 0;
        }
    }
}

pid_t server_postmaster(void)
{
    int pid = 0;
    FILE *file = fopen(server->postmaster_file, "re");
    if (!file || fscanf(file, "%d", &pid) != 1) {
        fail_msg("%s names no process", server->postmaster_file);
    }
    (void)fclose(file);
    return pid;
}

/* A zombie is gone as well: its parent may never ask for it. */
static bool is_gone(pid_t pid)
{
    char path[64], what = 'X';
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        (void)!fscanf(file, "%*d (%*[^)]) %c", &what);
        (void)fclose(file);
    }
    return what == 'X' || what == 'Z';
}

void server_signal(pid_t pid, int signal)
{
    int64_t deadline_ms = patience_end_ms(END_LIMIT_MS);
    if (kill(pid, signal) != 0 && (signal != 0 || errno != ESRCH)) {
        fail_msg("could not signal %d: %s", (int)pid, strerror(errno));
    }
    while (!is_gone(pid)) {
        if (now_ms() > deadline_ms) {
            fail_msg("process %d still runs after %d ms", (int)pid, END_LIMIT_MS);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

void server_vhost(struct fixture *fx, const char *name)
{
    char command[COMMAND_BYTES];
    (void)snprintf(command, sizeof command, "%s vhosts %s >&2", test_env("TENON_SERVICES"), name);
    run(command);
    (void)snprintf(fx->vhost, sizeof fx->vhost, "%s", name);
    url_with_path(test_env("AMQP_URL"), name, fx->amqp_url, sizeof fx->amqp_url);
}

void server_reconnect(struct fixture *fx)
{
    int64_t deadline_ms = patience_end_ms(UP_LIMIT_MS);
    while (PQping(fx->database_url) != PQPING_OK) {
        if (now_ms() > deadline_ms) {
            fail_msg("PostgreSQL takes no connections within %d ms", UP_LIMIT_MS);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
    PQfinish(fx->conn);
    PQfinish(fx->maintenance);
    fx->conn = sql_connect(fx->database_url);
    fx->maintenance = sql_connect(test_env("DATABASE_URL"));
}

void server_crash(struct fixture *fx)
{
    server_signal(server_postmaster(), SIGQUIT);
    server_do("start");
    server_reconnect(fx);
}

int server_fixture_setup(void **state, const char *vhost)
{
    server_open("postgres");
    if (fixture_setup_database(state) != 0) {
        return -1;
    }
    struct fixture *fx = *state;
    server_vhost(fx, vhost);
    free(TENON_RUN(fx, 0, "setup")); /* the exchange */
    return 0;
}

int server_fixture_teardown(void **state)
{
    int r = fixture_teardown(state);
    server_close();
    return r;
}
