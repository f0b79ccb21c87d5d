#include "tests/support/cluster.h"

#include "core/base/now.h"
#include "tests/support/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UP_LIMIT_MS = 60000, POLL_MS = 20, COMMAND_BYTES = 4096 };

static struct {
    char dir[256];
    int epmd_port, amqp_ports[CLUSTER_NODES], dist_ports[CLUSTER_NODES];
    char password[40], program[256];
    pid_t nodes[CLUSTER_NODES];
} cluster;

/* --- files and ports --- */

static void put_file(const char *name, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void put_file(const char *name, const char *fmt, ...)
{
    char path[320];
    va_list args;
    (void)snprintf(path, sizeof path, "%s/%s", cluster.dir, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        fail_msg("could not make %s: %s", path, strerror(errno));
    }
    va_start(args, fmt);
    (void)vdprintf(fd, fmt, args);
    va_end(args);
    (void)close(fd);
}

static void find_ports(void)
{
    int fds[2 * CLUSTER_NODES + 1];
    for (int i = 0; i < CLUSTER_NODES; i++) {
        cluster.amqp_ports[i] = port_free(&fds[2 * i]);
        cluster.dist_ports[i] = port_free(&fds[2 * i + 1]);
    }
    cluster.epmd_port = port_free(&fds[2 * CLUSTER_NODES]);
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        (void)close(fds[i]);
    }
}

