#include "core/options/config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>

static void look_at(struct options *o)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        enum option_id id = (enum option_id)i;
        const struct option_row *row = &option_rows[i];
        int64_t n = option_int(o, id);
        bool number = row->type == OPTION_TYPE_INT || row->type == OPTION_TYPE_DURATION;
        bool read = number && option_is_given(o, id);
        fuzz_that(!read || (n >= row->min && n <= row->max), "a number beyond its limits");
        (void)option_text(o, id);
        for (size_t k = 0; k < option_items(o, id); k++) {
            fuzz_that(option_item(o, id, k) != NULL, "an item that is none");
        }
    }
}

int fuzz_config(const uint8_t *data, size_t size)
{
    static const enum command commands[] = {COMMAND_WORKER, COMMAND_CLEANER, COMMAND_ENQUEUE};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct fault f = {0};
        struct options *o = NULL;
        char word[] = "tenon", flag[] = "--config", path[64];
        (void)snprintf(path, sizeof path, "%s", fuzz_file_open(data, size));
        char *argv[] = {word, flag, path, NULL};
        bool ok = options_read(commands[i], 3, argv, &o, &f);
        fuzz_fault(ok, &f);
        if (ok) {
            look_at(o);
            options_free(o);
        }
        fuzz_file_close();
    }
    return 0;
}
