/* docs/states.md, printed from the table of core/task.h. */
#ifndef TENON_CLI_STATES_H
#define TENON_CLI_STATES_H

#include <stdio.h>

void states_markdown(FILE *out);

#endif
