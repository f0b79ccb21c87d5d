/* Messages for exchanges of one's own, in the public library. */
#include "enqueue/errtext.h"
#include "enqueue/statements.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BODY = 2, FORM, PARAMS = 12 };

/* The caller's struct may be older and shorter than ours. */
static int copy_message(const tenon_message *from, tenon_message *to)
{
    if (!from || from->struct_size < offsetof(tenon_message, prepared) ||
        from->struct_size > sizeof *from) {
        return errtext_set(TENON_MISUSE,
                           from ? "struct_size of a tenon_message is %zu: set it to "
                                  "TENON_MESSAGE_INIT"
                                : "the message is NULL",
                           from ? from->struct_size : 0);
    }
    *to = (tenon_message)TENON_MESSAGE_INIT;
    memcpy(to, from, from->struct_size);
    if (!to->exchange || !to->routing_key) {
        return errtext_set(TENON_MISUSE, "the message has no exchange or no routing key");
    }
    if (!to->body && to->body_bytes > 0) {
        return errtext_set(TENON_MISUSE, "the body is NULL");
    }
    if (to->form < TENON_TEXT || to->form > TENON_BYTES || to->body_bytes > INT_MAX) {
        return errtext_set(TENON_MISUSE, "the form of the body, or its length, is not allowed");
    }
    return TENON_OK;
}

static PGresult *run(PGconn *conn, const tenon_message *m)
{
    static const char *const forms[] = {
        [TENON_TEXT] = "text", [TENON_JSON] = "json", [TENON_BYTES] = "bytea"};
    static const int formats[PARAMS] = {[BODY] = 1};
    char expires[24];
    const int lengths[PARAMS] = {[BODY] = (int)m->body_bytes};
    const char *const values[PARAMS] = {
        m->exchange,     m->routing_key, m->body ? m->body : "",
        forms[m->form],  m->headers,     m->message_id,
        m->content_type, m->order_key,   m->expires_ms ? expires : NULL,
        m->properties,   m->trace,       m->prepared ? "f" : "t"};
    (void)snprintf(expires, sizeof expires, "%" PRId64, m->expires_ms);
    return PQexecParams(conn, sql_publish.text, PARAMS, NULL, values, lengths, formats, 0);
}

int tenon_publish(PGconn *conn, const tenon_message *message, int64_t *ret_id)
{
    tenon_message m;
    bool in_transaction = false;
    int code = errtext_look_at(conn, &in_transaction);
    code = code == TENON_OK ? copy_message(message, &m) : code;
    if (code != TENON_OK) {
        return code;
    }
    PGresult *result = run(conn, &m);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        code = errtext_take(conn, result);
    } else if (ret_id) {
        *ret_id = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    }
    PQclear(result);
    return code == TENON_OK ? errtext_ok() : code;
}
