#include "tests/fuzz/fuzz.h"

#include "core/options/option_value.h"

#include <stdlib.h>

int fuzz_value(const uint8_t *data, size_t size)
{
    int64_t ms = 0;
    char *text = fuzz_string(data, size);
    fuzz_that(!duration_parse(text, &ms) || ms >= 0, "a duration below 0");
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        int64_t n = 0;
        struct fault f = {0};
        bool ok = option_value_check(row, "here", text, &n, &f);
        bool number = row->type == OPTION_TYPE_INT || row->type == OPTION_TYPE_DURATION;
        fuzz_fault(ok, &f);
        fuzz_that(!ok || !number || (n >= row->min && n <= row->max), "a value beyond its limits");
    }
    (void)fits_queue(text);
    (void)fits_kind(text);
    (void)fits_handler(text);
    (void)fits_trace(text);
    free(text);
    return 0;
}
