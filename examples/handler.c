/* A pool handler in C: one process that runs many tasks, in JSON lines. It is also what the
 * benchmarks run, so it takes every line that has arrived before it answers, and answers them with
 * one write.
 *
 *     tenon worker --handlers FILE, where the FILE says
 *         handler "noop,echo" { command = {"/path/to/handler"} mode = "pool" }
 *
 *     in:   {"id":7,"kind":"echo","queue":"default","attempt":1, ... ,"payload":{"a":1}}
 *     out:  {"hello":"tenon","in_flight":256}     once, first
 *           {"id":7,"outcome":"done","result":{"a":1}}
 *
 * When stdin ends, it ends. The end of stderr is kept in case it dies. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    IN_FLIGHT = 256,           /* tasks that may be sent before the first is answered */
    LINE_BYTES_MAX = 16 << 20, /* a payload is at most 1 MB, unless you allow more */
    READ_BYTES = 128 << 10,
};

/* Says how it went: an outcome, and a result or an error, a new reference. */
struct answer {
    const char *outcome; /* "done", "failed", "snooze" or "dead" */
    json_t *result;
    const char *error;
};

static struct answer run_noop(json_t *payload)
{
    (void)payload;
    return (struct answer){.outcome = "done"};
}

static struct answer run_echo(json_t *payload)
{
    return (struct answer){.outcome = "done", .result = json_incref(payload)};
}

/* {"numbers": [1, 2, 3]} */
static struct answer run_sum(json_t *payload)
{
    json_t *numbers = json_object_get(payload, "numbers"), *number;
    json_int_t sum = 0;
    size_t i;
    if (!json_is_array(numbers)) {
        return (struct answer){.outcome = "dead", .error = "the payload has no numbers"};
    }
    json_array_foreach(numbers, i, number)
    {
        sum += json_integer_value(number);
    }
    return (struct answer){.outcome = "done", .result = json_integer(sum)};
}

static const struct {
    const char *kind;
    struct answer (*run)(json_t *payload);
} handlers[] = {{"noop", run_noop}, {"echo", run_echo}, {"sum", run_sum}};

static struct answer run(const char *kind, json_t *payload)
{
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        if (strcmp(handlers[i].kind, kind) == 0) {
            return handlers[i].run(payload);
        }
    }
    return (struct answer){.outcome = "failed",
                           .error = "this program has no handler of that kind"};
}

/* Answer one line, into stdout's buffer. False: it is not what a worker sends. What jansson cannot
 * read, 2,100 arrays in each other or an integer of 20 digits, is answered by its id. */
static int answer_line(const char *line, size_t bytes)
{
    long long id;
    if (sscanf(line, "{\"id\":%lld,", &id) != 1) {
        return 0;
    }
    json_t *task = json_loadb(line, bytes, JSON_ALLOW_NUL, NULL);
    const char *kind = json_string_value(json_object_get(task, "kind"));
    struct answer a = kind ? run(kind, json_object_get(task, "payload"))
                           : (struct answer){.outcome = "dead",
                                             .error = "jansson cannot read the payload"};
    printf("{\"id\":%lld,\"outcome\":\"%s\"", id, a.outcome);
    if (a.result) {
        fputs(",\"result\":", stdout);
        json_dumpf(a.result, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
        json_decref(a.result);
    }
    if (a.error) {
        printf(",\"error\":\"%s\"", a.error); /* ours, so there is nothing to escape */
    }
    fputs("}\n", stdout);
    json_decref(task);
    return 1;
}

/* Answer all whole lines of `data`; returns how many bytes they were, or -1. */
static ssize_t answer_lines(const char *data, size_t bytes)
{
    size_t done = 0;
    const char *end;
    while ((end = memchr(data + done, '\n', bytes - done))) {
        if (!answer_line(data + done, (size_t)(end - data) - done)) {
            return -1;
        }
        done = (size_t)(end - data) + 1;
    }
    return (ssize_t)done;
}

/* Room for another read after the `bytes` that are there; NULL: none. */
static char *make_room(char *data, size_t bytes, size_t *room)
{
    if (bytes + READ_BYTES > *room && *room < LINE_BYTES_MAX) {
        *room = *room ? *room * 2 : 2 * READ_BYTES;
        data = realloc(data, *room);
    }
    return bytes + READ_BYTES > *room ? NULL : data;
}

int main(void)
{
    static char out[256 << 10];
    char *data = NULL;
    size_t bytes = 0, room = 0;
    ssize_t n, done;
    setvbuf(stdout, out, _IOFBF, sizeof out);
    printf("{\"hello\":\"tenon\",\"in_flight\":%d}\n", IN_FLIGHT);
    for (;;) {
        fflush(stdout); /* one write for all that was answered */
        data = make_room(data, bytes, &room);
        n = data ? read(STDIN_FILENO, data + bytes, READ_BYTES) : -1;
        if (n <= 0) {
            free(data);
            return n == 0 ? 0 : 1;
        }
        bytes += (size_t)n;
        done = answer_lines(data, bytes);
        if (done < 0) {
            fprintf(stderr, "that is no task\n");
            free(data);
            return 1;
        }
        memmove(data, data + done, bytes - (size_t)done);
        bytes -= (size_t)done;
    }
}
