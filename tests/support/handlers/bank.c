/* A pool handler of bank_test.c: transfers between accounts, each in the transaction that finishes
 * its task. */
#include <jansson.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N, FROM, TO, AMOUNT, PAUSE, CLAIM, PARAMS };

/* "" or what went wrong, which was rolled back. */
static char error[512];

static void run(PGconn *conn, const char *sql, int n, const char *const *params)
{
    PGresult *result = *error ? NULL : PQexecParams(conn, sql, n, NULL, params, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    if (!*error && status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        (void)snprintf(error, sizeof error, "%s", PQerrorMessage(conn));
    }
    PQclear(result);
}

static void transfer(PGconn *conn, const char *const params[PARAMS])
{
    *error = '\0';
    run(conn, "BEGIN", 0, NULL);
    run(conn, "SELECT FROM public.account WHERE id IN ($1, $2) ORDER BY id FOR UPDATE", 2,
        &params[FROM]);
    run(conn, "UPDATE public.account SET balance = balance - $2 WHERE id = $1", 2,
        (const char *const[]){params[FROM], params[AMOUNT]});
    run(conn, "UPDATE public.account SET balance = balance + $2 WHERE id = $1", 2, &params[TO]);
    run(conn,
        "INSERT INTO public.ledger (n, source, target, amount, by)"
        " VALUES ($1, $2, $3, $4, 'c')",
        4, params);
    run(conn, "SELECT pg_sleep($1::double precision)", 1, &params[PAUSE]);
    run(conn, "SELECT tenon.finish($1)", 1, &params[CLAIM]);
    run(conn, "COMMIT", 0, NULL);
    if (*error) {
        PQclear(PQexec(conn, "ROLLBACK"));
    }
}

static void answer(json_t *task)
{
    json_t *reply = json_pack("{s:O, s:s, s:s}", "id", json_object_get(task, "id"), "outcome",
                              *error ? "failed" : "done", "error", error);
    char *line = json_dumps(reply, JSON_COMPACT);
    (void)puts(line);
    (void)fflush(stdout);
    free(line);
    json_decref(reply);
}

static void take_line(PGconn *conn, const char *line)
{
    static const char *const names[] = {"n", "from", "to", "amount", "pause"};
    char texts[CLAIM][32];
    const char *params[PARAMS];
    json_t *task = json_loads(line, 0, NULL), *payload = json_object_get(task, "payload");
    for (int i = 0; i < CLAIM; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%g",
                       json_number_value(json_object_get(payload, names[i])));
        params[i] = texts[i];
    }
    params[CLAIM] = json_string_value(json_object_get(task, "claim"));
    if (params[CLAIM]) {
        if (PQstatus(conn) != CONNECTION_OK) {
            PQreset(conn);
        }
        transfer(conn, params);
        answer(task);
    }
    json_decref(task);
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    PGconn *conn = PQconnectdb(getenv("DATABASE_URL"));
    if (PQstatus(conn) != CONNECTION_OK) {
        (void)fputs(PQerrorMessage(conn), stderr);
        return 1;
    }
    (void)puts("{\"hello\":\"tenon\",\"in_flight\":4}");
    (void)fflush(stdout);
    while (getline(&line, &size, stdin) > 0) {
        take_line(conn, line);
    }
    free(line);
    PQfinish(conn);
    return 0;
}
