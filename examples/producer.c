/* Signs a user up and enqueues the welcome mail in the same transaction.
 *
 *     cc producer.c $(pkg-config --cflags --libs tenon) -o producer
 *     DATABASE_URL=postgresql://... AMQP_URL=amqp://... ./producer ann@example.org
 *
 * Without a URL for RabbitMQ set AMQP_URL=none: the cleaner then wakes the workers up. */
#include <tenon/tenon.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Run a statement with one parameter, or none. */
static int run(PGconn *conn, const char *sql, const char *value)
{
    PGresult *result = PQexecParams(conn, sql, value ? 1 : 0, NULL, value ? &value : NULL, NULL,
                                    NULL, 0);
    int ok = PQresultStatus(result) == PGRES_COMMAND_OK ||
             PQresultStatus(result) == PGRES_TUPLES_OK;
    if (!ok) {
        fprintf(stderr, "%s", PQerrorMessage(conn));
    }
    PQclear(result);
    return ok;
}

/* One transaction: the user and the task are both there, or neither. */
static int sign_up(tenon *t, PGconn *conn, const char *mail)
{
    tenon_task task = TENON_TASK_INIT;
    char payload[300];
    int64_t id;
    if (strlen(mail) > 200 || strpbrk(mail, "\"\\")) {
        fprintf(stderr, "that is not an address\n");
        return 0;
    }
    snprintf(payload, sizeof payload, "{\"to\": \"%s\"}", mail);
    task.kind = "welcome_mail";
    task.payload = payload;
    if (!run(conn, "BEGIN", NULL) || !run(conn, "INSERT INTO users (mail) VALUES ($1)", mail)) {
        tenon_rollback(t, conn);
        return 0;
    }
    if (tenon_enqueue(t, conn, &task, &id) != TENON_OK) {
        fprintf(stderr, "%s\n", tenon_errmsg());
        tenon_rollback(t, conn);
        return 0;
    }
    if (tenon_commit(t, conn) != TENON_OK) { /* and publish */
        fprintf(stderr, "%s\n", tenon_errmsg());
        return 0;
    }
    printf("%s signed up, task %" PRId64 "\n", mail, id);
    return 1;
}

int main(int argc, char **argv)
{
    const char *url = getenv("DATABASE_URL");
    PGconn *conn = PQconnectdb(url ? url : "");
    tenon *t = tenon_new(NULL);
    int ok = 0;
    if (PQstatus(conn) != CONNECTION_OK) {
        fprintf(stderr, "%s", PQerrorMessage(conn));
    } else if (!t) {
        fprintf(stderr, "%s\n", tenon_errmsg());
    } else if (run(conn, "CREATE TABLE IF NOT EXISTS users (mail text PRIMARY KEY)", NULL)) {
        ok = sign_up(t, conn, argc > 1 ? argv[1] : "ann@example.org");
        if (ok && tenon_flush(t, 1000) != TENON_OK) { /* only because this program ends now */
            fprintf(stderr, "the mail will be a second late: %s\n", tenon_errmsg());
        }
    }
    tenon_free(t);
    PQfinish(conn);
    return ok ? 0 : 1;
}
