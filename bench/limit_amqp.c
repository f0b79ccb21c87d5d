/* What RabbitMQ itself can do with such small messages: publish them with confirms, or consume
 * them with acks, through librabbitmq, with nothing of tenon between.
 *
 *     limit_amqp publish|persistent|fill|consume|deliver|receive MESSAGES WINDOW
 *
 * One connection, a durable classic queue, transient messages with an 8-digit body. At most
 * WINDOW publishes are unconfirmed, or WINDOW deliveries unacked, at once; acks cover many.
 * `publish` begins with an empty queue and leaves it full, `consume` deletes it at its end; both
 * write seconds to stdout. `persistent` is `publish` with messages as tenon's relay sends them:
 * persistent, mandatory, with a message id and headers, and 100 bytes of body. `fill` publishes
 * persistent messages with message ids and a body of JSON, for tenon intake. `receive` begins
 * with an empty queue, and writes for each message when it came (CLOCK_REALTIME, in ns).
 * `deliver` publishes one message every 20 ms and waits for it on a second connection; it writes
 * for each how many milliseconds that took. */
#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVERY_NS = 20000000 };

static const char queue_name[] = "bench.limit";

static void check(int ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "limit_amqp: could not %s\n", what);
        exit(1);
    }
}

static double now_s(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void check_reply(amqp_connection_state_t conn, const char *what)
{
    check(amqp_get_rpc_reply(conn).reply_type == AMQP_RESPONSE_NORMAL, what);
}

static amqp_connection_state_t open_connection(void)
{
    struct amqp_connection_info info;
    const char *text = getenv("AMQP_URL");
    char *url = strdup(text ? text : "");
    check(url && amqp_parse_url(url, &info) == AMQP_STATUS_OK, "read AMQP_URL");
    amqp_connection_state_t conn = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(conn);
    check(socket && amqp_socket_open(socket, info.host, info.port) == AMQP_STATUS_OK, "connect");
    amqp_rpc_reply_t reply = amqp_login(conn, info.vhost, 0, AMQP_DEFAULT_FRAME_SIZE, 0,
                                        AMQP_SASL_METHOD_PLAIN, info.user, info.password);
    check(reply.reply_type == AMQP_RESPONSE_NORMAL, "log in");
    (void)amqp_channel_open(conn, 1);
    check_reply(conn, "open a channel");
    free(url);
    return conn;
}

/* What RabbitMQ has confirmed: one publish or, with `multiple`, all up to one; in any order. */
struct confirms {
    bool *seen;      /* by delivery tag, from 1 */
    uint64_t all_to; /* all up to this tag were in confirms of many */
    uint64_t n;
};

static void note_confirm(struct confirms *c, uint64_t tag, bool multiple)
{
    for (uint64_t i = multiple ? c->all_to + 1 : tag; i <= tag; i++) {
        c->n += !c->seen[i];
        c->seen[i] = true;
    }
    if (multiple && tag > c->all_to) {
        c->all_to = tag;
    }
}

/* Read frames until one confirm has come. */
static void wait_for_confirm(amqp_connection_state_t conn, struct confirms *c)
{
    amqp_frame_t frame;
    do {
        check(amqp_simple_wait_frame(conn, &frame) == AMQP_STATUS_OK, "read a confirm");
    } while (frame.frame_type != AMQP_FRAME_METHOD);
    check(frame.payload.method.id == AMQP_BASIC_ACK_METHOD, "publish: RabbitMQ refused");
    const amqp_basic_ack_t *ack = frame.payload.method.decoded;
    note_confirm(c, ack->delivery_tag, ack->multiple);
    amqp_maybe_release_buffers(conn);
}

static void close_connection(amqp_connection_state_t conn)
{
    (void)amqp_connection_close(conn, AMQP_REPLY_SUCCESS);
    (void)amqp_destroy_connection(conn);
}

static void declare_empty_queue(amqp_connection_state_t conn)
{
    (void)amqp_queue_declare(conn, 1, amqp_cstring_bytes(queue_name), 0, 1, 0, 0, amqp_empty_table);
    check_reply(conn, "declare the queue");
    (void)amqp_queue_purge(conn, 1, amqp_cstring_bytes(queue_name));
    check_reply(conn, "purge the queue");
}

static void publish_one(amqp_connection_state_t conn, uint64_t number)
{
    amqp_basic_properties_t transient = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
                                         .delivery_mode = 1};
    char body[32];
    (void)snprintf(body, sizeof body, "%" PRIu64, 10000000 + number);
    check(amqp_basic_publish(conn, 1, amqp_empty_bytes, amqp_cstring_bytes(queue_name), 1, 0,
                             &transient, amqp_cstring_bytes(body)) == AMQP_STATUS_OK,
          "publish");
}

