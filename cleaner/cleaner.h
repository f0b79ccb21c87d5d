/* `tenon cleaner`: reads its options, does its work, logs its own faults. Returns the exit code. */
#ifndef TENON_CLEANER_CLEANER_H
#define TENON_CLEANER_CLEANER_H

#include "core/options/option.h"

int cleaner_main(const struct options *o);

#endif
