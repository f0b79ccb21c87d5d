#include "core/base/processors.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* The quota of one cgroup, in processors, rounded up; INT_MAX = none. */
static int quota_of(const char *directory)
{
    char path[PATH_BYTES + 64];
    long long quota = -1, period = 0;
    (void)snprintf(path, sizeof path, "%s/cpu.max", directory); /* version 2: "max 100000" */
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%lld %lld", &quota, &period) < 2) {
        quota = -1;
    }
    if (file) {
        (void)fclose(file);
    }
    return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : INT_MAX;
}

/* The least quota of a cgroup and those above it. A container may see its own as the root. */
static int quota_upwards(char *directory, size_t root_bytes)
{
    int least = quota_of(directory);
    while (strlen(directory) > root_bytes) {
        *strrchr(directory, '/') = '\0';
        int quota = quota_of(directory);
        least = quota < least ? quota : least;
    }
    return least;
}

static int quota(void)
{
    static const char root[] = "/sys/fs/cgroup";
    char line[PATH_BYTES], directory[PATH_BYTES + sizeof root];
    int least = INT_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(directory, sizeof directory, "%s%s", root, line + 3);
            least = quota_upwards(directory, sizeof root - 1);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return least;
}

int processors(void)
{
    cpu_set_t set;
    int may = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                          : (int)sysconf(_SC_NPROCESSORS_ONLN);
    int least = quota();
    least = least < may ? least : may;
    return least < 1 ? 1 : least;
}
