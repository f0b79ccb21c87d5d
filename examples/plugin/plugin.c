/* A handler in C for tenon-host, with a checkpoint: it goes on where the last attempt stopped.
 *
 *     cmake -S examples/plugin -B build-plugin && cmake --build build-plugin
 *     tenon worker --handler 'countdown=pool:exec tenon-host build-plugin/plugin.so'
 *     tenon enqueue countdown '{"items": 100}'
 *
 * Take a JSON library for more than one number. */
#include <tenon/handler.h>

#include <stdio.h>
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
        return TENON_DEAD;
    }
    while (done < items && !tenon_is_stopped(c)) {
        do_item(done++);
        snprintf(text, sizeof text, "{\"done\": %ld}", done);
        (void)tenon_progress(c, text);
        (void)tenon_extend(c, 60000);
    }
    snprintf(text, sizeof text, "{\"done\": %ld}", done);
    tenon_set_result(c, text);
    return done == items ? TENON_DONE : TENON_INTERRUPTED;
}

static const tenon_handler handlers[] = {{"countdown", countdown}};
TENON_PLUGIN(handlers, NULL, NULL);
