/* `tenon states --markdown`, for docs/. */
#include "cli/command.h"
#include "core/tasks/task.h"

/* Mermaid's name for the beginning and the end. */
static const char *node(enum task_state state)
{
    return state == TASK_NONE ? "[*]" : task_state_word(state);
}

static bool is_same_arrow(const struct task_act *a, const struct task_act *b)
{
    return a->from == b->from && a->to == b->to;
}

/* One arrow for all the acts that go the same way, drawn at the first of them. */
static void print_arrow(FILE *out, size_t first)
{
    const struct task_act *act = &task_acts[first];
    for (size_t i = 0; i < first; i++) {
        if (is_same_arrow(&task_acts[i], act)) {
            return;
        }
    }
    (void)fprintf(out, "    %s --> %s: %s", node(act->from), node(act->to), act->name);
    for (size_t i = first + 1; i < task_acts_n; i++) {
        if (is_same_arrow(&task_acts[i], act)) {
            (void)fprintf(out, ", %s", task_acts[i].name);
        }
    }
    (void)fputc('\n', out);
}

static void print_states(FILE *out)
{
    (void)fputs("| state | table and meaning |\n|---|---|\n", out);
    for (int i = 0; i < TASK_STATE_COUNT; i++) {
        enum task_state state = (enum task_state)i;
        (void)fprintf(out, "| %s | %s |\n", task_state_word(state), task_state_text(state));
    }
}

static void print_acts(FILE *out)
{
    (void)fputs("| act | from | to | who | how | when |\n|---|---|---|---|---|---|\n", out);
    for (size_t i = 0; i < task_acts_n; i++) {
        const struct task_act *act = &task_acts[i];
        (void)fprintf(out, "| %s | %s | %s | %s | %s | %s |\n", act->name,
                      task_state_word(act->from), task_state_word(act->to), act->who, act->how,
                      act->text);
    }
}

void states_markdown(FILE *out)
{
    (void)fputs("# The life of a task\n\n"
                "Printed by `tenon states --markdown` from `core/tasks/task.c`; do not edit.\n\n"
                "```mermaid\nstateDiagram-v2\n",
                out);
    for (size_t i = 0; i < task_acts_n; i++) {
        print_arrow(out, i);
    }
    (void)fputs("```\n\n## States\n\n", out);
    print_states(out);
    (void)fputs("\nThe view `tenon.tasks` shows every task with its state. A pause does not "
                "change the state of a task.\n\n## Acts\n\n",
                out);
    print_acts(out);
    (void)fputs("\nA snoozed task that failed or crashed before is `retrying`.\n", out);
}