static bool listens(int port)
{
    struct sockaddr_in address = port_address(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    return ok;
}

/* Not the commands in PATH: Debian's wrappers switch the user and the directory themselves. */
static void find_program(void)
{
    FILE *out = popen("ls -d /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin | sort -V | tail -1",
                      "re");
    if (!out || !fgets(cluster.program, sizeof cluster.program, out) || pclose(out) != 0) {
        fail_msg("RabbitMQ is not installed; run script/bootstrap");
    }
    cluster.program[strcspn(cluster.program, "\n")] = '\0';
}

/* --- processes --- */

/* With nothing of our own environment; ends with us. */
static pid_t spawn(const char *log, const char *command)
{
    char text[COMMAND_BYTES];
    (void)snprintf(text, sizeof text,
                   /* Erlang closes every possible descriptor one by one */
                   "ulimit -n 4096; exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "
                   "HOME=%s ERL_EPMD_PORT=%d %s </dev/null >>%s/%s 2>&1",
                   cluster.dir, cluster.epmd_port, command, cluster.dir, log);
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", text, (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    return pid;
}

static void await_port(int port, pid_t pid, const char *log)
{
    int64_t deadline_ms = patience_end_ms(UP_LIMIT_MS);
    while (!listens(port)) {
        if (waitpid(pid, NULL, WNOHANG) != 0 || now_ms() > deadline_ms) {
            char command[COMMAND_BYTES];
            (void)snprintf(command, sizeof command, "tail -n 20 %s/%s >&2", cluster.dir, log);
            (void)!system(command);
            fail_msg("nobody listens on port %d: see %s above", port, log);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

static void start_epmd(void)
{
    char command[256];
    (void)snprintf(command, sizeof command,
                   "setpriv --pdeathsig KILL epmd -port %d -address 127.0.0.1", cluster.epmd_port);
    await_port(cluster.epmd_port, spawn("epmd.log", command), "epmd.log");
}

/* The shell, env, setpriv and RabbitMQ's own scripts each exec the next, so the pid is Erlang's. */
static void start_node(int node)
{
    char command[COMMAND_BYTES], log[32];
    (void)snprintf(log, sizeof log, "n%d.log", node);
    (void)snprintf(command, sizeof command,
                   "RUNNING_UNDER_SYSTEMD=true RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_LOGS=- "
                   "RABBITMQ_NODENAME=n%d@localhost RABBITMQ_CONFIG_FILE=%s/n%d.conf "
                   "RABBITMQ_ADVANCED_CONFIG_FILE=%s/none RABBITMQ_MNESIA_BASE=%s/data%d "
                   "RABBITMQ_ENABLED_PLUGINS_FILE=%s/plugins RABBITMQ_LOG_BASE=%s/log "
                   "RABBITMQ_DIST_PORT=%d RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-start_epmd false "
                   "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none' "
                   "setpriv --pdeathsig KILL %s/rabbitmq-server",
                   node, cluster.dir, node, cluster.dir, cluster.dir, node, cluster.dir,
                   cluster.dir, cluster.dist_ports[node], cluster.program);
    cluster.nodes[node] = spawn(log, command);
}

static void await_node(int node)
{
    char log[32];
    (void)snprintf(log, sizeof log, "n%d.log", node);
    await_port(cluster.amqp_ports[node], cluster.nodes[node], log);
}

/* What an Erlang expression is on a node, a number. */
static int eval(int node, const char *fmt, ...) PRINTF_LIKE(2, 3);
static int eval(int node, const char *fmt, ...)
{
    char expression[512], command[COMMAND_BYTES], answer[64] = "";
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(expression, sizeof expression, fmt, args);
    va_end(args);
    (void)
        snprintf(command, sizeof command,
                 "env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=%s ERL_EPMD_PORT=%d "
                 "RABBITMQ_CONF_ENV_FILE=/dev/null "
                 "RABBITMQ_CTL_ERL_ARGS='-start_epmd false -kernel inet_dist_use_interface "
                 "{127,0,0,1}' %s/rabbitmqctl -q -n n%d@localhost eval '%s'",
                 cluster.dir, cluster.epmd_port, cluster.program, node, expression);
    FILE *out = popen(command, "re");
    bool ok = out && fgets(answer, sizeof answer, out);
    if (!out || pclose(out) != 0 || !ok) {
        fail_msg("node %d could not answer %s: %s", node, expression, answer);
    }
    return (int)strtol(answer, NULL, 10);
}

/* --- the cluster --- */

static void make_files(void)
{
    put_file(".erlang.cookie", "%s", cluster.password);
    put_file("plugins", "[].\n");
    for (int i = 0; i < CLUSTER_NODES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "n%d.conf", i);
        put_file(name,
                 "listeners.tcp.1 = 127.0.0.1:%d\n"
                 "default_user = tenon\n"
                 "default_pass = %s\n"
                 "cluster_formation.peer_discovery_backend = classic_config\n"
                 "cluster_formation.classic_config.nodes.1 = n0@localhost\n"
                 "cluster_formation.classic_config.nodes.2 = n1@localhost\n"
                 "cluster_formation.classic_config.nodes.3 = n2@localhost\n",
                 cluster.amqp_ports[i], cluster.password);
    }
}

static void await_cluster(void)
{
    int64_t deadline_ms = patience_end_ms(UP_LIMIT_MS);
    while (eval(0, "length(rabbit_nodes:all_running()).") < CLUSTER_NODES) {
        if (now_ms() > deadline_ms) {
            fail_msg("%d nodes are no cluster within %d ms", CLUSTER_NODES, UP_LIMIT_MS);
        }
    }
}

void cluster_open(struct fixture *fx)
{
    (void)snprintf(cluster.dir, sizeof cluster.dir, "%s/cluster", fx->dir);
    (void)snprintf(cluster.password, sizeof cluster.password, "%016llx%016llx",
                   (unsigned long long)now_jitter(UINT64_MAX),
                   (unsigned long long)now_jitter(UINT64_MAX));
    assert_int_equal(mkdir(cluster.dir, 0700), 0);
    find_program();
    find_ports();
    make_files();
    start_epmd();
    /* new nodes that look for each other all at once may block each other */
    cluster_start(0);
    for (int i = 1; i < CLUSTER_NODES; i++) {
        start_node(i);
    }
    for (int i = 1; i < CLUSTER_NODES; i++) {
        await_node(i);
    }
    await_cluster();
    (void)snprintf(fx->amqp_url, sizeof fx->amqp_url,
                   "amqp://tenon:%s@127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/%%2f", cluster.password,
                   cluster.amqp_ports[0], cluster.amqp_ports[1], cluster.amqp_ports[2]);
}

void cluster_url(int node, char *url, size_t size)
{
    (void)snprintf(url, size, "amqp://tenon:%s@127.0.0.1:%d/%%2f", cluster.password,
                   cluster.amqp_ports[node]);
}

void cluster_kill(int node)
{
    assert_int_equal(kill(cluster.nodes[node], SIGKILL), 0);
    assert_int_equal(waitpid(cluster.nodes[node], NULL, 0), cluster.nodes[node]);
}

void cluster_start(int node)
{
    start_node(node);
    await_node(node);
}
