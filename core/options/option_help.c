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

const char *option_text_for(const struct option_row *row, enum command command)
{
    for (size_t i = 0; i < option_uses_n; i++) {
        if (row == &option_rows[option_uses[i].id] && option_uses[i].commands >> command & 1) {
            return option_uses[i].text;
        }
    }
    return row->text;
}

/* What is allowed, unless that is anything or a flag, and the default. */
static void put_values(const struct option_row *row, struct buf *b)
{
    if (row->allowed || row->choices || row->max > 0) {
        char allowed[OPTION_ALLOWED_BYTES];
        option_value_allowed(row, allowed);
        buf_printf(b, " Allowed: %s.", allowed);
    }
    if (row->def) {
        buf_printf(b, " Default: %s.", row->def);
    }
}

void option_describe(const struct option_row *row, struct buf *b)
{
    buf_put_text(b, row->text);
    for (size_t i = 0; i < option_uses_n; i++) {
        if (row == &option_rows[option_uses[i].id]) {
            buf_put_text(b, " For `");
            option_commands(option_uses[i].commands, b);
            buf_printf(b, "`: %s", option_uses[i].text);
        }
    }
    put_values(row, b);
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

static void help_row(FILE *out, const struct option_row *row, enum command command)
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
    buf_put_text(&text, option_text_for(row, command));
    put_values(row, &text);
    print_wrapped(out, buf_text(&text));
    buf_clear(&text);
}

void options_help(FILE *out, enum command command)
{
    const char *heads[] = {"Options:\n", "\nOptions of all commands:\n"};
    for (int of_all = 0; of_all <= 1; of_all++) {
        const char *head = heads[of_all];
        for (const struct option_row *row = option_rows; row < option_rows + OPTION_COUNT; row++) {
            if (option_is_of(row, command) && (row->commands == COMMANDS_ALL) == of_all) {
                (void)fputs(head, out);
                help_row(out, row, command);
                head = "";
            }
        }
    }
}

void option_commands(uint64_t commands, struct buf *b)
{
    const char *comma = "";
    if (commands == COMMANDS_ALL) {
        buf_put_text(b, "all");
        return;
    }
    for (enum command c = 0; c < COMMAND_COUNT; c++) {
        if (commands >> c & 1) {
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
    option_commands(row->commands, &b);
    if (row->typed && !row->untyped) {
        buf_put_text(&b, " | | ");
    } else {
        buf_printf(&b, " | `%s`%s%s%s", variable, row->env ? " `" : "", row->env ? row->env : "",
                   row->env ? "`" : "");
        if (row->untyped) {
            buf_put_text(&b, " (");
            option_commands(row->untyped, &b);
            buf_put_char(&b, ')');
        }
        buf_put_text(&b, " | ");
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
        "file, else it is the default. An empty variable counts as not given. `--flag=no` turns a "
        "flag off again. An option without a variable can only be given on the command line; this "
        "concerns all options that select the tasks of an act or say what it changes.\n\n"
        "`--config` or `TENON_CONFIG` names the config file. Its keys are the names below without "
        "the leading dashes; an unknown key is an error. One file serves all commands. Quote a "
        "value with characters other than letters, digits and `_ . : / @ -`. Between double "
        "quotes, `${NAME}` is replaced by the environment variable, and `${NAME:-value}` has a "
        "default; without a default, a variable that is not set is an error. Between single quotes "
        "nothing is replaced.\n\n"
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
