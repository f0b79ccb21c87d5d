/* The program `tenon`: finds the command, reads its options, and calls it. */
#include "cli/command.h"
#include "cli/reaper.h"
#include "core/amqp/amqp_url.h"
#include "core/base/log.h"
#include "core/db/db.h"
#include "core/db/schema.h"
#include "core/http/http.h"
#include "core/http/otlp.h"

#include <confuse.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
static void print_usage(FILE *out)
{
    (void)fputs("usage: tenon COMMAND [OPTIONS] [ARGUMENTS]\n\n"
                "Transactional background tasks for PostgreSQL, woken through RabbitMQ.\n\n",
                out);
    for (size_t i = 0; i < command_rows_n; i++) {
        const struct command_row *row = &command_rows[i];
        if (i == 0 || row->group != row[-1].group) {
            (void)fprintf(out, "%s%s\n", i == 0 ? "" : "\n", command_groups[row->group]);
        }
        (void)fprintf(out, "  %-9s %s\n", command_word(row->command), row->text);
    }
    (void)fputs("\nThe variables DATABASE_URL and AMQP_URL name the PostgreSQL database and the "
                "RabbitMQ broker.\n"
                "\n  tenon COMMAND --help   examples and options of a command\n"
                "  tenon --version        the versions of this program and its libraries\n"
                "  man tenon              the manual page\n",
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
    (void)printf("usage: tenon %s [OPTIONS]%s%s\n\n%s\n", command_word(row->command),
                 *row->args ? " " : "", row->args, row->text);
    if (row->more) {
        (void)printf("%s\n", row->more);
    }
    (void)puts("\nExamples:");
    for (size_t i = 0; i < EXAMPLES_MAX && row->examples[i]; i++) {
        (void)printf("  %s\n", row->examples[i]);
    }
    (void)puts("");
    options_help(stdout, row->command);
    (void)puts("\nMost options can also be set by a variable TENON_<NAME> or in the config file;\n"
               "see tenon(1): man tenon");
}

static const struct command_row *command_find(const char *word)
{
    for (size_t i = 0; i < command_rows_n; i++) {
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
        return fault_set(f, FAULT_CONFIG, "unexpected argument \"%.100s\": tenon %s takes %s",
                         options_arg(o, row->args_max), command_word(row->command),
                         *row->args ? row->args : "no arguments");
    }
    if (n < row->args_min) {
        return fault_set(f, FAULT_CONFIG, "an argument is missing: tenon %s %s",
                         command_word(row->command), row->args);
    }
    return true;
}

/* Run the command with its options. A fault, if there is one, is printed by the caller. */
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
    struct fault f = {.code = FAULT_NONE};
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

/* If tenon is started with a standard descriptor closed, a pipe or a session's socket must not take
 * its number: log lines would go there, and handlers would lose their stdin. The substitute is not
 * writable, so that output to a closed stdout still fails. */
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
