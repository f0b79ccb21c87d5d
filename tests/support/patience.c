#include "tests/support/patience.h"

#include "core/base/now.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <unistd.h>

int64_t patience_end_ms(int64_t limit_ms)
{
    return now_ms() + limit_ms * PATIENCE;
}

/* How many processes there are for each processor that want to run; 1 at least. */
static double machine_load(void)
{
    double minute = 0;
    int now = 0;
    FILE *file = fopen("/proc/loadavg", "re");
    if (file) {
        (void)!fscanf(file, "%lf %*f %*f %d", &minute, &now);
        (void)fclose(file);
    }
    double most = minute > now ? minute : now, processors = (double)sysconf(_SC_NPROCESSORS_ONLN);
    return most > processors ? most / processors : 1;
}

int64_t patience_loaded_ms(int64_t limit_ms)
{
    return (int64_t)((double)limit_ms * machine_load());
}

void assert_took_between(int64_t since_ms, int64_t least_ms, int64_t most_ms)
{
    int64_t took_ms = now_ms() - since_ms, allowed_ms = patience_loaded_ms(most_ms);
    if (took_ms < least_ms || took_ms > allowed_ms) {
        fail_msg("it took %lld ms, allowed were %lld to %lld (%lld on a quiet machine)",
                 (long long)took_ms, (long long)least_ms, (long long)allowed_ms,
                 (long long)most_ms);
    }
}

void assert_took(int64_t since_ms, int64_t most_ms)
{
    assert_took_between(since_ms, 0, most_ms);
}
