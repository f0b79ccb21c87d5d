/* Completions: words of commands, names of options, choices, and files where one is meant. */
#include "cli/command.h"

#include <string.h>

/* Is the value, or an argument, the name of a file? */
static bool names_file(const char *what)
{
    return what && strstr(what, "FILE") != NULL;
}

/* The first sentence, without what would mean something between a shell's single quotes or, to zsh,
 * in a description. */
static void put_short(FILE *out, const char *text)
{
    for (; *text && !(text[0] == '.' && (text[1] == ' ' || !text[1])); text++) {
        if (strchr("[]:", *text)) {
            (void)fputc(' ', out);
        } else if (!strchr("'`\\", *text)) {
            (void)fputc(*text, out);
        }
    }
}

static void put_names(FILE *out, enum command command)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_is_of(&option_rows[i], command)) {
            (void)fprintf(out, " --%s", option_rows[i].name);
        }
    }
}

/* "--config|-c)" */
static void put_case(FILE *out, const struct option_row *row)
{
    (void)fprintf(out, "    --%s", row->name);
    if (row->letter) {
        (void)fprintf(out, "|-%c", row->letter);
    }
    (void)fputs(") ", out);
}

static void bash_values(FILE *out)
{
    for (const struct option_row *row = option_rows; row < option_rows + OPTION_COUNT; row++) {
        if (row->type == OPTION_TYPE_FLAG) {
            continue;
        }
        put_case(out, row);
        if (row->choices) {
            (void)fprintf(out, "words='%s' ;;\n", row->choices);
        } else {
            (void)fputs(names_file(row->arg) ? "return ;;\n" : "compopt +o default; return ;;\n",
                        out);
        }
    }
}

/* What is no option and no value is completed as a file, which some arguments are. */
void complete_bash(FILE *out)
{
    (void)fputs("# bash completion of tenon, printed by `tenon options --bash`\n"
                "_tenon() {\n"
                "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
                "    COMPREPLY=()\n"
                "    case $prev in\n",
                out);
    bash_values(out);
    (void)fputs("    *) case $COMP_CWORD,$cur in\n        1,*) words='--help --version", out);
    for (size_t i = 0; i < command_rows_n; i++) {
        (void)fprintf(out, " %s", command_word(command_rows[i].command));
    }
    (void)fputs("' ;;\n        *,-*) case ${COMP_WORDS[1]} in\n", out);
    for (size_t i = 0; i < command_rows_n; i++) {
        (void)fprintf(out, "            %s) words='", command_word(command_rows[i].command));
        put_names(out, command_rows[i].command);
        (void)fputs("' ;;\n", out);
    }
    (void)fputs(
        "            esac ;;\n        esac ;;\n    esac\n"
        "    if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); fi\n"
        "}\n"
        "complete -o default -F _tenon tenon\n",
        out);
}

/* '(-c --config)'{-c,--config}'[Read this config file]:FILE:_files' */
static void zsh_option(FILE *out, const struct option_row *row, enum command command)
{
    const char *each = row->type == OPTION_TYPE_EACH ? "*" : "";
    if (row->letter) {
        (void)fprintf(out, "            '(-%c --%s)'{-%c,--%s}'[", row->letter, row->name,
                      row->letter, row->name);
    } else {
        (void)fprintf(out, "            '%s--%s[", each, row->name);
    }
    put_short(out, option_text_for(row, command));
    (void)fputc(']', out);
    if (row->choices) {
        (void)fprintf(out, ":value:(%s)", row->choices);
    } else if (row->type != OPTION_TYPE_FLAG) {
        (void)fputs(names_file(row->arg) ? ":file:_files" : ":value: ", out);
    }
    (void)fputs("' \\\n", out);
}

static void zsh_command(FILE *out, const struct command_row *row)
{
    (void)fprintf(out, "    %s)\n        _arguments -s \\\n", command_word(row->command));
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_is_of(&option_rows[i], row->command)) {
            zsh_option(out, &option_rows[i], row->command);
        }
    }
    (void)fputs(names_file(row->args) ? "            '*:file:_files' ;;\n"
                                      : "            '*:argument: ' ;;\n",
                out);
}

void complete_zsh(FILE *out)
{
    (void)fputs("#compdef tenon\n# printed by `tenon options --zsh`\n"
                "_tenon() {\n    local -a commands\n    commands=(\n",
                out);
    for (size_t i = 0; i < command_rows_n; i++) {
        (void)fprintf(out, "        '%s:", command_word(command_rows[i].command));
        put_short(out, command_rows[i].text);
        (void)fputs("'\n", out);
    }
    (void)fputs("    )\n"
                "    if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
                "    shift words\n    (( CURRENT-- ))\n    case $words[1] in\n",
                out);
    for (size_t i = 0; i < command_rows_n; i++) {
        zsh_command(out, &command_rows[i]);
    }
    (void)fputs("    esac\n}\n_tenon \"$@\"\n", out);
}

/* The option in these commands, which share a text. */
static void fish_option(FILE *out, const struct option_row *row, uint64_t commands,
                        const char *text)
{
    (void)fputs("complete -c tenon -n '__fish_seen_subcommand_from", out);
    for (size_t i = 0; i < command_rows_n; i++) {
        if (commands >> command_rows[i].command & 1) {
            (void)fprintf(out, " %s", command_word(command_rows[i].command));
        }
    }
    (void)fprintf(out, "' -l %s", row->name);
    if (row->letter) {
        (void)fprintf(out, " -s %c", row->letter);
    }
    if (row->choices) {
        (void)fprintf(out, " -x -a '%s'", row->choices);
    } else if (row->type != OPTION_TYPE_FLAG) {
        (void)fputs(names_file(row->arg) ? " -r -F" : " -x", out);
    }
    (void)fputs(" -d '", out);
    put_short(out, text);
    (void)fputs("'\n", out);
}

static void fish_options(FILE *out)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        uint64_t others = option_rows[i].commands;
        for (size_t j = 0; j < option_uses_n; j++) {
            if (option_uses[j].id == i) {
                fish_option(out, &option_rows[i], option_uses[j].commands, option_uses[j].text);
                others &= ~option_uses[j].commands;
            }
        }
        fish_option(out, &option_rows[i], others, option_rows[i].text);
    }
}

void complete_fish(FILE *out)
{
    (void)fputs("# fish completion of tenon, printed by `tenon options --fish`\n"
                "complete -c tenon -f\n",
                out);
    for (size_t i = 0; i < command_rows_n; i++) {
        const char *word = command_word(command_rows[i].command);
        (void)fprintf(out, "complete -c tenon -n __fish_use_subcommand -a %s -d '", word);
        put_short(out, command_rows[i].text);
        (void)fputs("'\n", out);
        if (names_file(command_rows[i].args)) {
            (void)fprintf(out, "complete -c tenon -n '__fish_seen_subcommand_from %s' -F\n", word);
        }
    }
    fish_options(out);
}
