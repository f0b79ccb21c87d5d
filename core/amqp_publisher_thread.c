#include "core/amqp_publisher_state.h"

#include "core/now.h"
#include "core/point.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

enum {
    PUBLISHES = 1, /* the channel that publishes, with confirms */
    QUESTIONS = 2, /* the channel that asks for depths, and is closed when a queue does not exist */
    DECLARATIONS = 3, /* only with settings.declare */
    BURST = 64,       /* publishes between two looks at anything else */
    PACE_US = 1000,   /* bursts begin so far apart at least, but for full ones */
    CORK_FROM = 4,    /* so many are worth two system calls to share packets */
    CONFIRM_LIMIT_MS = 10000,
    STEADY_MS = 10000, /* a link that lasted so long was good */
    CODE_MISSING = 404,
    DELIVERY_TRANSIENT = 1,
};

/* With the lock held. */
static void keep_error(struct publisher *p, const struct fault *f)
{
    (void)snprintf(p->stats.last_error, sizeof p->stats.last_error, "%.255s", f->text);
}

/* --- the link --------------------------------------------------------------------------------- */

static bool declare_exchange(struct publisher *p, struct fault *f)
{
    return link_channel_open(p->link, DECLARATIONS, f) &&
           topology_declare_exchange(p->link, DECLARATIONS, f);
}

static bool open_channels(struct publisher *p, struct fault *f)
{
    if (!link_channel_open(p->link, PUBLISHES, f) || !link_channel_open(p->link, QUESTIONS, f)) {
        return false;
    }
    (void)amqp_confirm_select(link_conn(p->link), PUBLISHES);
    return link_answer(p->link, PUBLISHES, "could not turn confirms on", f) &&
           (!p->declare || declare_exchange(p, f));
}

static bool connect_now(struct publisher *p, struct fault *f)
{
    if (!link_open(p->url, p->name, &p->thread.cut, &p->link, f) || !open_channels(p, f)) {
        return false;
    }
    confirms_reset(&p->confirms);
    p->up_since_ms = p->confirm_progress_ms = now_ms();
    (void)pthread_mutex_lock(&p->lock);
    p->away = p->blocked = false;
    p->stats.connected = true;
    p->stats.last_error[0] = '\0';
    for (size_t i = 0; i < p->n_routes; i++) {
        route_forget(p->route_list[i]);
        if (p->declare) {
            publisher_want(p, &p->route_list[i]->wants_declare);
        }
    }
    (void)pthread_mutex_unlock(&p->lock);
    return true;
}

/* A link that was up, or that worked but for a queue that refuses, gets a second chance before
 * anything is dropped that was not sent. */
static void disconnect(struct publisher *p, const struct fault *f)
{
    bool was_steady = p->link && p->stats.connected &&
                      (now_ms() - p->up_since_ms >= STEADY_MS || p->refused);
    p->refused = false;
    link_close(p->link, 0);
    p->link = NULL;
    p->failures = was_steady ? 1 : p->failures + 1;
    p->connect_due_ms = now_ms() + amqp_pause_ms(p->failures);
    (void)pthread_mutex_lock(&p->lock);
    p->away = !was_steady;
    p->blocked = p->stats.connected = false;
    p->stats.unconfirmed += p->confirms.open;
    p->n_questions -= p->asking ? 1 : 0;
    p->asking = NULL;
    if (p->away) {
        publisher_drop_pending(p);
    }
    keep_error(p, f);
    publisher_signal(p);
    (void)pthread_mutex_unlock(&p->lock);
    confirms_reset(&p->confirms);
}

/* --- frames ----------------------------------------------------------------------------------- */

static void take_confirm(struct publisher *p, uint64_t tag, bool multiple, bool good)
{
    int64_t n = confirms_take(&p->confirms, tag, multiple);
    if (n > 0) {
        p->confirm_progress_ms = now_ms();
    }
    if (n > 0 && !good) {
        refusals_note(&p->refusals, now_ms());
    }
    (void)pthread_mutex_lock(&p->lock);
    *(good ? &p->stats.confirmed : &p->stats.unconfirmed) += n;
    publisher_signal(p);
    (void)pthread_mutex_unlock(&p->lock);
}

