/* What a handler's process may do: as which user it runs, within which limits. Read from its
 * section of the handlers file, put into force in the child between fork and exec. */
#ifndef TENON_WORKER_ISOLATION_H
#define TENON_WORKER_ISOLATION_H

#include "core/base/fault.h"

#include <stdint.h>
#include <sys/types.h>

enum { ISOLATION_VARIABLES = 4 };

/* Zeros: as the worker itself. */
struct isolation {
    bool has_user, no_new_privs;
    char
        *variables[ISOLATION_VARIABLES + 1]; /* USER, LOGNAME, HOME and SHELL of the user; ends with
                                                 NULL */
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    int n_groups;
    int64_t memory_mib; /* of data: what it has allocated, not what it has mapped or reserved */
    int64_t cpu_s;
    int64_t files;     /* descriptors at once */
    int64_t processes; /* of its user, all in all */
};

/* Run as this user, with its groups.
 *   false   CONFIG: there is none, or this process is not root */
MUST_CHECK bool isolation_set_user(struct isolation *i, const char *user, struct fault *f);
void isolation_clear(struct isolation *i);

/* Would it run with all rights, and nobody has said so? */
bool isolation_is_root(const struct isolation *i);

/* In the child. Only async-signal-safe calls; the signal of its parent's death is lost with a
 * change of user. false: errno */
MUST_CHECK bool isolation_apply(const struct isolation *i);

#endif
