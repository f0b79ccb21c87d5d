#include "core/option_value.h"

#include "core/buf.h"

#include <ctype.h>
#include <string.h>

enum { HELP_INDENT = 30, HELP_COLUMNS = 96, HELP_BYTES_MAX = 2048 };

void option_variable(const struct option_row *row, char *text, size_t size)
{
    (void)snprintf(text, size, "TENON_%s", row->name);
    for (char *c = text; *c; c++) {
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    }
}

/* What a flag or a free text allows need not be said. */
static bool shows_allowed(const struct option_row *row)
{
    return row->type == OPTION_TYPE_INT || row->type == OPTION_TYPE_DURATION ||
           row->type == OPTION_TYPE_CHOICE || row->allowed;
}

/* The sentence, then what is allowed and the default. */
static void put_text(struct buf *b, const struct option_row *row)
{
    buf_put_text(b, row->text);
    if (shows_allowed(row)) {
        char allowed[OPTION_ALLOWED_BYTES];
        option_value_allowed(row, allowed);
        buf_printf(b, " Allowed: %s.", allowed);
    }
    if (row->def && row->type != OPTION_TYPE_FLAG) {
        buf_printf(b, " Default: %s.", row->def);
    }
}

/* Print a text word by word, so that no line is longer than HELP_COLUMNS; without Markdown's `. */
static void print_wrapped(FILE *out, const char *text, int column)
{
    const char *space = "";
    for (const char *word = text; *word; word += strspn(word, " ")) {
        size_t n = strcspn(word, " ");
        if (column + (int)n > HELP_COLUMNS) {
            column = HELP_INDENT;
            (void)fprintf(out, "\n%*s", HELP_INDENT, "");
            space = "";
        }
        (void)fputs(space, out);
        for (size_t i = 0; i < n; i++) {
            if (word[i] != '`') {
                (void)fputc(word[i], out);
            }
        }
        column += (int)n + 1;
        word += n;
        space = " ";
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
    int len = (int)strlen(name);
    (void)fprintf(out, "%-*s", HELP_INDENT, name);
    if (len >= HELP_INDENT) {
        (void)fprintf(out, "\n%*s", HELP_INDENT, "");
    }
    buf_init(&text, HELP_BYTES_MAX);
    put_text(&text, row);
    print_wrapped(out, buf_text(&text), HELP_INDENT);
    buf_clear(&text);
}

void options_help(FILE *out, enum command command)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_rows[i].commands & command) {
            help_row(out, &option_rows[i]);
        }
    }
}

static void markdown_commands(FILE *out, const struct option_row *row)
{
    if (row->commands == COMMANDS_ALL) {
        (void)fputs("all", out);
        return;
    }
    const char *comma = "";
    for (unsigned c = 1; c < COMMANDS_ALL; c <<= 1) {
        if (row->commands & c) {
            (void)fprintf(out, "%s%s", comma, command_word((enum command)c));
            comma = ", ";
        }
    }
}

/* A cell may hold no bar, and a < would begin HTML. */
static void markdown_cell(FILE *out, const char *text)
{
    bool code = false;
    for (const char *c = text; *c; c++) {
        code = *c == '`' ? !code : code;
        if (*c == '|' || (*c == '<' && !code)) {
            (void)fputc('\\', out);
        }
        (void)fputc(*c, out);
    }
}

static void markdown_row(FILE *out, const struct option_row *row)
{
    char variable[64];
    char allowed[OPTION_ALLOWED_BYTES];
    option_variable(row, variable, sizeof variable);
    option_value_allowed(row, allowed);
    (void)fprintf(out, "| `--%s%s%s`", row->name, row->arg ? " " : "", row->arg ? row->arg : "");
    if (row->letter) {
        (void)fprintf(out, " `-%c`", row->letter);
    }
    (void)fputs(" | ", out);
    markdown_commands(out, row);
    bool can_be_variable = row->id != OPTION_HELP;
    (void)fprintf(out, " | %s%s%s%s%s%s", can_be_variable ? "`" : "",
                  can_be_variable ? variable : "", can_be_variable ? "`" : "", row->env ? " `" : "",
                  row->env ? row->env : "", row->env ? "`" : "");
    (void)fprintf(out, " | %s%s%s | ", row->def ? "`" : "", row->def ? row->def : "",
                  row->def ? "`" : "");
    markdown_cell(out, allowed);
    (void)fputs(" | ", out);
    markdown_cell(out, row->text);
    (void)fputs(" |\n", out);
}

void options_markdown(FILE *out)
{
    (void)fputs(
        "# Options\n\n"
        "Printed by `tenon options --markdown` from `core/option_rows.c`; do not edit.\n\n"
        "A value comes from the command line, else from the environment, else from the config "
        "file, else from the table below. An empty variable counts as not given. A flag may be "
        "turned off again with `--flag=no`.\n\n"
        "The config file is named with `--config` or `TENON_CONFIG`. Its keys are the names "
        "below without the dashes in front, with `-` or `_` inside; an unknown key is an "
        "error. One file serves all commands. Values that hold anything but letters, digits "
        "and `_ . : / @ -` stand in quotes; between double quotes `${NAME}` is replaced by "
        "the environment variable, between single quotes nothing is.\n\n"
        "```\n"
        "# tenon.conf\n"
        "database-url = 'postgresql://app@db.example/app'\n"
        "amqp-url = 'amqp://app:secret@mq.example/app'\n"
        "queues = {default, mail}\n"
        "slots = 8\n"
        "until-empty = no\n"
        "```\n\n"
        "Times are a whole number and a unit: `250ms`, `25s`, `10min`, `1h`, `7d`.\n\n"
        "| option | commands | variable | default | allowed | meaning |\n"
        "|---|---|---|---|---|---|\n",
        out);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        markdown_row(out, &option_rows[i]);
    }
}
