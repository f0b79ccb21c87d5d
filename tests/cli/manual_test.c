/* label: e2e */
/* The manual page and the completions: every command and option, and what shells make of them. */
#include "core/options/option.h"
#include "tests/support/process.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_MS = 30000 };

static char *page(struct fixture *fx, const char *form)
{
    return TENON_RUN(fx, 0, "options", form);
}

/* `name` with - as roff wants it. */
static const char *in_roff(const char *name, char text[128])
{
    char *to = text;
    for (; *name; name++) {
        if (*name == '-') {
            *to++ = '\\';
        }
        *to++ = *name;
    }
    *to = '\0';
    return text;
}

static void test_the_manual_has_all(void **state)
{
    char *text = page(*state, "--man"), line[160], name[128];
    for (enum command c = 0; c < COMMAND_COUNT; c++) {
        (void)snprintf(line, sizeof line, "\\fBtenon %s\\fR", in_roff(command_word(c), name));
        assert_contains(text, line);
    }
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        (void)snprintf(line, sizeof line, "\\fB\\-\\-%s\\fR", in_roff(option_rows[i].name, name));
        assert_contains(text, line);
    }
    free(text);
}

/* A shell with the completion loaded, and a line to complete; what it says, a word per line. */
static char *completed(struct fixture *fx, const char *shell, const char *form, const char *script)
{
    char whole[1200];
    (void)snprintf(whole, sizeof whole,
                   "'%s' options %s >'%s/completion' && exec %s -c '%s' '%s/completion'",
                   tenon_program, form, fx->dir, shell, script, fx->dir);
    const char *const argv[] = {"sh", "-c", whole, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    return file_text(p->out);
}

static void bash_completes(struct fixture *fx, const char *line, const char *expected)
{
    char script[600];
    (void)snprintf(script, sizeof script,
                   ". \"$0\"; COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tenon; "
                   "echo \"${COMPREPLY[*]}\"",
                   line);
    char *said = completed(fx, "bash", "--bash", script);
    assert_string_equal(said, expected);
    free(said);
}

static void test_bash_completes(void **state)
{
    bash_completes(*state, "tenon wor", "worker\n");
    bash_completes(*state, "tenon re", "retry resume\n");
    bash_completes(*state, "tenon worker --slo", "--slots\n");
    bash_completes(*state, "tenon worker --slots 2 --handler", "--handlers --handler\n");
    bash_completes(*state, "tenon show --slo", "\n");
    bash_completes(*state, "tenon worker --log-level w", "warning\n");
    bash_completes(*state, "tenon worker --config ta", "\n"); /* files, by bash itself */
}

/* Where they are installed. */
static void need(const char *shell)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/usr/bin/%s", shell);
    if (access(path, X_OK) != 0) {
        skip_missing("there is no %s; script/bootstrap --with-shells installs it", shell);
    }
}

static void test_fish_completes(void **state)
{
    need("fish");
    char *said = completed(*state, "fish", "--fish",
                           "source $argv[1]; complete -C \"tenon wor\"; "
                           "complete -C \"tenon worker --slo\"; "
                           "complete -C \"tenon worker --log-level w\"");
    assert_contains(said, "worker\tRun tasks\n--slots\tHow many handler processes");
    assert_contains(said, "\nwarning\t");
    free(said);
}

/* zsh completes in a terminal only; it can tell whether it understands. */
static void test_zsh_understands(void **state)
{
    need("zsh");
    char *said =
        completed(*state, "zsh", "--zsh",
                  "autoload -Uz compinit && compinit -D -u; zsh -n \"$0\" && "
                  "_describe() { print -l ${(P)2} }; words=(tenon wor); CURRENT=2; . \"$0\"");
    assert_contains(said, "worker:Run tasks\n");
    free(said);
    said = completed(
        *state, "zsh", "--zsh",
        "_arguments() { print -l -- $@ }; words=(tenon worker --slo); CURRENT=3; . \"$0\"");
    assert_contains(said,
                    "\n--slots[How many handler processes run at once, over all kinds]:value: \n");
    assert_contains(said, "\n--log-format[");
    free(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_the_manual_has_all),
        WITH_DATABASE(test_bash_completes),
        WITH_DATABASE(test_fish_completes),
        WITH_DATABASE(test_zsh_understands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
