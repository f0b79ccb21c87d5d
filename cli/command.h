/* The commands: the table of cli/commands.c, and their entry points. */
#ifndef TENON_CLI_COMMAND_H
#define TENON_CLI_COMMAND_H

#include "core/options/option.h"

#include <stdio.h>

/* In the order of tenon --help. */
enum command_group {
    COMMANDS_TASKS,
    COMMANDS_QUEUES,
    COMMANDS_PLANS,
    COMMANDS_FLEET,
    COMMANDS_SETUP,
    COMMANDS_DEVELOPMENT,
    COMMAND_GROUPS
};
extern const char *const command_groups[COMMAND_GROUPS]; /* their headings */

enum { EXAMPLES_MAX = 3 };

/* A daemon logs, and returns its exit code; a command answers on stdout, and main() prints its
 * fault for a person. */
struct command_row {
    enum command command;
    enum command_group group;
    int (*daemon)(const struct options *o);
    bool (*run)(const struct options *o, struct fault *f);
    size_t args_min, args_max;
    const char *args;
    const char *text;                   /* one line: what it does */
    const char *more;                   /* further lines for --help, or NULL */
    const char *examples[EXAMPLES_MAX]; /* at least two; command lines */
};
extern const struct command_row command_rows[]; /* by group */
extern const size_t command_rows_n;

int worker_command_main(const struct options *o); /* alone, or with a cleaner */
int scaler_main(const struct options *o);
int dev_main(const struct options *o);
bool setup_run(const struct options *o, struct fault *f);
bool health_run(const struct options *o, struct fault *f);
bool status_run(const struct options *o, struct fault *f);
bool show_run(const struct options *o, struct fault *f);
bool logs_run(const struct options *o, struct fault *f);
bool why_run(const struct options *o, struct fault *f);
bool schedule_run(const struct options *o, struct fault *f);
bool flow_run(const struct options *o, struct fault *f);
bool limit_run(const struct options *o, struct fault *f);
bool outbox_run(const struct options *o, struct fault *f);
bool list_run(const struct options *o, struct fault *f);
bool act_run(const struct options *o, struct fault *f);   /* retry, cancel, delete, run-now, set */
bool pause_run(const struct options *o, struct fault *f); /* and resume */
bool defaults_run(const struct options *o, struct fault *f); /* queue, kind */
bool adopt_run(const struct options *o, struct fault *f);
bool canary_run(const struct options *o, struct fault *f);
bool dead_run(const struct options *o, struct fault *f);
bool mcp_run(const struct options *o, struct fault *f);
bool doctor_run(const struct options *o, struct fault *f);
bool audit_run(const struct options *o, struct fault *f);
int wait_main(const struct options *o);
bool sync_run(const struct options *o, struct fault *f);
bool signal_run(const struct options *o, struct fault *f);
bool watch_run(const struct options *o, struct fault *f); /* status --watch */

/* docs/states.md, printed from the table of core/tasks/task.h. */
void states_markdown(FILE *out);

/* The manual page tenon(1), and what shells complete, from the tables of commands and options. */
void manual_page(FILE *out);
void complete_bash(FILE *out);
void complete_zsh(FILE *out);
void complete_fish(FILE *out);

#endif
