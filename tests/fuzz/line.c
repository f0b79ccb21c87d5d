#include "worker/line.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int fuzz_line(const uint8_t *data, size_t size)
{
    struct fault f = {0};
    int in_flight = 0;
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size = end ? (size_t)(end - data) : size;
    char *line = fuzz_string(data, size);
    bool ok = line_parse_hello(line, size, &in_flight, &f);
    fuzz_fault(ok, &f);
    fuzz_that(!ok || (in_flight >= 1 && in_flight <= IN_FLIGHT_MAX), "in_flight beyond its limits");
    struct event event = {.outcome = OUTCOME_NONE};
    fault_clear(&f);
    ok = line_parse(line, size, &event, &f);
    fuzz_fault(ok, &f);
    bool bye = event.type == EVENT_CHILD_RETIRES;
    fuzz_that(!ok || bye || (event.outcome != OUTCOME_NONE && event.outcome != OUTCOME_RELEASED),
              "no outcome");
    fuzz_that(!ok || bye || event.delay_ms == -1 || event.delay_ms >= 1, "a delay below 1 ms");
    free(event.reply);
    free(event.error);
    free(line);
    return 0;
}
