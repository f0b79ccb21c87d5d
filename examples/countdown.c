/* A handler in C with a checkpoint: it continues where the last attempt stopped.
 *
 *     cmake -S examples -B build-examples && cmake --build build-examples
 *     tenon worker --handler 'countdown=pool:exec build-examples/countdown 4'
 *     tenon enqueue countdown '{"items": 100}'
 *
 * The argument is how many tasks it runs at once. For more than one number use a JSON library. */
#include <tenon/serve.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of a key in a flat object, 0 = it is not there. */
static long number_of(const char *json, const char *key)
{
    long n = 0;
    const char *at = strstr(json, key);
    if (at) {
        (void)sscanf(at + strlen(key), "\" : %ld", &n);
    }
    return n;
}

static void do_item(long i)
{
    fprintf(stderr, "item %ld\n", i);
}

static int countdown(const tenon_work *work, tenon_context *c)
{
    long items = number_of(work->payload, "items"), done = number_of(work->progress, "done");
    char text[64];
    if (items < 1) {
        (void)tenon_fail(c, "bad_payload", "the payload has no items");
        return TENON_RUN_DEAD;
    }
    while (done < items && !tenon_is_stopped(c)) {
        do_item(done++);
        snprintf(text, sizeof text, "{\"done\": %ld}", done);
        (void)tenon_progress(c, text);
        (void)tenon_extend(c, 60000);
    }
    snprintf(text, sizeof text, "{\"done\": %ld}", done);
    tenon_set_result(c, text);
    return done == items ? TENON_RUN_DONE : TENON_RUN_INTERRUPTED;
}

static const tenon_handler handlers[] = {{"countdown", countdown}};

int main(int argc, char **argv)
{
    int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    if (tenon_serve(handlers, 1, threads) != TENON_OK) {
        fprintf(stderr, "%s\n", tenon_errmsg());
        return 1;
    }
    return 0;
}
