#include "worker/isolation.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { GROUPS_MAX = 1024 };

/* As a login sets them; the worker's would lead into its own home. */
static bool set_variables(struct isolation *i, const struct passwd *entry)
{
    const char *const shell = *entry->pw_shell ? entry->pw_shell : "/bin/sh";
    const char *const pairs[ISOLATION_VARIABLES][2] = {{"USER", entry->pw_name},
                                                       {"LOGNAME", entry->pw_name},
                                                       {"HOME", entry->pw_dir},
                                                       {"SHELL", shell}};
    bool ok = true;
    for (int n = 0; ok && n < ISOLATION_VARIABLES; n++) {
        ok = asprintf(&i->variables[n], "%s=%s", pairs[n][0], pairs[n][1]) > 0;
        i->variables[n] = ok ? i->variables[n] : NULL;
    }
    return ok;
}

bool isolation_set_user(struct isolation *i, const char *user, struct fault *f)
{
    errno = 0;
    const struct passwd *entry = getpwnam(user);
    if (!entry) {
        return fault_set(f, FAULT_CONFIG, "there is no user %s%s%s", user, errno ? ": " : "",
                         errno ? strerror(errno) : "");
    }
    if (geteuid() != 0 && geteuid() != entry->pw_uid) {
        return fault_set(f, FAULT_CONFIG, "to run handlers as user %s the worker must run as root",
                         user);
    }
    i->has_user = geteuid() == 0;
    i->uid = entry->pw_uid;
    i->gid = entry->pw_gid;
    i->n_groups = GROUPS_MAX;
    i->groups = calloc(GROUPS_MAX, sizeof *i->groups);
    if (!i->groups || (i->has_user && !set_variables(i, entry))) {
        return fault_memory(f);
    }
    return getgrouplist(user, i->gid, i->groups, &i->n_groups) >= 0 ||
           fault_set(f, FAULT_CONFIG, "user %s has more than %d groups", user, GROUPS_MAX);
}

void isolation_clear(struct isolation *i)
{
    free(i->groups);
    for (int n = 0; n < ISOLATION_VARIABLES; n++) {
        free(i->variables[n]);
    }
    *i = (struct isolation){0};
}

bool isolation_is_root(const struct isolation *i)
{
    return !i->has_user && geteuid() == 0;
}

static bool limit(int resource, int64_t most)
{
    struct rlimit l = {.rlim_cur = (rlim_t)most, .rlim_max = (rlim_t)most};
    return most == 0 || setrlimit((__rlimit_resource_t)resource, &l) == 0;
}

bool isolation_apply(const struct isolation *i)
{
    return limit(RLIMIT_DATA, i->memory_mib * 1024 * 1024) && limit(RLIMIT_CPU, i->cpu_s) &&
           limit(RLIMIT_NOFILE, i->files) && limit(RLIMIT_NPROC, i->processes) &&
           (!i->has_user || (setgroups((size_t)i->n_groups, i->groups) == 0 &&
                             setgid(i->gid) == 0 && setuid(i->uid) == 0)) &&
           (!i->no_new_privs || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
}
