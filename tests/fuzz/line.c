#include "worker/line.h"

#include "tests/fuzz/fuzz.h"
#include "worker/decide/slots.h"

#include <stdlib.h>
#include <string.h>

int fuzz_line(const uint8_t *data, size_t size)
{
    struct fault f = {0};
    struct hello hello = {0};
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size = end ? (size_t)(end - data) : size;
    char *line = fuzz_string(data, size);
    bool ok = line_parse_hello(line, size, &hello, &f);
    fuzz_fault(ok, &f);
    fuzz_that(!ok || *hello.starting || (hello.in_flight >= 1 && hello.in_flight <= IN_FLIGHT_MAX),
              "in_flight beyond its limits");
    struct event event = {.outcome = OUTCOME_NONE};
    fault_clear(&f);
    ok = line_parse(line, size, &event, &f);
    fuzz_fault(ok, &f);
    bool reply = ok && event.type == EVENT_REPLY, progress = ok && event.type == EVENT_PROGRESS;
    fuzz_that(!reply || event.outcome != OUTCOME_NONE, "no outcome");
    fuzz_that(!reply || event.delay_ms == -1 || event.delay_ms >= 1, "a delay below 1 ms");
    fuzz_that(!progress || event.progress || event.extend_ms != 0, "a line about nothing");
    bool step = ok && event.type == EVENT_STEP,
         waits = reply && event.outcome == OUTCOME_WAIT_SIGNAL;
    fuzz_that(!step || (event.step && (*event.name || !*event.step)), "a step without a name");
    fuzz_that(!waits || event.signal, "it waits for nothing");
    fuzz_that(!ok || event.type != EVENT_CHILD_READY ||
                  (event.room >= 1 && event.room <= IN_FLIGHT_MAX),
              "in_flight beyond its limits");
    if (ok && event.reply) {
        fuzz_reply(event.reply);
    }
    fuzz_that(!ok || event.type != EVENT_LOG || event.message, "a log line without a message");
    free(event.message);
    free(event.fields);
    free(event.progress);
    free(event.step);
    free(event.signal);
    free(event.reply);
    free(event.error);
    free(line);
    return 0;
}
