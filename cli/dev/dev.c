/* `tenon dev`: servers, setup, a cleaner, and a worker that restarts when its handlers' files
 * change; one log. */
#include "cli/dev/dev.h"

#include "cli/command.h"
#include "core/base/now.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    SCAN_EVERY_MS = 300, /* what is watched; a change counts when it has lasted this long */
    NAME_BYTES = 64,
    ENV_BYTES_MAX = 65536,
};
#define DRAIN_LIMIT "5s" /* of the worker, unless another one is given */

enum { SERVERS, SETUP, CLEANER, WORKER, PARTS };

#define BASH "/bin/bash"
#define SERVICES DEV_FOLDER "/services"
#define VARIABLES DEV_FOLDER "/env"

static const struct {
    const char *name, *variable;
    enum option_id url;
} servers[] = {{"postgres", "DATABASE_URL", OPTION_DATABASE_URL},
               {"rabbitmq", "AMQP_URL", OPTION_AMQP_URL}};
enum { N_SERVERS = sizeof servers / sizeof *servers };

struct dev {
    const struct options *o;
    struct part parts[PARTS], self;
    char program[4096];
    int signals;
    int stops;                /* how often it was asked to end */
    unsigned privates;        /* bit n: servers[n] is of our folder, so we end it */
    int folder;               /* which is locked; -1 */
    struct watched now, seen; /* the files that the worker runs, and what they were a moment ago */
    bool renews;              /* the worker drains, to restart */
};

/* --- one turn ------------------------------------------------------------------------------- */

static void take_signal(struct dev *d)
{
    struct signalfd_siginfo info;
    if (read(d->signals, &info, sizeof info) == (ssize_t)sizeof info && info.ssi_signo != SIGCHLD) {
        d->stops++;
        for (int i = SETUP; i < PARTS; i++) {
            part_signal(&d->parts[i], d->stops > 2 ? SIGKILL : SIGTERM);
        }
    }
}

/* Read what there is to read, and see what has ended. */
static bool turn(struct dev *d, struct fault *f)
{
    struct pollfd fds[PARTS + 1];
    for (int i = 0; i < PARTS; i++) {
        fds[i] = (struct pollfd){.fd = d->parts[i].fd, .events = POLLIN};
    }
    fds[PARTS] = (struct pollfd){.fd = d->signals, .events = POLLIN};
    if (poll(fds, PARTS + 1, SCAN_EVERY_MS) < 0 && errno != EINTR) {
        return fault_set(f, FAULT_BUG, "could not poll: %s", strerror(errno));
    }
    if (fds[PARTS].revents) {
        take_signal(d);
    }
    for (int i = 0; i < PARTS; i++) {
        (void)(fds[i].revents && part_read(&d->parts[i]));
        part_reap(&d->parts[i]);
    }
    return true;
}

static bool run_part(struct dev *d, int part, const char *const *argv, struct fault *f)
{
    struct part *p = &d->parts[part];
    bool ok = part_start(p, argv, f);
    while (ok && p->pid > 0) {
        ok = turn(d, f);
    }
    return ok && (d->stops > 0 || p->status == 0 ||
                  fault_set(f, FAULT_CONFIG, "%s ended with exit code %d: see above", p->name,
                            p->status));
}

/* --- servers of one's own -------------------------------------------------------------------- */

static bool is_private(const struct dev *d, int server)
{
    return d->privates >> server & 1;
}

/* `services`, a command, and the servers that it is for. */
static bool run_services(struct dev *d, const char *command, const char *flag, struct fault *f)
{
    const char *argv[10] = {BASH, "-p", SERVICES, "--dir", DEV_FOLDER, command};
    int n = 6;
    if (flag) {
        argv[n++] = flag;
    }
    for (int i = 0; i < N_SERVERS; i++) {
        if (is_private(d, i)) {
            argv[n++] = servers[i].name;
        }
    }
    return run_part(d, SERVERS, argv, f);
}

/* `export DATABASE_URL=...`: the URLs have nothing that needs quotes. */
static void hear_variable(void *owner, const char *line)
{
    const struct dev *d = owner;
    for (int i = 0; i < N_SERVERS; i++) {
        char begin[NAME_BYTES];
        int bytes = snprintf(begin, sizeof begin, "export %s=", servers[i].variable);
        if (is_private(d, i) && strncmp(line, begin, (size_t)bytes) == 0) {
            (void)setenv(servers[i].variable, line + bytes, 1);
        }
    }
}

