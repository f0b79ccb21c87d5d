#include "tests/support/broker.h"

#include "tests/support/fixture.h"

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>

enum { CHANNEL = 1, LIMIT_S = 10, NAME_BYTES = 256 };

struct broker {
    amqp_connection_state_t conn;
    bool confirms;
    uint64_t sent, confirmed; /* by broker_send() */
};

static amqp_bytes_t bytes(const char *text)
{
    return (amqp_bytes_t){.len = strlen(text), .bytes = (void *)(uintptr_t)text};
}

static amqp_bytes_t queue_name(const char *key, char name[NAME_BYTES])
{
    (void)snprintf(name, NAME_BYTES, "tenon.%s", key);
    return bytes(name);
}

/* The reply code of a broker that closed the channel or the connection, else 0. */
static int reply_code(const amqp_rpc_reply_t *r)
{
    if (r->reply_type != AMQP_RESPONSE_SERVER_EXCEPTION) {
        return 0;
    }
    if (r->reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        return ((amqp_channel_close_t *)r->reply.decoded)->reply_code;
    }
    return ((amqp_connection_close_t *)r->reply.decoded)->reply_code;
}

static void check(const amqp_rpc_reply_t *r, const char *what)
{
    if (r->reply_type != AMQP_RESPONSE_NORMAL) {
        fail_msg("could not %s: reply code %d, %s", what, reply_code(r),
                 r->reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION
                     ? amqp_error_string2(r->library_error)
                     : "");
    }
}

static void check_last(struct broker *b, const char *what)
{
    amqp_rpc_reply_t r = amqp_get_rpc_reply(b->conn);
    check(&r, what);
}

static void open_channel(struct broker *b)
{
    (void)amqp_channel_open(b->conn, CHANNEL);
    check_last(b, "open a channel");
    b->confirms = false;
}

static amqp_rpc_reply_t login(amqp_connection_state_t conn, const struct amqp_connection_info *info)
{
    struct timeval limit = {.tv_sec = LIMIT_S};
    amqp_socket_t *socket = amqp_tcp_socket_new(conn);
    if (!socket ||
        amqp_socket_open_noblock(socket, info->host, info->port, &limit) != AMQP_STATUS_OK) {
        fail_msg("could not connect to RabbitMQ on %s:%d", info->host, info->port);
    }
    (void)amqp_set_rpc_timeout(conn, &limit);
    return amqp_login(conn, info->vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, info->user,
                      info->password);
}

struct broker *broker_open(const char *url)
{
    char *copy = strdup(url);
    struct amqp_connection_info info;
    if (amqp_parse_url(copy, &info) != AMQP_STATUS_OK) {
        fail_msg("AMQP_URL cannot be parsed");
    }
    struct broker *b = calloc(1, sizeof *b);
    b->conn = amqp_new_connection();
    amqp_rpc_reply_t r = login(b->conn, &info);
    free(copy);
    if (r.reply_type == AMQP_RESPONSE_NORMAL) {
        open_channel(b);
        return b;
    }
    /* 530 is what RabbitMQ answers for a virtual host that does not exist (or is not allowed) */
    if (reply_code(&r) != 530) {
        check(&r, "log in to RabbitMQ");
    }
    (void)amqp_destroy_connection(b->conn);
    free(b);
    return NULL;
}

void broker_close(struct broker *b)
{
    if (b) {
        (void)amqp_connection_close(b->conn, AMQP_REPLY_SUCCESS);
        (void)amqp_destroy_connection(b->conn);
        free(b);
    }
}

static amqp_table_entry_t entry_text(const char *key, const char *text)
{
    return (
        amqp_table_entry_t){.key = bytes(key),
                            .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = bytes(text)}};
}

static amqp_table_entry_t entry_number(const char *key, int32_t number)
{
    return (amqp_table_entry_t){.key = bytes(key),
                                .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = number}};
}

void broker_declare_exchange(struct broker *b)
{
    (void)amqp_exchange_declare(b->conn, CHANNEL, bytes("tenon"), bytes("direct"), 0, 1, 0, 0,
                                amqp_empty_table);
    check_last(b, "declare the exchange");
}

