#include "cleaner/relay_state.h"

#include "core/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

void ended_begin(struct ended *e)
{
    e->n = e->n_failed = 0;
    array_begin(&e->done);
    array_begin(&e->expired);
    array_begin(&e->failed);
    array_begin(&e->errors);
    array_begin(&e->retries);
}

void relay_count_refused(struct relay *r, const char *exchange, const char *error)
{
    (void)pthread_mutex_lock(&r->lock);
    r->stats.refused++;
    (void)snprintf(r->stats.exchange, sizeof r->stats.exchange, "%s", exchange);
    (void)snprintf(r->stats.refusal, sizeof r->stats.refusal, "%s", error);
    (void)pthread_mutex_unlock(&r->lock);
}

void relay_count(struct relay *r, int64_t sent, int64_t expired)
{
    (void)pthread_mutex_lock(&r->lock);
    r->stats.sent += sent;
    r->stats.expired += expired;
    (void)pthread_mutex_unlock(&r->lock);
}

void relay_make_ready(struct relay *r, struct message *m)
{
    DL_APPEND(r->ready, m);
    r->n_ready++;
}

struct order *relay_order_of(struct relay *r, const struct message *m)
{
    struct order *o = NULL;
    if (m->order_key) {
        HASH_FIND_STR(r->busy, m->order_key, o);
    }
    return o;
}

/* The next of its key is sent; or none is, because this one was refused. */
static void follow(struct relay *r, const struct message *m, bool goes_on)
{
    struct order *o = relay_order_of(r, m);
    const struct message *dropped;
    if (o && goes_on && o->rest) {
        struct message *next = o->rest;
        DL_DELETE(o->rest, next);
        r->n_rest--;
        relay_make_ready(r, next);
    } else if (o) {
        DL_FOREACH(o->rest, dropped)
        {
            r->n_rest--;
        }
        messages_free(&o->rest);
        HASH_DEL(r->busy, o);
        free(o);
    }
}

/* It is in no list any more. */
void relay_end_well(struct relay *r, struct message *m, bool expired)
{
    array_put_int(expired ? &r->ended.expired : &r->ended.done, m->id);
    r->ended.n++;
    relay_count(r, !expired, expired);
    follow(r, m, true);
    free(m);
}

void relay_end_badly(struct relay *r, struct message *m, const char *error, bool retry)
{
    array_put_int(&r->ended.failed, m->id);
    array_put_text(&r->ended.errors, error);
    array_put_text(&r->ended.retries, retry ? "t" : "f");
    r->ended.n_failed++;
    relay_count_refused(r, m->exchange, error);
    follow(r, m, false);
    free(m);
}

static void take_answer(struct relay *r, struct message *m, bool refused)
{
    DL_DELETE(r->sent, m);
    r->n_sent--;
    r->sent_bytes -= m->body.len;
    r->careful -= r->careful > 0;
    if (m->returned) {
        relay_end_badly(r, m,
                        "no queue got it: no queue is bound to the exchange for its routing key",
                        false);
    } else if (refused) {
        relay_end_badly(r, m,
                        "RabbitMQ refused it: a queue is full and rejects messages, or failed",
                        true);
    } else {
        relay_end_well(r, m, false);
    }
}

static void take_answers(struct relay *r, uint64_t tag, bool multiple, bool refused)
{
    struct message *m, *next;
    DL_FOREACH_SAFE(r->sent, m, next)
    {
        if (m->tag == tag || (multiple && m->tag < tag)) {
            take_answer(r, m, refused);
        } else if (m->tag > tag) {
            return;
        }
    }
}

static void take_returned(struct relay *r, const amqp_basic_properties_t *properties)
{
    struct message *m;
    int64_t id = message_id_of(properties);
    DL_FOREACH(r->sent, m)
    {
        m->returned = m->returned || m->id == id;
    }
}

/* What comes back comes before its confirm. */
bool relay_take_frame(void *owner, const amqp_frame_t *frame, struct fault *f)
{
    struct relay *r = owner;
    const amqp_method_t *method = &frame->payload.method;
    (void)f;
    if (frame->frame_type == AMQP_FRAME_HEADER && r->returning) {
        take_returned(r, frame->payload.properties.decoded);
        r->returning = false;
    } else if (frame->frame_type != AMQP_FRAME_METHOD) {
        return true;
    } else if (method->id == AMQP_BASIC_RETURN_METHOD) {
        r->returning = true;
    } else if (method->id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = method->decoded;
        take_answers(r, ack->delivery_tag, ack->multiple, false);
    } else if (method->id == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *nack = method->decoded;
        take_answers(r, nack->delivery_tag, nack->multiple, true);
    }
    return true;
}
