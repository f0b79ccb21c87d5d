#include "tests/fuzz/fuzz.h"

#include "worker/handler.h"

#include <stdio.h>
#include <stdlib.h>

static void load(const char *flag, const char *value)
{
    struct fault f = {0};
    struct options *o = NULL;
    struct handlers handlers = {0};
    char *argv[] = {(char *)(uintptr_t) "worker",
                    (char *)(uintptr_t)flag,
                    (char *)(uintptr_t)value,
                    (char *)(uintptr_t) "--database-url",
                    (char *)(uintptr_t) "postgresql://here",
                    (char *)(uintptr_t) "--amqp-url",
                    (char *)(uintptr_t) "none",
                    NULL};
    bool ok = options_read(COMMAND_WORKER, 7, argv, &o, &f);
    fuzz_fault(ok, &f);
    if (!ok) {
        return;
    }
    ok = handlers_load(o, &handlers, &f);
    fuzz_fault(ok, &f);
    for (int i = 0; i < handlers.n; i++) {
        const struct handler *h = &handlers.items[i];
        fuzz_that(h->kinds && h->argv[0], "a handler without a kind or a command");
    }
    for (size_t i = 0; i < handlers.n_kinds; i++) {
        fuzz_that(handlers_find(&handlers, handlers.kinds[i].name) == handlers.kinds[i].handler,
                  "a kind with two handlers");
    }
    handlers_clear(&handlers);
    options_free(o);
}

int fuzz_handlers(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    load("--handlers", fuzz_file_open(data, size));
    fuzz_file_close();
    load("--handler", text);
    free(text);
    return 0;
}