/* With the lock held: the queue is not there, or not bound. */
static void lost_queue(struct publisher *p, struct route *r)
{
    if (p->declare) {
        publisher_want(p, &r->wants_declare);
    } else {
        route_shut(r, now_ms(), (int64_t)now_jitter(ROUTE_SHUT_MS / 3));
    }
}

static void take_return(struct publisher *p, const amqp_basic_return_t *m)
{
    char queue[TOPOLOGY_QUEUE_BYTES];
    link_text(m->routing_key, queue, sizeof queue);
    (void)pthread_mutex_lock(&p->lock);
    struct route *r = publisher_route(p, queue, false);
    p->stats.returned++;
    if (r) {
        lost_queue(p, r);
    }
    (void)pthread_mutex_unlock(&p->lock);
}

static void take_depth(struct publisher *p, int64_t ready)
{
    (void)pthread_mutex_lock(&p->lock);
    if (p->asking) {
        route_answered(p->asking, ready, now_ms());
        p->n_questions--;
    }
    p->asking = NULL;
    publisher_signal(p);
    (void)pthread_mutex_unlock(&p->lock);
}

/* 404: no such queue. Anything else means that we may not ask, and then there is no window. */
static bool take_question_closed(struct publisher *p, const amqp_frame_t *frame, struct fault *f)
{
    (void)link_channel_closed(p->link, frame, f);
    if (link_is_broken(p->link)) {
        return false;
    }
    fault_clear(f);
    if (link_code(p->link) == CODE_MISSING && p->asking) {
        (void)pthread_mutex_lock(&p->lock);
        lost_queue(p, p->asking);
        (void)pthread_mutex_unlock(&p->lock);
    }
    take_depth(p, 0);
    return link_channel_open(p->link, QUESTIONS, f);
}

static bool take_method(struct publisher *p, const amqp_frame_t *frame, struct fault *f)
{
    const amqp_method_t *m = &frame->payload.method;
    const amqp_basic_ack_t *ack = m->decoded;
    const amqp_basic_nack_t *nack = m->decoded;
    switch (m->id) {
    case AMQP_BASIC_ACK_METHOD:
        take_confirm(p, ack->delivery_tag, ack->multiple != 0, true);
        return true;
    case AMQP_BASIC_NACK_METHOD:
        take_confirm(p, nack->delivery_tag, nack->multiple != 0, false);
        return true;
    case AMQP_BASIC_RETURN_METHOD:
        take_return(p, m->decoded); /* its header and body follow and say nothing new */
        return true;
    case AMQP_QUEUE_DECLARE_OK_METHOD:
        take_depth(p, ((const amqp_queue_declare_ok_t *)m->decoded)->message_count);
        return true;
    case AMQP_CHANNEL_CLOSE_METHOD:
        return frame->channel == QUESTIONS ? take_question_closed(p, frame, f)
                                           : link_channel_closed(p->link, frame, f);
    default:
        return true;
    }
}