/* `n` of the arguments that a worker gives. */
static void declare_bound(struct broker *b, const char *exchange, const char *name, const char *key,
                          int n, int32_t max_length)
{
    char full[NAME_BYTES];
    amqp_table_entry_t entries[] = {entry_text("x-queue-type", "classic"),
                                    entry_number("x-max-length", max_length),
                                    entry_text("x-overflow", "reject-publish"),
                                    entry_number("x-message-ttl", 10000),
                                    entry_number("x-expires", 86400000)};
    (void)amqp_queue_declare(b->conn, CHANNEL, queue_name(name, full), 0, 1, 0, 0,
                             (amqp_table_t){.num_entries = n, .entries = entries});
    check_last(b, "declare a queue");
    (void)amqp_queue_bind(b->conn, CHANNEL, queue_name(name, full), bytes(exchange), bytes(key),
                          amqp_empty_table);
    check_last(b, "bind a queue");
}

void broker_declare(struct broker *b, const char *key)
{
    declare_bound(b, "tenon", key, key, 5, 10000);
}

void broker_spy(struct broker *b, const char *name, const char *key)
{
    declare_bound(b, "tenon", name, key, 1, 0);
}

void broker_refuse(struct broker *b, const char *key)
{
    declare_bound(b, "tenon", key, key, 3, 0);
}

void broker_spy_on(struct broker *b, const char *exchange, const char *name, const char *key)
{
    declare_bound(b, exchange, name, key, 1, 0);
}

void broker_publish(struct broker *b, const char *key, const void *body, size_t len)
{
    amqp_basic_properties_t persistent = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
                                          .delivery_mode = 2};
    amqp_bytes_t data = {.len = len, .bytes = (void *)(uintptr_t)body};
    struct timeval limit = {.tv_sec = LIMIT_S};
    if (!b->confirms) {
        (void)amqp_confirm_select(b->conn, CHANNEL);
        check_last(b, "ask for confirms");
        b->confirms = true;
    }
    if (amqp_basic_publish(b->conn, CHANNEL, bytes("tenon"), bytes(key), 0, 0, &persistent, data) !=
        AMQP_STATUS_OK) {
        fail_msg("could not publish to %s", key);
    }
    amqp_frame_t frame;
    do {
        if (amqp_simple_wait_frame_noblock(b->conn, &frame, &limit) != AMQP_STATUS_OK) {
            fail_msg("no confirm from RabbitMQ within %d s", LIMIT_S);
        }
    } while (frame.frame_type != AMQP_FRAME_METHOD ||
             frame.payload.method.id != AMQP_BASIC_ACK_METHOD);
    amqp_maybe_release_buffers(b->conn);
}

/* NULL: there is no such queue. */
static const amqp_queue_declare_ok_t *look(struct broker *b, const char *key)
{
    char name[NAME_BYTES];
    const amqp_queue_declare_ok_t *ok = amqp_queue_declare(b->conn, CHANNEL, queue_name(key, name),
                                                           1, 0, 0, 0, amqp_empty_table);
    amqp_rpc_reply_t r = amqp_get_rpc_reply(b->conn);
    if (reply_code(&r) == AMQP_NOT_FOUND) {
        amqp_channel_close_ok_t closed = {0};
        (void)amqp_send_method(b->conn, CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &closed);
        open_channel(b);
        return NULL;
    }
    check(&r, "ask for a queue's depth");
    return ok;
}

int64_t broker_depth(struct broker *b, const char *key)
{
    const amqp_queue_declare_ok_t *ok = look(b, key);
    return ok ? (int64_t)ok->message_count : -1;
}

int64_t broker_take(struct broker *b, const char *key)
{
    char name[NAME_BYTES], body[24] = "";
    amqp_message_t message;
    amqp_rpc_reply_t r = amqp_basic_get(b->conn, CHANNEL, queue_name(key, name), 1);
    check(&r, "get a message");
    if (r.reply.id == AMQP_BASIC_GET_EMPTY_METHOD) {
        return -1;
    }
    r = amqp_read_message(b->conn, CHANNEL, &message, 0);
    check(&r, "read a message");
    assert_in_range(message.body.len, 1, sizeof body - 1);
    memcpy(body, message.body.bytes, message.body.len);
    amqp_destroy_message(&message);
    amqp_maybe_release_buffers(b->conn);
    return strtoll(body, NULL, 10);
}

int64_t broker_consumers(struct broker *b, const char *key)
{
    const amqp_queue_declare_ok_t *ok = look(b, key);
    return ok ? (int64_t)ok->consumer_count : -1;
}

void broker_purge(struct broker *b, const char *key)
{
    char name[NAME_BYTES];
    (void)amqp_queue_purge(b->conn, CHANNEL, queue_name(key, name));
    check_last(b, "purge a queue");
}