static bool start_servers(struct dev *d, struct fault *f)
{
    struct part *p = &d->parts[SERVERS];
    if (!run_services(d, "start", "--if-installed", f) || d->stops > 0) {
        return d->stops > 0;
    }
    p->heard = hear_variable;
    p->owner = d;
    p->is_quiet = true;
    bool ok =
        run_part(d, SERVERS,
                 (const char *const[]){BASH, "-p", SERVICES, "--dir", DEV_FOLDER, "env", NULL}, f);
    p->heard = NULL;
    p->is_quiet = false;
    return ok;
}

/* For other terminals, which have to know where the servers are. */
static bool write_variables(const struct dev *d, struct fault *f)
{
    struct buf b;
    buf_init(&b, ENV_BYTES_MAX);
    for (int i = 0; i < N_SERVERS; i++) {
        const char *value = getenv(servers[i].variable);
        if (is_private(d, i) && value) {
            buf_printf(&b, "export %s='%s'\n", servers[i].variable, value);
        }
    }
    bool ok = folder_write(VARIABLES, buf_text(&b), f);
    buf_clear(&b);
    return ok;
}

/* What has no URL is looked for among the installed programs. */
static bool need_servers(struct dev *d, struct fault *f)
{
    for (int i = 0; i < N_SERVERS; i++) {
        d->privates |= option_text(d->o, servers[i].url) ? 0U : 1U << i;
    }
    if (d->privates == 0) {
        return true;
    }
    if (!folder_open(&d->folder, f) || !start_servers(d, f) || d->stops > 0 ||
        !write_variables(d, f)) {
        return d->stops > 0;
    }
    part_say(&d->self, "in other terminals: . " VARIABLES);
    return true;
}

static void stop_servers(struct dev *d)
{
    struct fault f = {.code = FAULT_NONE};
    if (d->folder >= 0 && !run_services(d, "stop", NULL, &f)) {
        part_say(&d->self, "%s", f.text);
    }
}

/* --- setup, cleaner, worker ------------------------------------------------------------------ */

/* An option that this command has in common with the others: by its variable, as others can read a
 * command line. */
static void hand_on_option(const struct dev *d, enum option_id id)
{
    const struct option_row *row = &option_rows[id];
    char name[NAME_BYTES];
    struct buf value;
    if (!option_is_given(d->o, id)) {
        return;
    }
    buf_init(&value, ENV_BYTES_MAX);
    for (size_t i = 0; i < option_items(d->o, id); i++) {
        buf_put_text(&value, i == 0 ? "" : row->type == OPTION_TYPE_EACH ? "\n" : ",");
        buf_put_text(&value, option_item(d->o, id, i));
    }
    option_variable(row, name, sizeof name);
    (void)setenv(name, buf_text(&value), 1);
    buf_clear(&value);
}

/* The programs take their URLs from TENON_..., so handlers get DATABASE_URL and AMQP_URL. */
static void hand_on(const struct dev *d)
{
    static const enum option_id ids[] = {OPTION_CONFIG,   OPTION_DATABASE_URL,
                                         OPTION_AMQP_URL, OPTION_LOG_LEVEL,
                                         OPTION_QUEUES,   OPTION_HANDLERS,
                                         OPTION_HANDLER,  OPTION_SLOTS,
                                         OPTION_PASS_ENV, OPTION_START_LIMIT,
                                         OPTION_USER,     OPTION_DRAIN_LIMIT};
    static const struct {
        const char *ours, *theirs, *otherwise;
    } urls[] = {{"TENON_DATABASE_URL", "DATABASE_URL", ""}, {"TENON_AMQP_URL", "AMQP_URL", "none"}};
    (void)setenv("TENON_DRAIN_LIMIT", DRAIN_LIMIT, 0);
    (void)setenv("TENON_LOG_FORMAT", "logfmt", 1);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        hand_on_option(d, ids[i]);
    }
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        const char *theirs = getenv(urls[i].theirs);
        (void)setenv(urls[i].ours, theirs && *theirs ? theirs : urls[i].otherwise, 0);
        (void)setenv(urls[i].theirs, getenv(urls[i].ours), 0);
    }
}

static bool start_cleaner(struct dev *d, struct fault *f)
{
    const char *const argv[] = {d->program, "cleaner", NULL};
    return part_start(&d->parts[CLEANER], argv, f);
}

