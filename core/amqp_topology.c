#include "core/amqp_topology.h"

#include "core/amqp_publisher.h"

#include <stdio.h>
#include <string.h>

enum { CODE_DECLARED_OTHERWISE = 406 };

void topology_name(const char *queue, char name[TOPOLOGY_NAME_BYTES])
{
    (void)snprintf(name, TOPOLOGY_NAME_BYTES, "tenon.%s", queue);
}

/* The answer to a question on `channel`; opens the channel again when the server closed it. */
static bool answer(struct link *l, amqp_channel_t channel, const char *doing, struct fault *f)
{
    if (link_answer(l, channel, doing, f)) {
        return true;
    }
    int code = link_code(l);
    struct fault second = {0};
    if (!link_is_broken(l) && !link_channel_open(l, channel, &second)) {
        return false;
    }
    link_set_code(l, code);
    return false;
}

bool topology_declare_exchange(struct link *l, amqp_channel_t channel, struct fault *f)
{
    (void)amqp_exchange_declare(link_conn(l), channel, link_bytes(TOPOLOGY_EXCHANGE),
                                link_bytes("direct"), 0, 1, 0, 0, amqp_empty_table);
    return answer(l, channel, "could not declare the exchange " TOPOLOGY_EXCHANGE, f);
}

bool topology_declare_queue(struct link *l, amqp_channel_t channel, const char *queue,
                            const char *type, struct fault *f)
{
    char name[TOPOLOGY_NAME_BYTES], doing[LINK_TEXT_BYTES];
    topology_name(queue, name);
    amqp_table_entry_t argument = {.key = link_bytes("x-queue-type")};
    argument.value.kind = AMQP_FIELD_KIND_UTF8;
    argument.value.value.bytes = link_bytes(type);
    amqp_table_t arguments = {.num_entries = 1, .entries = &argument};
    (void)snprintf(doing, sizeof doing, "could not declare the queue %s", name);
    (void)amqp_queue_declare(link_conn(l), channel, link_bytes(name), 0, 1, 0, 0, arguments);
    if (!answer(l, channel, doing, f)) {
        if (link_is_broken(l) || link_code(l) != CODE_DECLARED_OTHERWISE) {
            return false;
        }
        fault_clear(f);
    }
    (void)snprintf(doing, sizeof doing, "could not bind the queue %s", name);
    (void)amqp_queue_bind(link_conn(l), channel, link_bytes(name), link_bytes(TOPOLOGY_EXCHANGE),
                          link_bytes(queue), amqp_empty_table);
    return answer(l, channel, doing, f);
}

bool topology_look(struct link *l, amqp_channel_t channel, const char *queue, int64_t *ret_ready,
                   int64_t *ret_consumers, struct fault *f)
{
    char name[TOPOLOGY_NAME_BYTES], doing[LINK_TEXT_BYTES];
    topology_name(queue, name);
    (void)snprintf(doing, sizeof doing, "could not look at the queue %s", name);
    const amqp_queue_declare_ok_t *ok = amqp_queue_declare(link_conn(l), channel, link_bytes(name),
                                                           1, 0, 0, 0, amqp_empty_table);
    if (!answer(l, channel, doing, f)) {
        return false;
    }
    *ret_ready = ok->message_count;
    *ret_consumers = ok->consumer_count;
    return true;
}

bool amqp_declare(const char *url, const char *type, const char *const *queues, size_t n,
                  struct fault *f)
{
    struct link *l = NULL;
    if (!link_open(url, "tenon setup", NULL, &l, f)) {
        return false;
    }
    bool ok = link_channel_open(l, 1, f) && topology_declare_exchange(l, 1, f);
    for (size_t i = 0; ok && i < n; i++) {
        ok = topology_declare_queue(l, 1, queues[i], type, f);
        link_release(l);
    }
    link_close(l, AMQP_THREAD_PATIENCE_MS);
    return ok;
}
