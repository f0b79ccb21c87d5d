#include "core/options/option_value.h"

#include "core/base/buf.h"

#include <ctype.h>
#include <string.h>

enum { HELP_INDENT = 30, HELP_COLUMNS = 96, TEXT_BYTES_MAX = 2048 };

void option_variable(const struct option_row *row, char *text, size_t size)
{
    (void)snprintf(text, size, "TENON_%s", row->name);
    for (char *c = text; *c; c++) {
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    }
}

/* The sentence, then what is allowed, unless that is anything or a flag, and the default. */
void option_describe(const struct option_row *row, struct buf *b)
{
    buf_put_text(b, row->text);
    if (row->allowed || row->choices || row->max > 0) {
        char allowed[OPTION_ALLOWED_BYTES];
        option_value_allowed(row, allowed);
        buf_printf(b, " Allowed: %s.", allowed);
    }
    if (row->def) {
        buf_printf(b, " Default: %s.", row->def);
    }
}

/* Print a text word by word, so that no line is longer than HELP_COLUMNS; without Markdown's `. */
static void print_wrapped(FILE *out, const char *text)
{
    int column = HELP_INDENT;
    for (const char *word = text; *word; word += strspn(word, " ")) {
        size_t n = strcspn(word, " ");
        if (column + (int)n > HELP_COLUMNS) {
            column = HELP_INDENT;
            (void)fprintf(out, "\n%*s", HELP_INDENT, "");
        } else if (word > text) {
            (void)fputc(' ', out);
        }
        column += (int)n + 1;
        for (; n > 0; n--, word++) {
            if (*word != '`') {
                (void)fputc(*word, out);
            }
        }
    }
    (void)fputc('\n', out);
}

static void help_row(FILE *out, const struct option_row *row)
{
    struct buf text;
    char name[64];
    char letter[] = {'-', row->letter, ',', ' ', '\0'};
    (void)snprintf(name, sizeof name, "  %s--%s%s%s", row->letter ? letter : "    ", row->name,
                   row->arg ? " " : "", row->arg ? row->arg : "");
    (void)fprintf(out, "%-*s", HELP_INDENT, name);
    if (strlen(name) >= HELP_INDENT) {
        (void)fprintf(out, "\n%*s", HELP_INDENT, "");
    }
    buf_init(&text, TEXT_BYTES_MAX);
    option_describe(row, &text);
    print_wrapped(out, buf_text(&text));
    buf_clear(&text);
}

void options_help(FILE *out, enum command command)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_is_of(&option_rows[i], command)) {
            help_row(out, &option_rows[i]);
        }
    }
}

void option_commands(const struct option_row *row, struct buf *b)
{
    const char *comma = "";
    if (row->commands == COMMANDS_ALL) {
        buf_put_text(b, "all");
        return;
    }
    for (enum command c = 0; c < COMMAND_COUNT; c++) {
        if (option_is_of(row, c)) {
            buf_printf(b, "%s%s", comma, command_word(c));
            comma = ", ";
        }
    }
}

/* No text of a row holds a bar, which ends a cell, or a <, which begins HTML. */
static void markdown_row(FILE *out, const struct option_row *row)
{
    struct buf b;
    char variable[64];
    option_variable(row, variable, sizeof variable);
    buf_init(&b, TEXT_BYTES_MAX);
    buf_printf(&b, "| `--%s%s%s`", row->name, row->arg ? " " : "", row->arg ? row->arg : "");
    if (row->letter) {
        buf_printf(&b, " `-%c`", row->letter);
    }
    buf_put_text(&b, " | ");
    option_commands(row, &b);
    if (row->typed) {
        buf_put_text(&b, " | | ");
    } else {
        buf_printf(&b, " | `%s`%s%s%s | ", variable, row->env ? " `" : "", row->env ? row->env : "",
                   row->env ? "`" : "");
    }
    option_describe(row, &b);
    buf_put_text(&b, " |\n");
    (void)fputs(buf_text(&b), out);
    buf_clear(&b);
}

void options_markdown(FILE *out)
{
    (void)fputs(
        "# Options\n\n"
        "Printed by `tenon options --markdown` from `core/options/option_rows.c`; do not edit.\n\n"
        "A value comes from the command line, else from the environment, else from the config "
        "file, else from the table below. An empty variable counts as not given. A flag may be "
        "turned off again with `--flag=no`. An option without a variable is given on the command "
        "line only, and so is whatever says which tasks an operator means or what he changes.\n\n"
        "The config file is named with `--config` or `TENON_CONFIG`. Its keys are the names "
        "below without the dashes in front; an unknown key is an error. One file serves all "
        "commands. Values that hold anything but letters, digits "
        "and `_ . : / @ -` stand in quotes; between double quotes `${NAME}` is replaced by "
        "the environment variable (one that is not set is an error: `${NAME:-value}` gives a "
        "default), between single quotes nothing is.\n\n"
        "```\n"
        "# tenon.conf\n"
        "database-url = 'postgresql://app@db.example/app?sslmode=verify-full'\n"
        "amqp-url = 'amqps://app:secret@mq.example/app'\n"
        "queues = {default, mail}\n"
        "slots = 8\n"
        "until-empty = no\n"
        "```\n\n"
        "Times are a whole number and a unit: `250ms`, `25s`, `10min`, `1h`, `7d`.\n\n"
        "| option | commands | variable | meaning |\n"
        "|---|---|---|---|\n",
        out);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        markdown_row(out, &option_rows[i]);
    }
}
