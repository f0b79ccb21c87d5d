#include "cli/command.h"
#include "core/base/buf.h"

#include <string.h>

enum { TEXT_BYTES_MAX = 4096 };

/* Escaped for roff; text between ` is bold. */
static void put(FILE *out, const char *text)
{
    bool bold = false;
    if (*text == '.') {
        (void)fputs("\\&", out);
    }
    for (; *text; text++) {
        if (*text == '`') {
            bold = !bold;
            (void)fputs(bold ? "\\fB" : "\\fR", out);
        } else if (strchr("\\-~^'", *text)) {
            (void)fputs(*text == '\\'   ? "\\e"
                        : *text == '-'  ? "\\-"
                        : *text == '~'  ? "\\(ti"
                        : *text == '\'' ? "\\(aq"
                                        : "\\(ha",
                        out);
        } else {
            (void)fputc(*text, out);
        }
    }
}

static void put_line(FILE *out, const char *text)
{
    put(out, text);
    (void)fputc('\n', out);
}

static void put_command(FILE *out, const struct command_row *row)
{
    const char *comma = "Options: ";
    (void)fputs(".TP\n\\fBtenon ", out);
    put(out, command_word(row->command));
    (void)fputs(*row->args ? "\\fR " : "\\fR", out);
    put_line(out, row->args);
    put_line(out, row->text);
    if (row->more) {
        put_line(out, row->more);
    }
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_is_of(&option_rows[i], row->command) &&
            option_rows[i].commands != COMMANDS_ALL) {
            (void)fprintf(out, "%s\\-\\-", comma);
            put(out, option_rows[i].name);
            comma = ",\n";
        }
    }
    (void)fputs(*comma == ',' ? ".\n" : "", out);
    (void)fputs(".IP\n.EX\n", out);
    for (size_t i = 0; i < EXAMPLES_MAX && row->examples[i]; i++) {
        put_line(out, row->examples[i]);
    }
    (void)fputs(".EE\n", out);
}

static void put_option(FILE *out, const struct option_row *row)
{
    struct buf b;
    char variable[64];
    option_variable(row, variable, sizeof variable);
    (void)fputs(".TP\n\\fB", out);
    if (row->letter) {
        (void)fprintf(out, "\\-%c\\fR, \\fB", row->letter);
    }
    (void)fputs("\\-\\-", out);
    put(out, row->name);
    (void)fputs(row->arg ? "\\fR \\fI" : "\\fR", out);
    put(out, row->arg ? row->arg : "");
    (void)fputs(row->arg ? "\\fR\n" : "\n", out);
    buf_init(&b, TEXT_BYTES_MAX);
    option_describe(row, &b);
    buf_put_text(&b, " Commands: ");
    option_commands(row->commands, &b);
    if (!row->typed || row->untyped) {
        buf_printf(&b, ". Variable: `%s`%s%s", variable, row->env ? " or " : "",
                   row->env       ? row->env
                   : row->untyped ? " (intake)"
                                  : "");
    }
    buf_put_text(&b, ".");
    put_line(out, buf_text(&b));
    buf_clear(&b);
}

static const char head[] =
    ".SH NAME\n"
    "tenon \\- transactional background tasks for PostgreSQL, woken through RabbitMQ\n"
    ".SH SYNOPSIS\n"
    ".B tenon\n"
    ".I COMMAND\n"
    "[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n"
    ".SH DESCRIPTION\n"
    "An application inserts a task in its own transaction. After the commit a worker claims it,\n"
    "runs the program that handles its kind, and finishes it. A cleaner wakes workers for tasks\n"
    "whose message was lost, and recovers the tasks of dead workers.\n";

static const char foot[] =
    ".SH ENVIRONMENT\n"
    "An option that has a variable can be set by it. The command line overrides the environment,\n"
    "and the environment overrides the config file.\n"
    ".SH CONFIG FILE\n"
    "\\fB\\-\\-config\\fR or TENON_CONFIG names it. A key is the name of an option without the\n"
    "dashes. One file serves all commands.\n"
    ".IP\n.EX\n"
    "database\\-url = \\(aqpostgresql://app@db.example/app?sslmode=verify\\-full\\(aq\n"
    "queues = {default, mail}\nslots = 8\nuntil\\-empty = no\n.EE\n"
    ".SH FILES\n"
    ".TP\n"
    "\\fI/etc/tenon/worker.env\\fR, \\fI/etc/tenon/cleaner.env\\fR\n"
    "the variables of the services tenon\\-worker and tenon\\-cleaner\n"
    ".TP\n"
    "\\fI/etc/tenon/handlers.conf\\fR\n"
    "the program that handles each kind\n"
    ".SH EXIT STATUS\n"
    ".TP\n0\ndone; a worker that has drained\n"
    ".TP\n1\nfailed: a server cannot be reached, memory is exhausted, a bug\n"
    ".TP\n2\na person must act: an option, a file or a right is wrong, or the schema is missing\n"
    "or older than the program\n"
    ".TP\n3\nthe schema is newer than this program can use\n";

void manual_page(FILE *out)
{
    (void)fputs(".TH TENON 1 \"\" \"tenon " TENON_VERSION "\" \"User Commands\"\n", out);
    (void)fputs(head, out);
    (void)fputs(".SH COMMANDS\nEach command has \\fB\\-\\-help\\fR.\n", out);
    for (size_t i = 0; i < command_rows_n; i++) {
        if (i == 0 || command_rows[i].group != command_rows[i - 1].group) {
            (void)fprintf(out, ".SS %s\n", command_groups[command_rows[i].group]);
        }
        put_command(out, &command_rows[i]);
    }
    (void)fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        put_option(out, &option_rows[i]);
    }
    (void)fputs(foot, out);
}