static bool take_frames(struct publisher *p, struct fault *f)
{
    amqp_frame_t frame;
    enum link_next next;
    while ((next = link_next(p->link, &frame, f)) == LINK_FRAME) {
        if (frame.frame_type == AMQP_FRAME_METHOD && !take_method(p, &frame, f)) {
            return false;
        }
        link_release(p->link);
    }
    if (next == LINK_FAILED) {
        return false;
    }
    (void)pthread_mutex_lock(&p->lock);
    p->blocked = link_is_blocked(p->link);
    if (p->blocked) {
        /* nothing is answered during an alarm: the limits begin anew when it is over */
        p->confirm_progress_ms = p->asked_ms = now_ms();
        publisher_drop_pending(p);
        publisher_signal(p);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return true;
}

/* --- questions -------------------------------------------------------------------------------- */

static struct route *next_to_declare(struct publisher *p)
{
    struct route *found = NULL;
    (void)pthread_mutex_lock(&p->lock);
    for (size_t i = 0; p->declare && !found && i < p->n_routes; i++) {
        found = p->route_list[i]->wants_declare ? p->route_list[i] : NULL;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return found;
}

/* Wait for every answer: it is rare, and what follows wants the queue. Not during an alarm, which
 * lets no answer through. */
static bool declare_queues(struct publisher *p, struct fault *f)
{
    struct route *r;
    while (!link_is_blocked(p->link) && (r = next_to_declare(p))) {
        bool ok = topology_declare_queue(p->link, DECLARATIONS, r->queue, p->declare, f);
        if (!ok && link_is_broken(p->link)) {
            return false;
        }
        (void)pthread_mutex_lock(&p->lock);
        publisher_want_no_more(p, &r->wants_declare);
        if (!ok) {
            keep_error(p, f);
            route_shut(r, now_ms(), (int64_t)now_jitter(ROUTE_SHUT_MS / 3));
        }
        publisher_signal(p);
        (void)pthread_mutex_unlock(&p->lock);
        fault_clear(f);
    }
    return true;
}

/* With the lock held: whom to ask for next. */
static struct route *next_to_ask(struct publisher *p)
{
    int64_t now = now_ms();
    for (size_t i = 0; i < p->n_routes; i++) {
        if (route_is_due(p->route_list[i], now)) {
            publisher_want(p, &p->route_list[i]->wants_ask);
            return p->route_list[i];
        }
    }
    return NULL;
}

/* One question at a time, and nobody waits for its answer. */
static bool ask(struct publisher *p, struct fault *f)
{
    if (p->asking) {
        return now_ms() - p->asked_ms < LINK_ANSWER_LIMIT_S * 1000 ||
               fault_set(f, FAULT_RETRY, "RabbitMQ did not answer within %d s",
                         LINK_ANSWER_LIMIT_S);
    }
    char name[TOPOLOGY_NAME_BYTES];
    (void)pthread_mutex_lock(&p->lock);
    struct route *r = next_to_ask(p);
    if (r) {
        route_asked(r); /* it stays counted in n_questions until it is answered */
        p->asking = r;
        p->asked_ms = now_ms();
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (!r) {
        return true;
    }
    topology_name(r->queue, name);
    amqp_queue_declare_t m = {.queue = link_bytes(name), .passive = 1};
    return link_sent(p->link,
                     amqp_send_method(link_conn(p->link), QUESTIONS, AMQP_QUEUE_DECLARE_METHOD, &m),
                     "could not ask for a queue's depth", f);
}

/* --- publishing ------------------------------------------------------------------------------- */

/* Take what may go now out of the ring, and drop what may not. */
static size_t take_burst(struct publisher *p, struct wakeup burst[BURST])
{
    size_t n = 0;
    int64_t now = now_ms();
    (void)pthread_mutex_lock(&p->lock);
    while (p->ring_n > 0 && n < BURST && p->confirms.next + n - p->confirms.first < CONFIRMS_MAX) {
        struct wakeup w = p->ring[p->ring_first];
        enum route_verdict verdict = route_verdict(w.route, p->window, now);
        if (verdict == ROUTE_HOLD) {
            break;
        }
        p->ring_first = (p->ring_first + 1) % PUBLISHER_PENDING_MAX;
        p->ring_n--;
        w.route->pending--;
        if (verdict == ROUTE_GO) {
            w.route->published++;
            burst[n++] = w;
        }
        p->stats.dropped += verdict == ROUTE_DROP;
    }
    p->stats.published += (int64_t)n;
    publisher_signal(p);
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

static int publish(struct publisher *p, const struct wakeup *w)
{
    char body[24];
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
                                          .delivery_mode = DELIVERY_TRANSIENT};
    (void)snprintf(body, sizeof body, "%lld", (long long)w->id);
    return amqp_basic_publish(link_conn(p->link), PUBLISHES, link_bytes(TOPOLOGY_EXCHANGE),
                              link_bytes(w->route->queue), 1, 0, &properties, link_bytes(body));
}

/* The first id goes at once. What follows within PACE_US goes together: one id at a time would cost
 * RabbitMQ, and us, about twice the work. */
static void keep_pace(struct publisher *p)
{
    int64_t left_us = p->burst_us + PACE_US - now_us();
    (void)pthread_mutex_lock(&p->lock);
    bool wait = p->ring_n > 0 && p->ring_n < BURST && left_us > 0;
    (void)pthread_mutex_unlock(&p->lock);
    if (wait) { /* or until the link breaks */
        struct pollfd fd = {.fd = link_fd(p->link)};
        (void)ppoll(&fd, 1, &(struct timespec){.tv_nsec = left_us * 1000}, NULL);
    }
}

static void cork(struct publisher *p, int on)
{
    (void)setsockopt(link_fd(p->link), IPPROTO_TCP, TCP_CORK, &on, sizeof on);
}

static bool publish_burst(struct publisher *p, struct fault *f)
{
    struct wakeup burst[BURST];
    keep_pace(p);
    size_t n = link_can_send(p->link) ? take_burst(p, burst) : 0;
    int status = AMQP_STATUS_OK;
    if (n == 0) {
        return true;
    }
    p->burst_us = now_us();
    POINT(publish_taken);
    if (p->confirms.open == 0) {
        p->confirm_progress_ms = now_ms();
    }
    if (n >= CORK_FROM) {
        cork(p, 1);
    }
    for (size_t i = 0; i < n; i++) {
        /* what was not sent is counted as not confirmed, like what was sent and got lost */
        confirms_sent(&p->confirms);
        status = status == AMQP_STATUS_OK ? publish(p, &burst[i]) : status;
    }
    if (n >= CORK_FROM) {
        cork(p, 0);
    }
    return link_sent(p->link, status, "could not publish", f) && !POINT_FAILS(publish_sent, f);
}

static bool check_confirms(struct publisher *p, struct fault *f)
{
    p->refused = refusals_too_long(&p->refusals);
    if (p->refused) {
        return fault_set(f, FAULT_RETRY, "RabbitMQ refuses what is published");
    }
    return p->confirms.open == 0 || now_ms() - p->confirm_progress_ms < CONFIRM_LIMIT_MS ||
           fault_set(f, FAULT_RETRY, "RabbitMQ confirmed nothing for %d ms", CONFIRM_LIMIT_MS);
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool is_wanted(struct publisher *p)
{
    (void)pthread_mutex_lock(&p->lock);
    bool wanted = p->wanted;
    (void)pthread_mutex_unlock(&p->lock);
    return wanted;
}

static bool work(struct publisher *p, struct fault *f)
{
    if (!p->link) {
        if (!is_wanted(p) || now_ms() < p->connect_due_ms) {
            return true;
        }
        if (!connect_now(p, f)) {
            return false;
        }
    }
    return take_frames(p, f) && declare_queues(p, f) && publish_burst(p, f) && ask(p, f) &&
           check_confirms(p, f);
}

/* Wait for something to do: at once when more may be sent, POLLOUT when the socket is full. */
static void rest(struct publisher *p)
{
    int64_t due = now_ms() + LINK_TICK_MS;
    short events = POLLIN;
    if (!p->link) {
        amqp_thread_wait(&p->thread, -1, 0, is_wanted(p) ? p->connect_due_ms : INT64_MAX);
        return;
    }
    (void)pthread_mutex_lock(&p->lock);
    bool more = p->ring_n > 0 && !confirms_full(&p->confirms) &&
                route_verdict(p->ring[p->ring_first].route, p->window, now_ms()) != ROUTE_HOLD;
    more = more || (!p->asking && next_to_ask(p));
    (void)pthread_mutex_unlock(&p->lock);
    if (more && !link_can_send(p->link)) {
        events |= POLLOUT;
    } else if (more) {
        return;
    }
    if (!link_has_frames(p->link)) {
        amqp_thread_wait(&p->thread, link_fd(p->link), events, due);
    }
}

void publisher_run(void *owner)
{
    struct publisher *p = owner;
    while (!amqp_thread_is_ending(&p->thread)) {
        struct fault f = {0};
        if (!work(p, &f)) {
            disconnect(p, &f);
        }
        rest(p);
    }
    link_close(p->link, AMQP_THREAD_PATIENCE_MS);
}
