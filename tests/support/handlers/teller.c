/* A pool handler that says how far it is, as the payload says; it hears stop.
 *
 *   {"to": 100, "ms": 20}     counts from where the last attempt was to 100, a line of progress and
 *                             20 ms for each, then done; the result says where it began, and in
 *                             which process
 *   "end": "fail" | "crash"   the first attempt, at its end
 *   "extend_ms": 60000        asks for more time, at first, by a line; "extend": "1 min" by SQL
 *   "stop": "interrupted" | "done" | "deaf"   what it answers when it is told to stop; it stops at
 *                             once, unless it is deaf
 *
 * What it is told it writes into the file TEST_TOLD. */
#include <jansson.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long long int_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void extend_inside(const json_t *task, const char *by)
{
    PGconn *conn = PQconnectdb(getenv("DATABASE_URL"));
    const char *params[] = {text_of(task, "claim"), by};
    PGresult *result = PQexecParams(conn, "SELECT tenon.extend($1, $2)", 2, NULL, params, NULL,
                                    NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        (void)fputs(PQerrorMessage(conn), stderr);
        abort();
    }
    PQclear(result);
    PQfinish(conn);
}

/* Wait; true when it was told to stop. */
static bool is_told(int ms)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    char line[256] = "";
    if (poll(&in, 1, ms) <= 0) {
        return false;
    }
    if (!fgets(line, sizeof line, stdin)) {
        exit(0); /* its worker is gone */
    }
    FILE *told = fopen(getenv("TEST_TOLD"), "ae");
    (void)fputs(line, told);
    (void)fclose(told);
    return true;
}

static void answer(long long id, const char *outcome, long long from)
{
    (void)printf("{\"id\":%lld,\"outcome\":\"%s\",\"result\":{\"from\":%lld,\"pid\":%d}}\n", id,
                 outcome, from, (int)getpid());
    (void)fflush(stdout);
}

static void run(const json_t *task)
{
    const json_t *payload = json_object_get(task, "payload");
    const char *stop = text_of(payload, "stop"), *end = text_of(payload, "end");
    long long id = int_of(task, "id"), to = int_of(payload, "to"), ms = int_of(payload, "ms");
    long long from = int_of(json_object_get(task, "progress"), "n");
    if (json_object_get(payload, "extend_ms")) {
        (void)printf("{\"id\":%lld,\"extend_ms\":%lld}\n", id, int_of(payload, "extend_ms"));
    }
    if (json_object_get(payload, "extend")) {
        extend_inside(task, text_of(payload, "extend"));
    }
    for (long long n = from + 1; n <= to; n++) {
        (void)printf("{\"id\":%lld,\"progress\":{\"n\":%lld}}\n", id, n);
        if (ms > 0 || n == to) {
            (void)fflush(stdout);
        }
        if (ms > 0 && is_told((int)ms) && strcmp(stop, "deaf") != 0) {
            answer(id, stop, from);
            return;
        }
    }
    if (int_of(task, "attempt") == 1 && strcmp(end, "crash") == 0) {
        _exit(7);
    }
    answer(id, int_of(task, "attempt") == 1 && strcmp(end, "fail") == 0 ? "failed" : "done", from);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    (void)puts("{\"hello\":\"tenon\",\"stop\":true}");
    (void)fflush(stdout);
    while (getline(&line, &cap, stdin) > 0) {
        json_t *task = json_loads(line, 0, NULL);
        if (!json_object_get(task, "stop")) {
            run(task);
        }
        json_decref(task);
    }
    free(line);
    return 0;
}
