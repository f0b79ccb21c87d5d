/* The program `tenon`: finds the command, reads its options, and calls it. */
#include "cleaner/cleaner.h"
#include "cli/command.h"
#include "cli/reaper.h"
#include "core/amqp/amqp_url.h"
#include "core/base/log.h"
#include "core/db/db.h"
#include "core/db/schema.h"
#include "core/http/http.h"
#include "core/http/otlp.h"
#include "enqueue/enqueue.h"
#include "ui/ui.h"
#include "worker/worker.h"

#include <confuse.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { IDS_MAX = 100000, WAIT_IDS_MAX = 10000, PATHS_MAX = 1000 }; /* on a command line */

const struct command_row command_rows[] = {
    {COMMAND_SETUP, NULL, setup_run, 0, 0, "",
     "Make or update the schema tenon in the database, and the exchange in RabbitMQ."},
    {COMMAND_ENQUEUE, NULL, enqueue_run, 1, 2, "KIND [PAYLOAD | -]",
     "Enqueue one task and print its id. The payload is JSON, {} by default; - reads stdin."},
    {COMMAND_WORKER, worker_main, NULL, 0, 1, "[PAYLOAD-FILE]",
     "Run tasks. With --run-one, run one handler by hand on the payload in a file."},
    {COMMAND_CLEANER, cleaner_main, NULL, 0, 0, "",
     "Wake the workers, recover what dead workers left, keep the history in bounds."},
    {COMMAND_STATUS, NULL, status_run, 0, 0, "",
     "Show the queues, the workers and what nobody handles."},
    {COMMAND_SHOW, NULL, show_run, 1, 1, "ID", "Show all about one task, and why it waits."},
    {COMMAND_SCHEDULE, NULL, schedule_run, 1, 2,
     "add|show|pause|resume|run-now|remove NAME | list | next [NAME] | sync FILE",
     "Make, show and change schedules, or keep them in step with a file."},
    {COMMAND_FLOW, NULL, flow_run, 1, 2, "ID | list | cancel ID | close ID",
     "Show a flow and its tasks, or all flows; cancel one; close a batch."},
    {COMMAND_WHY, NULL, why_run, 1, 1, "ID", "Say in a sentence why a task is where it is."},
    {COMMAND_WAIT, wait_main, NULL, 1, WAIT_IDS_MAX, "ID ...",
     "Wait until tasks have ended, and print how each did, as JSON."},
    {COMMAND_SIGNAL, NULL, signal_run, 1, 1, "NAME",
     "Send a signal to the tasks that wait for it, or will."},
    {COMMAND_LIST, NULL, list_run, 0, 0, "", "List tasks that fit a filter, the newest first."},
    {COMMAND_RETRY, NULL, act_run, 0, IDS_MAX, "[ID ...]",
     "Make dead tasks ready again: these, or all that fit a filter."},
    {COMMAND_CANCEL, NULL, act_run, 0, IDS_MAX, "[ID ...]",
     "Cancel tasks that have not ended: these, or all that fit a filter."},
    {COMMAND_DELETE, NULL, act_run, 0, IDS_MAX, "[ID ...]",
     "Delete tasks that have ended: these, or all that fit a filter."},
    {COMMAND_RUN_NOW, NULL, act_run, 0, IDS_MAX, "[ID ...]",
     "Make scheduled and retrying tasks ready at once: these, or all that fit a filter."},
    {COMMAND_SET, NULL, act_run, 0, IDS_MAX, "[ID ...]",
     "Give tasks that do not run another --priority or --run-at: these, or all that fit a filter."},
    {COMMAND_PAUSE, NULL, pause_run, 0, 1, "QUEUE | --kind KIND | --all",
     "Let no worker claim tasks of a queue, of a kind, or any at all. What runs goes on."},
    {COMMAND_RESUME, NULL, pause_run, 0, 1, "QUEUE | --kind KIND | --all",
     "End what tenon pause began."},
    {COMMAND_QUEUE, NULL, defaults_run, 0, 1, "[NAME]",
     "Show the defaults of queues, and whether they are paused; or set those of one."},
    {COMMAND_KIND, NULL, defaults_run, 0, 1, "[NAME]",
     "Show the defaults of kinds, and whether they are paused; or set those of one."},
    {COMMAND_DOCTOR, NULL, doctor_run, 0, 0, "",
     "Say what is wrong with servers, settings, fleet and queues, and what to do."},
    {COMMAND_CANARY, NULL, canary_run, 0, 0, "",
     "Send one task the whole way, and say how long it took; or why it did not come through."},
    {COMMAND_SCALER, scaler_main, NULL, 0, 0, "",
     "Run a command when more or fewer workers are wanted, so that tasks start in time."},
    {COMMAND_ADOPT, NULL, adopt_run, 0, 0, "",
     "Say that tasks may run in this database, which is a copy of another one."},
    {COMMAND_LIMIT, NULL, limit_run, 1, 2, "set|show|drop|pause|resume NAME | list",
     "Set and show limits: how many tasks of a key run at once, start in a time, in which order."},
    {COMMAND_UI, ui_main, NULL, 0, 0, "",
     "Serve tenon in the browser: what there is, and what the commands do."},
    {COMMAND_DEV, dev_main, NULL, 0, PATHS_MAX, "[PATH ...]",
     "For development: servers, setup, a cleaner, and a worker that starts anew when a file of its "
     "handlers changes, or one of these paths."},
    {COMMAND_AUDIT, NULL, audit_run, 0, 0, "", "Show who did what to many tasks, and when."},
};
enum { COMMANDS = sizeof command_rows / sizeof *command_rows };
const size_t command_rows_n = COMMANDS;

