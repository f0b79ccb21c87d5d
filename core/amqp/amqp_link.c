#include "core/amqp/amqp_link.h"

#include <amqp_tcp_socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int link_fd(const struct link *l)
{
    return amqp_get_sockfd(l->conn);
}

bool link_has_frames(const struct link *l)
{
    return amqp_frames_enqueued(l->conn) || amqp_data_in_buffer(l->conn);
}

bool link_can_send(const struct link *l)
{
    struct pollfd p = {.fd = link_fd(l), .events = POLLOUT};
    return poll(&p, 1, 0) == 1; /* an error counts: the send will report it */
}

/* --- faults ----------------------------------------------------------------------------------- */

static bool fault_of_status(struct link *l, int status, const char *doing, struct fault *f)
{
    bool config = status == AMQP_STATUS_SSL_PEER_VERIFY_FAILED ||
                  status == AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED || l->tls_why[0];
    l->broken = true;
    return fault_set(f, config ? FAULT_CONFIG : FAULT_RETRY, "%s: %s%s%s", doing,
                     amqp_error_string2(status), l->tls_why[0] ? ": " : "", l->tls_why);
}

/* The server closes the channel, which is a refusal, or the connection: then 403 ACCESS_REFUSED and
 * 530 NOT_ALLOWED (no such virtual host) want a person, and 320 is a restart. */
static bool fault_of_close(struct link *l, const amqp_method_t *method, const char *doing,
                           struct fault *f)
{
    const amqp_channel_close_t *m = method->decoded; /* amqp_connection_close_t is the same */
    bool refused = method->id == AMQP_CHANNEL_CLOSE_METHOD;
    bool config = refused || m->reply_code == 403 || m->reply_code == 530;
    l->broken = true;
    return fault_set(f, config ? FAULT_CONFIG : FAULT_RETRY, "%s: RabbitMQ %s: %d %.*s", doing,
                     refused ? "refused" : "closed the connection", m->reply_code,
                     (int)m->reply_text.len, (const char *)m->reply_text.bytes);
}

static bool fault_of_answer(struct link *l, amqp_rpc_reply_t reply, const char *doing,
                            struct fault *f)
{
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION) {
        return fault_of_close(l, &reply.reply, doing, f);
    }
    return reply.reply_type == AMQP_RESPONSE_NORMAL ||
           fault_of_status(l, reply.library_error, doing, f);
}

bool link_answer(struct link *l, const char *doing, struct fault *f)
{
    return fault_of_answer(l, amqp_get_rpc_reply(l->conn), doing, f);
}

bool link_sent(struct link *l, int status, const char *doing, struct fault *f)
{
    return status == AMQP_STATUS_OK || fault_of_status(l, status, doing, f);
}

/* --- opening ---------------------------------------------------------------------------------- */

amqp_table_entry_t link_entry_text(const char *key, const char *text)
{
    amqp_table_entry_t entry = {.key = amqp_cstring_bytes(key)};
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = amqp_cstring_bytes(text);
    return entry;
}

static amqp_table_entry_t entry_true(const char *key)
{
    amqp_table_entry_t entry = {.key = amqp_cstring_bytes(key)};
    entry.value.kind = AMQP_FIELD_KIND_BOOLEAN;
    entry.value.value.boolean = 1;
    return entry;
}

/* Without consumer_cancel_notify a deleted queue would leave a consumer waiting for ever, without
 * connection.blocked an alarm would hang a publisher. */
static bool login(struct link *l, const struct amqp_url *url, const char *name, struct fault *f)
{
    amqp_table_entry_t can[] = {entry_true("consumer_cancel_notify"),
                                entry_true("connection.blocked"), entry_true("publisher_confirms"),
                                entry_true("basic.nack"),
                                entry_true("authentication_failure_close")};
    amqp_table_entry_t properties[] = {link_entry_text("connection_name", name),
                                       link_entry_text("product", "tenon"),
                                       link_entry_text("version", TENON_VERSION),
                                       {.key = amqp_cstring_bytes("capabilities")}};
    properties[3].value.kind = AMQP_FIELD_KIND_TABLE;
    properties[3].value.value.table = (amqp_table_t){.num_entries = 5, .entries = can};
    amqp_table_t table = {.num_entries = 4, .entries = properties};
    amqp_rpc_reply_t reply = amqp_login_with_properties(l->conn, url->vhost, 0,
                                                        LINK_FRAME_BYTES_MAX, LINK_HEARTBEAT_S,
                                                        &table, AMQP_SASL_METHOD_PLAIN, url->user,
                                                        url->password);
    if (!fault_of_answer(l, reply, "could not log in", f)) {
        return false;
    }
    return amqp_get_heartbeat(l->conn) > 0 ||
           fault_set(f, FAULT_CONFIG, "RabbitMQ turned heartbeats off; they are needed");
}

