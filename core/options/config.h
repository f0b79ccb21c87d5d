/* The config file, `key = value` lines read by libconfuse; its keys are the names of the options,
 * with - or _, so that the table of core/options/option.h is the only list of them.
 *
 *   # tenon.conf
 *   database-url = "postgresql://app@db.example/app?sslmode=verify-full"
 *   slots = 8
 *   queues = {default, mail}
 *
 * One file serves all commands: each takes what it knows and checks the rest. */
#ifndef TENON_CORE_CONFIG_H
#define TENON_CORE_CONFIG_H

#include "core/options/option.h"

/* of this file and of the handlers file; libconfuse ends the program when its own reading fails */
enum { CONFIG_BYTES_MAX = 1 << 20 };

/* A key was read. All pointers are borrowed for the call. A list that grows comes again, whole.
 *   where    "tenon.conf:3: slots", for messages
 *   false    a fault, which ends the reading */
typedef bool config_on_value(void *owner, const struct option_row *row, const char *where,
                             const char *const *values, size_t n, struct fault *f);

/* Read the file at `path`.
 *   false   CONFIG: it cannot be read; an unknown key or a syntax error, with file and line; or
 *           what `on_value` said; MEMORY */
MUST_CHECK bool config_read(const char *path, config_on_value *on_value, void *owner,
                            struct fault *f);

#endif
