/* How many processors this process may use. */
#ifndef TENON_CORE_PROCESSORS_H
#define TENON_CORE_PROCESSORS_H

/* Those that it may run on (taskset, cpuset), or fewer when the quota of its cgroup gives it less
 * time (version 2 of cgroups; half a processor counts as one). 1 or more. */
int processors(void);

#endif