static void print_usage(FILE *out)
{
    (void)fputs("usage: tenon COMMAND [OPTIONS] [ARGUMENTS]\n\n"
                "Transactional background tasks for PostgreSQL, woken through RabbitMQ.\n\n",
                out);
    for (size_t i = 0; i < COMMANDS; i++) {
        (void)fprintf(out, "  %-9s %s\n", command_word(command_rows[i].command),
                      command_rows[i].text);
    }
    (void)fputs(
        "\nDATABASE_URL and AMQP_URL in the environment say where PostgreSQL and RabbitMQ are.\n"
        "\n  tenon COMMAND --help   the options of a command\n"
        "  tenon --version        this program's version and its libraries'\n",
        out);
}

static void print_version(void)
{
    int pq = db_library_version();
    (void)printf("tenon %s (schema %d)\nlibpq %d.%d\nrabbitmq-c %s\njansson %s\nlibconfuse %s\n"
                 "libmicrohttpd %s\nlibcurl %s\n",
                 TENON_VERSION, schema_migrations[schema_migrations_n - 1].version, pq / 10000,
                 pq % 10000, amqp_library_version(), jansson_version_str(), confuse_version,
                 http_library_version(), otlp_library_version());
}

static void print_help(const struct command_row *row)
{
    (void)printf("usage: tenon %s [OPTIONS]%s%s\n\n%s\n\n", command_word(row->command),
                 *row->args ? " " : "", row->args, row->text);
    options_help(stdout, row->command);
    (void)puts("\nMost can also be given as a variable TENON_<NAME> or in the config file:\n"
               "docs/options.md says which.");
}

static const struct command_row *command_find(const char *word)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(word, command_word(command_rows[i].command)) == 0) {
            return &command_rows[i];
        }
    }
    return NULL;
}

static int unknown_command(const char *word)
{
    (void)fprintf(stderr, "tenon: there is no command \"%.100s\"; tenon --help lists them\n", word);
    return EXIT_USAGE;
}

static bool check_args(const struct command_row *row, const struct options *o, struct fault *f)
{
    size_t n = options_args(o);
    if (n > row->args_max) {
        return fault_set(f, FAULT_CONFIG,
                         "the argument \"%.100s\" is one too many: tenon %s takes %s",
                         options_arg(o, row->args_max), command_word(row->command),
                         *row->args ? row->args : "none");
    }
    if (n < row->args_min) {
        return fault_set(f, FAULT_CONFIG, "an argument is missing: tenon %s %s",
                         command_word(row->command), row->args);
    }
    return true;
}

/* With the options in `o`; the fault, if there is one, is for a person. */
static int run_with(const struct command_row *row, const struct options *o, struct fault *f)
{
    if (option_flag(o, OPTION_HELP)) {
        print_help(row);
    } else if (check_args(row, o, f)) {
        log_setup(command_word(row->command), (enum log_level)option_int(o, OPTION_LOG_LEVEL),
                  (enum log_format)option_int(o, OPTION_LOG_FORMAT));
        if (row->daemon) {
            return row->daemon(o);
        }
        (void)!row->run(o, f);
    }
    return fault_exit_code(f);
}

static int run(const struct command_row *row, int argc, char **argv)
{
    struct fault f = {FAULT_NONE};
    struct options *o = NULL;
    int code = options_read(row->command, argc, argv, &o, &f) ? run_with(row, o, &f)
                                                              : fault_exit_code(&f);
    if (f.code != FAULT_NONE) {
        (void)fprintf(stderr, "tenon %s: %s\n", command_word(row->command), f.text);
    }
    options_free(o);
    return code;
}

/* What docs/ and packages are made of. */
static bool print_page(const char *word, const char *form)
{
    static const struct {
        const char *word, *form;
        void (*print)(FILE *out);
    } pages[] = {
        {"options", "--markdown", options_markdown}, {"states", "--markdown", states_markdown},
        {"options", "--man", manual_page},           {"options", "--bash", complete_bash},
        {"options", "--zsh", complete_zsh},          {"options", "--fish", complete_fish},
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(word, pages[i].word) == 0 && strcmp(form, pages[i].form) == 0) {
            pages[i].print(stdout);
            return true;
        }
    }
    return false;
}

static int dispatch(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (!*word) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_usage(stdout);
        return EXIT_OK;
    }
    if (strcmp(word, "--version") == 0) {
        print_version();
        return EXIT_OK;
    }
    if (argc == 3 && print_page(word, argv[2])) {
        return EXIT_OK;
    }
    const struct command_row *row = command_find(word);
    return row ? run(row, argc - 1, argv + 1) : unknown_command(word);
}

/* Whoever starts us with a standard descriptor closed must not have a pipe or a session's socket
 * take its number: log lines would go there, and handlers would lose their stdin. Not writable, so
 * that output to a closed stdout still fails. */
static void hold_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        (void)close(fd);
    }
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    reaper_start();
    /* a peer that went away, or a file that may not grow, fails the write and ends no program */
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    (void)sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    int code = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "tenon: could not write to stdout: %s\n", strerror(errno));
        code = code ? code : EXIT_FAILED;
    }
    return code;
}
