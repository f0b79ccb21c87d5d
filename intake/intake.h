/* `tenon intake`: reads its options, does its work, logs its own faults. Returns the exit code. */
#ifndef TENON_INTAKE_INTAKE_H
#define TENON_INTAKE_INTAKE_H

#include "core/options/option.h"

int intake_main(const struct options *o);

#endif
