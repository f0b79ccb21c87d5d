/* The entry points of the commands; cli/main.c has the table. */
#ifndef TENON_CLI_COMMAND_H
#define TENON_CLI_COMMAND_H

#include "core/option.h"

#include <stdio.h>

bool setup_run(const struct options *o, struct fault *f);
bool status_run(const struct options *o, struct fault *f);
bool show_run(const struct options *o, struct fault *f);
bool why_run(const struct options *o, struct fault *f);
bool schedule_run(const struct options *o, struct fault *f);
bool flow_run(const struct options *o, struct fault *f);
bool limit_run(const struct options *o, struct fault *f);
bool list_run(const struct options *o, struct fault *f);
bool act_run(const struct options *o, struct fault *f);   /* retry, cancel, delete, run-now, set */
bool pause_run(const struct options *o, struct fault *f); /* and resume */
bool defaults_run(const struct options *o, struct fault *f); /* queue, kind */
bool adopt_run(const struct options *o, struct fault *f);
bool doctor_run(const struct options *o, struct fault *f);
bool audit_run(const struct options *o, struct fault *f);
int wait_main(const struct options *o);
bool signal_run(const struct options *o, struct fault *f);
bool watch_run(const struct options *o, struct fault *f); /* status --watch */

/* docs/states.md, printed from the table of core/task.h. */
void states_markdown(FILE *out);

#endif