static void fill_one(amqp_connection_state_t conn, uint64_t number)
{
    char id[32], body[96];
    (void)snprintf(id, sizeof id, "order-%" PRIu64, number);
    (void)snprintf(body, sizeof body, "{\"order\": %" PRIu64 ", \"total\": 99.90}", number);
    amqp_basic_properties_t p = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG |
                                           AMQP_BASIC_MESSAGE_ID_FLAG,
                                 .delivery_mode = 2,
                                 .message_id = amqp_cstring_bytes(id)};
    check(amqp_basic_publish(conn, 1, amqp_empty_bytes, amqp_cstring_bytes(queue_name), 1, 0, &p,
                             amqp_cstring_bytes(body)) == AMQP_STATUS_OK,
          "publish");
}

static void publish_like_relay(amqp_connection_state_t conn, uint64_t number)
{
    char body[128], id[64];
    amqp_table_entry_t header = {.key = amqp_cstring_bytes("tenon-id")};
    amqp_basic_properties_t p = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                  AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
                  AMQP_BASIC_HEADERS_FLAG,
        .delivery_mode = 2,
        .timestamp = 1,
        .content_type = amqp_cstring_bytes("text/plain"),
        .headers = {.num_entries = 1, .entries = &header},
    };
    header.value.kind = AMQP_FIELD_KIND_I64;
    header.value.value.i64 = (int64_t)number;
    (void)snprintf(id, sizeof id, "00000000-0000-0000-0000-%012" PRIu64, number);
    (void)snprintf(body, sizeof body, "%0100" PRIu64, number);
    p.message_id = amqp_cstring_bytes(id);
    check(amqp_basic_publish(conn, 1, amqp_empty_bytes, amqp_cstring_bytes(queue_name), 1, 0, &p,
                             amqp_cstring_bytes(body)) == AMQP_STATUS_OK,
          "publish");
}

static void send_all(amqp_connection_state_t conn, uint64_t n, uint64_t window,
                     void (*send)(amqp_connection_state_t conn, uint64_t number))
{
    struct confirms confirmed = {.seen = calloc(n + 1, sizeof(bool))};
    check(confirmed.seen != NULL, "allocate");
    declare_empty_queue(conn);
    (void)amqp_confirm_select(conn, 1);
    check_reply(conn, "ask for confirms");
    double start = now_s();
    for (uint64_t i = 0; i < n; i++) {
        send(conn, i);
        while (i + 1 - confirmed.n >= window) {
            wait_for_confirm(conn, &confirmed);
        }
    }
    while (confirmed.n < n) {
        wait_for_confirm(conn, &confirmed);
    }
    (void)printf("%.6f\n", now_s() - start);
    free(confirmed.seen);
}

static void publish_all(amqp_connection_state_t conn, uint64_t n, uint64_t window)
{
    send_all(conn, n, window, publish_one);
}

static void fill_all(amqp_connection_state_t conn, uint64_t n, uint64_t window)
{
    send_all(conn, n, window, fill_one);
}

static void persist_all(amqp_connection_state_t conn, uint64_t n, uint64_t window)
{
    send_all(conn, n, window, publish_like_relay);
}

