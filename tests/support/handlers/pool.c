/* A pool handler that does what the payload says, and writes the journal (support/journal.h).
 *
 *   {}                   done                     {"do": "sleep", "ms": 100}   done after a while
 *   {"do": "first", "ms": 100}                    sleep at the first claim only
 *   {"do": "result"}     done, result = payload   {"do": "fail", "delay_ms": 5}  failed "asked to"
 *   {"do": "trace"}      done, result = the traceparent that it got
 *   {"do": "snooze", "delay_ms": 10}               {"do": "dead"}
 *   {"do": "once later", "delay_ms": 10}   later at the first claim, else done
 *   {"do": "crash"}      abort before an answer   {"do": "exit"}   exit 0 before an answer
 *   {"do": "garbage"} {"do": "wrong"} {"do": "twice"} {"do": "silent"}   bad answers
 *   {"do": "finish"}     after "ms": insert into public.effect and tenon.finish() in one
 *                        transaction, then done
 *
 * With "again_ms" in a payload, the task lasts so much longer after its first claim.
 *
 * Arguments: in_flight of the hello line; "nohello" says none; "badhello" says a wrong one. */
#include "core/base/point.h"

#include <fcntl.h>
#include <jansson.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int journal = -1;

/* The number of the claim, its second part: unlike the attempt it is never the same again. */
static long long claims_of(const json_t *task)
{
    const char *claim = json_string_value(json_object_get(task, "claim"));
    return strtoll(strchr(claim, '/') + 1, NULL, 10);
}

static void note(const json_t *task, const char *what)
{
    struct timespec ts;
    char line[160];
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    int n = snprintf(line, sizeof line, "%lld %lld %d %s %lld%09ld\n",
                     (long long)json_integer_value(json_object_get(task, "id")), claims_of(task),
                     (int)getpid(), what, (long long)ts.tv_sec, ts.tv_nsec);
    if (journal >= 0 && write(journal, line, (size_t)n) != n) {
        abort();
    }
}

static void answer(const json_t *task, const char *rest)
{
    (void)printf("{\"id\":%lld,%s}\n", (long long)json_integer_value(json_object_get(task, "id")),
                 rest);
    (void)fflush(stdout);
}

static void answer_outcome(const json_t *task, const char *outcome, const json_t *payload)
{
    char rest[160];
    const json_t *delay = json_object_get(payload, "delay_ms");
    int n = snprintf(rest, sizeof rest, "\"outcome\":\"%s\",\"error\":\"asked to\"", outcome);
    if (delay) {
        (void)snprintf(rest + n, sizeof rest - (size_t)n, ",\"delay_ms\":%lld",
                       (long long)json_integer_value(delay));
    }
    answer(task, rest);
}

static void sleep_ms(long long ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&ts, NULL);
}

/* The effect and the end of the task, in one transaction. */
static void finish_inside(const json_t *task)
{
    static PGconn *conn;
    if (!conn) {
        conn = PQconnectdb(getenv("DATABASE_URL"));
    }
    char id[24];
    (void)snprintf(id, sizeof id, "%lld",
                   (long long)json_integer_value(json_object_get(task, "id")));
    const char *params[] = {id, json_string_value(json_object_get(task, "claim"))};
    PQclear(PQexec(conn, "BEGIN"));
    PQclear(PQexecParams(conn, "INSERT INTO public.effect VALUES ($1)", 1, NULL, params, NULL, NULL,
                         0));
    PGresult *result = PQexecParams(conn, "SELECT tenon.finish($1, '\"inside\"')", 1, NULL,
                                    params + 1, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        (void)fputs(PQerrorMessage(conn), stderr);
    }
    PQclear(result);
    PQclear(PQexec(conn, "COMMIT"));
}

static void run(const json_t *task)
{
    struct fault fault = {0};
    const json_t *payload = json_object_get(task, "payload");
    const char *what = json_string_value(json_object_get(payload, "do"));
    what = what ? what : "done";
    if (strcmp(what, "once later") == 0) {
        bool first = claims_of(task) == 1;
        what = first ? "snooze" : "done";
    }
    if (POINT_FAILS(handler_begun, &fault)) {
        answer_outcome(task, "failed", payload);
        return;
    }
    note(task, "start");
    bool is_first = claims_of(task) == 1;
    if (strcmp(what, "sleep") == 0 || (strcmp(what, "first") == 0 && is_first)) {
        sleep_ms((long long)json_integer_value(json_object_get(payload, "ms")));
    } else if (strcmp(what, "crash") == 0) {
        (void)fputs("about to crash\n", stderr);
        abort();
    } else if (strcmp(what, "exit") == 0) {
        exit(0);
    } else if (strcmp(what, "finish") == 0) {
        sleep_ms((long long)json_integer_value(json_object_get(payload, "ms")));
        finish_inside(task);
        if (POINT_FAILS(handler_effect, &fault)) {
            answer_outcome(task, "failed", payload);
            return;
        }
    }
    if (claims_of(task) > 1) {
        sleep_ms((long long)json_integer_value(json_object_get(payload, "again_ms")));
    }
    note(task, "end");
    if (strcmp(what, "fail") == 0) {
        answer_outcome(task, "failed", payload);
    } else if (strcmp(what, "snooze") == 0 || strcmp(what, "dead") == 0) {
        answer_outcome(task, what, payload);
    } else if (strcmp(what, "garbage") == 0) {
        (void)puts("this is no JSON");
        (void)fflush(stdout);
    } else if (strcmp(what, "wrong") == 0) {
        (void)puts("{\"id\":999999999,\"outcome\":\"done\"}");
        (void)fflush(stdout);
    } else if (strcmp(what, "result") == 0) {
        char *text = json_dumps(payload, JSON_COMPACT);
        char rest[4096];
        (void)snprintf(rest, sizeof rest, "\"outcome\":\"done\",\"result\":%s", text);
        answer(task, rest);
        free(text);
    } else if (strcmp(what, "trace") == 0) {
        const char *trace = json_string_value(json_object_get(task, "trace"));
        char rest[160];
        (void)snprintf(rest, sizeof rest, "\"outcome\":\"done\",\"result\":\"%s\"",
                       trace ? trace : "none");
        answer(task, rest);
    } else if (strcmp(what, "silent") != 0) {
        answer(task, "\"outcome\":\"done\"");
        if (strcmp(what, "twice") == 0) {
            answer(task, "\"outcome\":\"done\"");
        }
    }
    POINT(handler_answered);
}

int main(int argc, char **argv)
{
    const char *path = getenv("TEST_JOURNAL");
    const char *mode = argc > 1 ? argv[1] : "1";
    journal = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (strcmp(mode, "badhello") == 0) {
        (void)puts("{\"hello\":\"world\"}");
    } else if (strcmp(mode, "nohello") != 0) {
        (void)printf("{\"hello\":\"tenon\",\"in_flight\":%s}\n", mode);
    }
    (void)fflush(stdout);
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        json_t *task = json_loads(line, 0, NULL);
        if (!task) {
            (void)fputs("not a task line\n", stderr);
            return 2;
        }
        run(task);
        json_decref(task);
    }
    free(line);
    return 0;
}