static bool connect_to(struct link *l, const struct amqp_url *url, int nth, struct fault *f)
{
    const struct amqp_host *host = &url->hosts[nth];
    struct timeval limit = {.tv_sec = LINK_CONNECT_LIMIT_S};
    struct timeval answer = {.tv_sec = LINK_ANSWER_LIMIT_S};
    amqp_socket_t *socket = NULL;
    if (!url->tls) {
        socket = amqp_tcp_socket_new(l->conn);
    } else if (!tls_socket(l->conn, host->name, l->tls_why, &socket, f)) {
        return false;
    }
    if (!socket || amqp_set_handshake_timeout(l->conn, &answer) != AMQP_STATUS_OK ||
        amqp_set_rpc_timeout(l->conn, &answer) != AMQP_STATUS_OK) {
        return fault_memory(f);
    }
    int status = amqp_socket_open_noblock(socket, host->name, host->port, &limit);
    if (status == AMQP_STATUS_SOCKET_ERROR) { /* "a socket error occurred" helps nobody */
        return fault_set(f, FAULT_RETRY,
                         "could not connect: connection refused, or no way to the host");
    }
    return status == AMQP_STATUS_OK || fault_of_status(l, status, "could not connect", f);
}

static bool channel_open(struct link *l, struct fault *f)
{
    (void)amqp_channel_open(l->conn, LINK_CHANNEL);
    return link_answer(l, "could not open a channel", f);
}

static bool open_all(struct link *l, const struct amqp_url *url, int nth, const char *name,
                     struct fault *f)
{
    if (!connect_to(l, url, nth, f)) {
        return false;
    }
    /* heartbeats see a dead peer, but not while a send blocks */
    int limit_ms = LINK_USER_TIMEOUT_MS;
    (void)setsockopt(link_fd(l), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
    return login(l, url, name, f) && channel_open(l, f);
}

static bool open_host(const struct amqp_url *url, int nth, const char *name, struct link **ret,
                      struct fault *f)
{
    struct link *l = calloc(1, sizeof *l);
    amqp_connection_state_t conn = l ? amqp_new_connection() : NULL;
    if (!conn) {
        free(l);
        return fault_memory(f);
    }
    l->conn = conn;
    amqp_url_where(url, nth, l->where, sizeof l->where);
    if (!open_all(l, url, nth, name, f)) {
        (void)fault_add(f, "RabbitMQ at %s", l->where);
        link_close(l, 0);
        return false;
    }
    *ret = l;
    return true;
}

/* Any fault may be that of one node, a refused login too: a node that is just starting refuses. */
bool link_open(const struct amqp_url *url, const char *name, const atomic_bool *ending,
               struct link **ret, struct fault *f)
{
    bool ok = false;
    for (int i = 0; !ok && i < url->n_hosts && !(i > 0 && ending && atomic_load(ending)); i++) {
        fault_clear(f);
        ok = open_host(url, i, name, ret, f);
    }
    if (!ok && url->n_hosts > 1) {
        (void)fault_add(f, "could not log in to any of %d hosts, last", url->n_hosts);
    }
    return ok;
}

/* --- closing ---------------------------------------------------------------------------------- */

void link_close(struct link *l, int64_t limit_ms)
{
    if (!l) {
        return;
    }
    struct timeval limit = {.tv_sec = limit_ms / 1000, .tv_usec = limit_ms % 1000 * 1000};
    if (limit_ms > 0 && !l->broken && link_can_send(l) &&
        amqp_set_rpc_timeout(l->conn, &limit) == AMQP_STATUS_OK) {
        (void)amqp_connection_close(l->conn, AMQP_REPLY_SUCCESS);
    }
    (void)amqp_destroy_connection(l->conn);
    free(l);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* Of channel 0, or the channel's end? */
static bool is_own(const amqp_frame_t *frame)
{
    return frame->channel == 0 || (frame->frame_type == AMQP_FRAME_METHOD &&
                                   frame->payload.method.id == AMQP_CHANNEL_CLOSE_METHOD);
}

static bool take_own(struct link *l, const amqp_frame_t *frame, struct fault *f)
{
    const amqp_method_t *method = &frame->payload.method;
    if (frame->frame_type != AMQP_FRAME_METHOD) {
        return true; /* a heartbeat that had been queued */
    }
    if (method->id == AMQP_CONNECTION_CLOSE_METHOD || method->id == AMQP_CHANNEL_CLOSE_METHOD) {
        return fault_of_close(l, method, "lost the connection", f);
    }
    l->blocked = method->id == AMQP_CONNECTION_BLOCKED_METHOD ||
                 (l->blocked && method->id != AMQP_CONNECTION_UNBLOCKED_METHOD);
    return true;
}

bool link_take_frames(struct link *l,
                      bool (*take)(void *owner, const amqp_frame_t *frame, struct fault *f),
                      void *owner, struct fault *f)
{
    struct timeval now = {0};
    amqp_frame_t frame;
    int status;
    while ((status = amqp_simple_wait_frame_noblock(l->conn, &frame, &now)) == AMQP_STATUS_OK) {
        bool ok = is_own(&frame) ? take_own(l, &frame, f) : !take || take(owner, &frame, f);
        if (!ok) {
            return false;
        }
        amqp_maybe_release_buffers(l->conn);
    }
    return status == AMQP_STATUS_TIMEOUT || fault_of_status(l, status, "lost the connection", f);
}

bool link_renew_channel(struct link *l, struct fault *f)
{
    amqp_rpc_reply_t reply = amqp_channel_close(l->conn, LINK_CHANNEL, AMQP_REPLY_SUCCESS);
    /* what the old channel had still sent goes with it */
    return fault_of_answer(l, reply, "could not close a channel", f) &&
           link_take_frames(l, NULL, NULL, f) && channel_open(l, f);
}