static void begin_consuming(amqp_connection_state_t conn, uint64_t window)
{
    (void)amqp_basic_qos(conn, 1, 0, (uint16_t)window, 0);
    check_reply(conn, "set the prefetch");
    (void)amqp_basic_consume(conn, 1, amqp_cstring_bytes(queue_name), amqp_empty_bytes, 0, 0, 0,
                             amqp_empty_table);
    check_reply(conn, "consume");
}

/* The next message's delivery tag. */
static uint64_t consume_one(amqp_connection_state_t conn)
{
    amqp_envelope_t envelope;
    amqp_maybe_release_buffers(conn);
    check(amqp_consume_message(conn, &envelope, NULL, 0).reply_type == AMQP_RESPONSE_NORMAL,
          "read a message");
    uint64_t tag = envelope.delivery_tag;
    amqp_destroy_envelope(&envelope);
    return tag;
}

static void ack(amqp_connection_state_t conn, uint64_t tag)
{
    check(amqp_basic_ack(conn, 1, tag, 1) == AMQP_STATUS_OK, "ack");
}

static void delete_queue(amqp_connection_state_t conn)
{
    (void)amqp_queue_delete(conn, 1, amqp_cstring_bytes(queue_name), 0, 0);
}

static void consume_all(amqp_connection_state_t conn, uint64_t n, uint64_t window)
{
    double start = now_s();
    begin_consuming(conn, window);
    for (uint64_t i = 1; i <= n; i++) {
        uint64_t tag = consume_one(conn);
        if (i % (window / 4) == 0 || i == n) {
            ack(conn, tag);
        }
    }
    (void)printf("%.6f\n", now_s() - start);
    delete_queue(conn);
}

static void receive_all(amqp_connection_state_t conn, uint64_t n, uint64_t window)
{
    struct timespec ts;
    declare_empty_queue(conn);
    begin_consuming(conn, window);
    (void)puts("ready");
    (void)fflush(stdout);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t tag = consume_one(conn);
        (void)clock_gettime(CLOCK_REALTIME, &ts);
        (void)printf("%lld\n", (long long)ts.tv_sec * 1000000000 + ts.tv_nsec);
        ack(conn, tag);
    }
    delete_queue(conn);
}

static void deliver_all(amqp_connection_state_t conn, uint64_t n, uint64_t window)
{
    amqp_connection_state_t publisher = open_connection();
    struct timespec pause = {.tv_nsec = EVERY_NS};
    declare_empty_queue(conn);
    begin_consuming(conn, window);
    for (uint64_t i = 0; i < n; i++) {
        (void)nanosleep(&pause, NULL);
        double start = now_s();
        publish_one(publisher, i);
        uint64_t tag = consume_one(conn);
        (void)printf("%.6f\n", (now_s() - start) * 1e3);
        ack(conn, tag);
    }
    delete_queue(conn);
    close_connection(publisher);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(amqp_connection_state_t conn, uint64_t n, uint64_t window);
    } verbs[] = {{"publish", publish_all}, {"persistent", persist_all}, {"fill", fill_all},
                 {"consume", consume_all}, {"deliver", deliver_all},    {"receive", receive_all}};
    size_t verb = 0, n_verbs = sizeof verbs / sizeof *verbs;
    while (argc == 4 && verb < n_verbs && strcmp(argv[1], verbs[verb].name) != 0) {
        verb++;
    }
    check(argc == 4 && verb < n_verbs,
          "understand: publish|persistent|fill|consume|deliver|receive MESSAGES WINDOW");
    uint64_t n = strtoull(argv[2], NULL, 10), window = strtoull(argv[3], NULL, 10);
    check(n > 0 && window >= 4 && window <= 65535, "use MESSAGES or WINDOW (4 to 65535)");
    amqp_connection_state_t conn = open_connection();
    verbs[verb].run(conn, n, window);
    close_connection(conn);
    return 0;
}