void broker_delete_queue(struct broker *b, const char *key)
{
    char name[NAME_BYTES];
    (void)amqp_queue_delete(b->conn, CHANNEL, queue_name(key, name), 0, 0);
    check_last(b, "delete a queue");
}

void broker_delete_exchange(struct broker *b)
{
    (void)amqp_exchange_delete(b->conn, CHANNEL, bytes("tenon"), 0);
    check_last(b, "delete the exchange");
}

void broker_make_queue(struct broker *b, const char *queue, int32_t max_length)
{
    amqp_table_entry_t entries[] = {entry_text("x-overflow", "reject-publish"),
                                    entry_number("x-max-length", max_length)};
    (void)amqp_queue_declare(b->conn, CHANNEL, bytes(queue), 0, 1, 0, 0,
                             (amqp_table_t){.num_entries = max_length > 0 ? 2 : 0,
                                            .entries = entries});
    check_last(b, "declare a queue");
}

bool broker_get(struct broker *b, const char *queue, amqp_message_t *ret)
{
    amqp_maybe_release_buffers(b->conn);
    amqp_rpc_reply_t r = amqp_basic_get(b->conn, CHANNEL, bytes(queue), 1);
    check(&r, "get a message");
    if (r.reply.id == AMQP_BASIC_GET_EMPTY_METHOD) {
        return false;
    }
    r = amqp_read_message(b->conn, CHANNEL, ret, 0);
    check(&r, "read a message");
    return true;
}

void broker_remove_queue(struct broker *b, const char *queue)
{
    (void)amqp_queue_delete(b->conn, CHANNEL, bytes(queue), 0, 0);
    check_last(b, "delete a queue");
}

void broker_ctl(const char *fmt, ...)
{
    char arguments[1024], command[2048];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(arguments, sizeof arguments, fmt, args);
    va_end(args);
    (void)snprintf(command, sizeof command, "%s %s >&2", test_env("TENON_RABBITMQCTL"), arguments);
    if (system(command) != 0) {
        fail_msg("rabbitmqctl %s failed", arguments);
    }
}

void broker_make_typed(struct broker *b, const char *queue, const char *type, const char *dead)
{
    amqp_table_entry_t entries[] = {entry_text("x-queue-type", type),
                                    entry_text("x-dead-letter-exchange", ""),
                                    entry_text("x-dead-letter-routing-key", dead ? dead : "")};
    (void)amqp_queue_declare(b->conn, CHANNEL, bytes(queue), 0, 1, 0, 0,
                             (amqp_table_t){.num_entries = dead ? 3 : 1, .entries = entries});
    check_last(b, "declare a queue");
}

void broker_send(struct broker *b, const char *queue, const void *body, size_t len,
                 const amqp_basic_properties_t *properties)
{
    amqp_basic_properties_t p = properties ? *properties : (amqp_basic_properties_t){0};
    p._flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
    p.delivery_mode = 2;
    if (!b->confirms) {
        (void)amqp_confirm_select(b->conn, CHANNEL);
        check_last(b, "ask for confirms");
        b->confirms = true;
    }
    if (amqp_basic_publish(b->conn, CHANNEL, amqp_empty_bytes, bytes(queue), 0, 0, &p,
                           (amqp_bytes_t){.len = len, .bytes = (void *)(uintptr_t)body}) !=
        AMQP_STATUS_OK) {
        fail_msg("could not send to %s", queue);
    }
    if (++b->sent - b->confirmed >= 1000) {
        broker_send_end(b);
    }
}

void broker_send_end(struct broker *b)
{
    struct timeval limit = {.tv_sec = LIMIT_S};
    amqp_frame_t frame;
    while (b->confirmed < b->sent) {
        if (amqp_simple_wait_frame_noblock(b->conn, &frame, &limit) != AMQP_STATUS_OK) {
            fail_msg("no confirm from RabbitMQ within %d s", LIMIT_S);
        }
        const amqp_basic_ack_t *ack = frame.payload.method.decoded;
        if (frame.frame_type == AMQP_FRAME_METHOD &&
            frame.payload.method.id == AMQP_BASIC_ACK_METHOD) {
            b->confirmed = ack->multiple ? ack->delivery_tag : b->confirmed + 1;
        }
        amqp_maybe_release_buffers(b->conn);
    }
}

int64_t broker_ready(struct broker *b, const char *queue)
{
    const amqp_queue_declare_ok_t *ok = amqp_queue_declare(b->conn, CHANNEL, bytes(queue), 1, 0, 0,
                                                           0, amqp_empty_table);
    check_last(b, "look at a queue");
    return ok->message_count;
}
