/* The entry points of the commands; cli/main.c has the table. Each logs its own faults and returns
 * the exit code. */
#ifndef TENON_CLI_COMMAND_H
#define TENON_CLI_COMMAND_H

#include "core/option.h"

int setup_main(const struct options *o);
int status_main(const struct options *o);
int show_main(const struct options *o);

#endif