static bool start_worker(struct dev *d, struct fault *f)
{
    const char *level = option_is_given(d->o, OPTION_LOG_LEVEL) ? NULL : "--log-level=debug";
    const char *const argv[] = {d->program, "worker", "--log-stderr", level, NULL};
    d->renews = false;
    watched_read(d->o, &d->now);
    d->seen = d->now;
    return part_start(&d->parts[WORKER], argv, f);
}

/* A change counts when nothing more changes: an editor, or a checkout, may be at it. */
static void check_files(struct dev *d)
{
    struct watched last = d->seen;
    watched_read(d->o, &d->seen);
    if (d->seen.files == d->now.files || d->seen.files != last.files || d->renews) {
        return;
    }
    d->renews = true;
    part_say(&d->self, "%s: the worker %s",
             d->seen.newest_ns > d->now.newest_ns ? d->seen.newest : "files have changed",
             d->parts[WORKER].pid > 0 ? "finishes its tasks and restarts" : "restarts");
    part_signal(&d->parts[WORKER], SIGTERM);
}

static bool watch(struct dev *d, struct fault *f)
{
    int64_t scan_ms = 0;
    bool ok = true, ran = true;
    while (ok && d->stops == 0) {
        bool runs = d->parts[WORKER].pid > 0;
        if (ran && !runs && !d->renews) {
            part_say(&d->self,
                     "the worker ended with exit code %d; it restarts when a file changes",
                     d->parts[WORKER].status);
        }
        ran = runs;
        if (now_ms() >= scan_ms) {
            scan_ms = now_ms() + SCAN_EVERY_MS;
            check_files(d);
        }
        ok = runs || !d->renews || start_worker(d, f);
        ok = ok && turn(d, f) &&
             (d->parts[CLEANER].pid > 0 || d->stops > 0 ||
              fault_set(f, FAULT_RETRY, "the cleaner ended with exit code %d: see above",
                        d->parts[CLEANER].status));
    }
    return ok;
}

/* --- begin and end --------------------------------------------------------------------------- */

static bool open_dev(struct dev *d, struct fault *f)
{
    static const struct part parts[PARTS] = {{.name = "servers", .colour = 35},
                                             {.name = "setup", .colour = 34},
                                             {.name = "cleaner", .colour = 36},
                                             {.name = "worker", .colour = 32}};
    sigset_t mask;
    for (int i = 0; i < PARTS; i++) {
        d->parts[i] = parts[i];
        d->parts[i].fd = -1;
    }
    d->self = (struct part){.name = "dev", .colour = 37, .fd = -1};
    d->folder = -1;
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGCHLD);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &mask, NULL);
    d->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    ssize_t n = readlink("/proc/self/exe", d->program, sizeof d->program - 1);
    return (d->signals >= 0 && n > 0) ||
           fault_set(f, FAULT_RETRY, "could not start: %s", strerror(errno));
}

/* After a signal they were told, and a worker that is told twice ends at once. */
static void close_dev(struct dev *d)
{
    struct fault f = {.code = FAULT_NONE};
    bool ok = true;
    for (int i = SERVERS; i < PARTS && d->stops == 0; i++) {
        part_signal(&d->parts[i], SIGTERM);
    }
    while (ok && (d->parts[SETUP].pid > 0 || d->parts[CLEANER].pid > 0 ||
                  d->parts[WORKER].pid > 0 || d->parts[SERVERS].pid > 0)) {
        ok = turn(d, &f);
    }
    stop_servers(d);
    for (int i = 0; i < PARTS; i++) {
        buf_clear(&d->parts[i].line);
    }
    (void)close(d->signals);
}

static bool run(struct dev *d, struct fault *f)
{
    const char *const setup[] = {d->program, "setup", NULL};
    if (!need_servers(d, f) || d->stops > 0) {
        return d->stops > 0;
    }
    hand_on(d);
    return (run_part(d, SETUP, setup, f) &&
            (d->stops > 0 || (start_cleaner(d, f) && start_worker(d, f) && watch(d, f))));
}

int dev_main(const struct options *o)
{
    static struct dev d;
    struct fault f = {.code = FAULT_NONE};
    d.o = o;
    bool ok = open_dev(&d, &f) && run(&d, &f);
    if (!ok) {
        part_say(&d.self, "%s", f.text);
    }
    close_dev(&d);
    return ok ? 0 : fault_exit_code(&f);
}
