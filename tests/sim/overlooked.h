/* The cleaner's look at overlooked rows, overlooked.sql, with the real sweep. */
#ifndef TENON_TESTS_SIM_OVERLOOKED_H
#define TENON_TESTS_SIM_OVERLOOKED_H

#include "tests/sim/cleaner.h"

void overlooked_look(struct sim *s, struct cleaner *c);

#endif
