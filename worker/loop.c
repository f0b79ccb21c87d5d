#include "worker/loop.h"

#include "core/base/heap.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/point.h"
#include "core/base/service.h"
#include "core/base/text.h"
#include "worker/decide/start.h"
#include "worker/guard.h"
#include "worker/handler_log.h"
#include "worker/note.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    OWN_FDS = 2,
    STATISTICS_EVERY_MS = 60000,
    FAILING_AFTER_MS = 3000, /* rounds that fail for this long are recorded in the worker's row */
    /* its guard may have taken it for frozen, whose last beat may be older than its last turn */
    FROZEN_MS = GUARD_SILENT_MS - 2 * GUARD_BEAT_MS,
};

struct turn {
    struct pollfd *fds;
    size_t n_fds;
    int64_t ping_ms, statistics_ms, beat_ms;
    int64_t moved_ms; /* the last turn */
    int64_t done_before;
    bool exit;
};

/* The decider gets an event; who watches it, before. */
static void hear(struct loop *l, const struct event *event)
{
    spans_event(l->spans, l->decider, event);
    decider_event(l->decider, event, now_ms());
}

/* An attempt that fails or runs into its time limit, or whose child dies: what it has printed is
 * kept with it. Of an exec handler it is in the error. */
static void keep_printed(struct loop *l, const struct event *event)
{
    struct claim *task = slots_failing(l->decider, event);
    const struct handler *h = l->children->slots[event->slot].handler;
    if (task && h && h->pool) {
        struct buf lines;
        buf_init(&lines, CHILD_TAIL_BYTES);
        children_printed(l->children, event->slot, &lines);
        handler_log_printed(task, &lines, h->log_stderr, l->round_thread);
        buf_clear(&lines);
    }
}

void loop_child_event(void *owner, const struct event *event)
{
    struct loop *l = owner;
    const struct slot *slot = &l->decider->slots[event->slot];
    if (event->type == EVENT_LOG) {
        handler_log_note(slots_find(l->decider, event->slot, event->id), event, l->round_thread);
    } else if (event->type == EVENT_PRINTED) {
        handler_log_line(slot->n_given == 1 ? slot->given : NULL, event->text);
    } else {
        if (event->type == EVENT_REPLY || event->type == EVENT_CHILD_GONE) {
            keep_printed(l, event);
        }
        hear(l, event);
    }
}

bool loop_child_has(void *owner, int slot, int64_t id)
{
    struct loop *l = owner;
    return slots_find(l->decider, slot, id) != NULL;
}

bool loop_child_is_full(void *owner, int slot)
{
    struct loop *l = owner;
    return slots_is_full(l->decider, slot);
}

void loop_consumer_event(void *owner, const struct consumer_event *e)
{
    if (e->hostile > 0) {
        log_event(LOG_WARNING, LOG_EVENT("wakeups_rejected"), LOG_NUM("count", e->hostile),
                  LOG_TEXT("hint", "a message of RabbitMQ is not the id of a task"));
    }
    if (e->type == CONSUMER_WAKEUPS) {
        mailbox_push(owner, &(struct event){.type = EVENT_WAKEUPS,
                                            .epoch = e->epoch,
                                            .ids = e->ids,
                                            .n = e->n,
                                            .last_tag = e->last_tag});
        return;
    }
    bool up = e->type == CONSUMER_UP;
    log_event(up ? LOG_INFO : LOG_WARNING, LOG_EVENT(up ? "broker_up" : "broker_down"),
              LOG_TEXT(up ? "where" : "error", e->text));
    mailbox_push(
        owner, &(struct event){.type = EVENT_BROKER, .up = up, .epoch = e->epoch, .text = e->text});
}

/* --- actions --- */

/* Rounds that fail for a moment only are nothing to speak of: see keep_up(). */
static void note_rounds(struct loop *l, const struct action *a)
{
    if (a->note == NOTE_ROUND_FAILED) {
        l->failing_ms = now_ms();
        text_shorten(l->rounds_why, sizeof l->rounds_why, a->text);
    } else if (a->note == NOTE_ROUND_WORKS) {
        l->failing_ms = 0;
    }
}

static void log_starting(const struct loop *l, const struct action *a)
{
    char doing[STARTING_BYTES];
    children_doing(l->children, a->slot, doing, sizeof doing);
    log_event(LOG_WARNING, LOG_EVENT("handler_starting"), LOG_TEXT("text", a->text),
              LOG_TEXT("doing", *doing ? doing : NULL));
}

static void act(struct loop *l, struct turn *t, const struct action *a)
{
    switch (a->type) {
    case ACTION_ROUND:
        round_thread_run(l->round_thread, &l->decider->round, l->worker_id);
        break;
    case ACTION_ACK:
        if (l->consumer) {
            POINT(ack_due);
            consumer_ack(l->consumer, a->epoch, a->tag);
        }
        break;
    case ACTION_PREFETCH:
        if (l->consumer) {
            consumer_prefetch(l->consumer, a->n);
        }
        break;
    case ACTION_SPAWN:
        if (a->claim) {
            POINT(task_claimed);
        }
        children_spawn(l->children, a->slot, a->handler,
                       spans_begin(l->spans, a->claim, 1, a->slot));
        if (!a->claim) {
            t->ping_ms = sooner(t->ping_ms, now_ms() + START_TOLD_MS); /* its row says it then */
        }
        break;
    case ACTION_GIVE:
        POINT(task_claimed);
        children_give(l->children, a->slot, spans_begin(l->spans, a->claim, a->n, a->slot), a->n,
                      a->n == 1 && l->decider->slots[a->slot].n_given == 1);
        break;
    case ACTION_CLOSE:
        children_close(l->children, a->slot);
        break;
    case ACTION_TELL_STOP:
        children_tell_stop(l->children, a->slot, a->task, a->text);
        break;
    case ACTION_TELL_STEP:
        children_tell_step(l->children, a->slot, a->task, a->text, a->n);
        break;
    case ACTION_SIGNAL:
        children_signal(l->children, a->slot, a->n);
        break;
    case ACTION_NOTE:
        if (a->note == NOTE_HANDLER_STARTING) {
            log_starting(l, a);
            break;
        }
        note_log(a);
        note_rounds(l, a);
        if (a->note == NOTE_DRAINING) {
            presence_drain(l->presence);
            service_stopping();
        }
        break;
    case ACTION_EXIT:
        t->exit = true;
        break;
    }
}

/* An action may make an event at once (a child that could not be started), and so more actions:
 * they are taken one by one, and the decider is asked again until it has none. */
static int64_t decide_and_act(struct loop *l, struct turn *t)
{
    struct decider *d = l->decider;
    int64_t due;
    do {
        due = decider_decide(d, now_ms());
        for (size_t i = 0; i < d->actions.n; i++) {
            struct action a = d->actions.items[i];
            act(l, t, &a);
        }
        bool any = d->actions.n > 0;
        d->actions.n = 0;
        if (!any) {
            break;
        }
    } while (!t->exit && !d->actions.no_memory);
    children_flush(l->children);
    return due;
}

/* --- events --- */

static void log_presence(struct loop *l, const struct event *e)
{
    if (e->up) {
        (void)snprintf(l->worker_id, sizeof l->worker_id, "%s", e->text);
        service_ready(); /* without a broker it polls */
    }
    log_event(e->up ? LOG_INFO : LOG_WARNING, LOG_EVENT(e->up ? "presence_held" : "presence_lost"),
              LOG_TEXT(e->up ? "worker" : "error", e->text), LOG_NUM("renewed", e->renewed));
}

static void take_mail(struct loop *l)
{
    struct mail *mail = mailbox_take(l->mailbox);
    while (mail) {
        struct mail *next = mail->next;
        if (mail->event.type == EVENT_PRESENCE) {
            log_presence(l, &mail->event);
        } else if (mail->event.type == EVENT_BROKER) {
            l->connected = mail->event.up;
            (void)memset(l->note.broker, 0, sizeof l->note.broker);
            if (!mail->event.up && mail->event.text) {
                text_shorten(l->note.broker, sizeof l->note.broker, mail->event.text);
            }
        }
        hear(l, &mail->event);
        free(mail);
        mail = next;
    }
    if (!l->ready && l->decider->present && (l->connected || !l->consumer)) {
        l->ready = true;
        l->on_ready(l->owner);
    }
}

static void log_statistics(const struct loop *l)
{
    const struct decider *d = l->decider;
    struct otlp_stats spans;
    otlp_stats(l->otlp, &spans);
    log_event(LOG_INFO, LOG_EVENT("statistics"), LOG_NUM("done", d->count_done),
              LOG_NUM("failed", d->count_failed), LOG_NUM("dead", d->count_dead),
              LOG_NUM("released", d->count_released), LOG_NUM("lost", d->count_lost),
              LOG_NUM("held", d->n_held), LOG_NUM("running", d->n_given),
              LOG_NUM("spans_sent", spans.sent), LOG_NUM("spans_dropped", spans.dropped),
              LOG_NUM("heap_bytes", heap_bytes()));
}

/* SIGUSR1 asks for statistics; every other signal asks to stop. */
static void take_signals(struct loop *l)
{
    struct signalfd_siginfo info;
    while (read(l->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGUSR1) {
            log_statistics(l);
            continue;
        }
        log_event(LOG_INFO, LOG_EVENT("signal"),
                  LOG_TEXT("signal", strsignal((int)info.ssi_signo)));
        hear(l, &(struct event){.type = EVENT_STOP});
    }
}

static enum worker_broker broker_of(const struct loop *l)
{
    return !l->consumer ? BROKER_NONE : l->connected ? BROKER_UP : BROKER_AWAY;
}

/* "kinds: since doing", a line for each handler that waits for its first child. ret: there are any
 * that start */
static bool note_starting(const struct loop *l, int64_t now, char text[PRESENCE_NOTE_BYTES])
{
    const struct decider *d = l->decider;
    size_t len = 0;
    bool any = false;
    (void)memset(text, 0, PRESENCE_NOTE_BYTES);
    for (int i = 0; i < d->n_handlers; i++) {
        const struct decider_handler *h = &d->handlers[i];
        int slot = start_oldest(d, i, now);
        any = any || h->n_starting > 0;
        if (slot >= 0 && strlen(h->kinds) + STARTING_BYTES + 32 < PRESENCE_NOTE_BYTES - len) {
            char doing[STARTING_BYTES];
            children_doing(l->children, slot, doing, sizeof doing);
            len += (size_t)snprintf(text + len, PRESENCE_NOTE_BYTES - len, "%s%s: %lld %s",
                                    len ? "\n" : "", h->kinds,
                                    (long long)(l->unix_ms + d->slots[slot].used_ms), doing);
        }
    }
    return any;
}

static void note_troubles(struct loop *l, int64_t now)
{
    struct presence_note *n = &l->note;
    (void)memset(n->backing_off, 0, sizeof n->backing_off);
    (void)memset(n->rounds, 0, sizeof n->rounds);
    start_backing_off(l->decider, n->backing_off, sizeof n->backing_off);
    if (l->failing_ms > 0 && now - l->failing_ms >= FAILING_AFTER_MS) {
        memcpy(n->rounds, l->rounds_why, sizeof n->rounds);
    }
}

static void keep_up(struct loop *l, struct turn *t, int64_t now)
{
    const struct decider *d = l->decider;
    if (now >= t->beat_ms) {
        guard_beat();
        t->beat_ms = now + GUARD_BEAT_MS;
    }
    if (l->metrics) {
        worker_metrics_note(l->metrics, d, broker_of(l), now);
    }
    if (now >= t->ping_ms) {
        note_troubles(l, now);
        bool any = note_starting(l, now, l->note.starting);
        presence_ping(l->presence, &l->note);
        service_alive(now);
        t->ping_ms = now + (any ? START_TOLD_MS : PRESENCE_PING_MS);
    }
    if (now >= t->statistics_ms) {
        int64_t ended = d->count_done + d->count_failed + d->count_released + d->count_dead;
        if (ended != t->done_before) {
            log_statistics(l);
        }
        t->done_before = ended;
        t->statistics_ms = now + STATISTICS_EVERY_MS;
    }
}

/* Before it hears how its children have ended, which is not their fault. */
static void notice_freeze(struct loop *l, struct turn *t)
{
    int64_t now = now_ms();
    if (now - t->moved_ms >= FROZEN_MS) {
        hear(l, &(struct event){.type = EVENT_FROZEN});
    }
    t->moved_ms = now;
}

static void wait_for_events(struct loop *l, struct turn *t, int64_t due_ms)
{
    int64_t now = now_ms();
    int64_t until = due_ms < t->ping_ms ? due_ms : t->ping_ms;
    int64_t left = until > now ? until - now : 0;
    struct timespec limit = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    t->fds[0] = (struct pollfd){.fd = l->mailbox->fd, .events = POLLIN};
    t->fds[1] = (struct pollfd){.fd = l->signal_fd, .events = POLLIN};
    children_poll(l->children, t->fds + OWN_FDS);
    int n = ppoll(t->fds, t->n_fds, &limit, NULL);
    notice_freeze(l, t);
    if (n < 0) {
        return; /* EINTR, or no memory for a moment: the next turn tries again */
    }
    if (t->fds[0].revents) {
        take_mail(l);
    }
    if (t->fds[1].revents) {
        take_signals(l);
    }
    children_dispatch(l->children, t->fds + OWN_FDS);
}

bool loop_run(struct loop *l)
{
    int64_t now = now_ms();
    l->unix_ms = now_unix_ns() / 1000000 - now;
    struct turn t = {.ping_ms = now + PRESENCE_PING_MS,
                     .statistics_ms = now + STATISTICS_EVERY_MS,
                     .moved_ms = now};
    t.n_fds = OWN_FDS + (size_t)l->children->n * CHILDREN_FDS_PER_SLOT;
    t.fds = calloc(t.n_fds, sizeof *t.fds);
    bool ok = t.fds;
    while (ok && !t.exit) {
        int64_t due = decide_and_act(l, &t);
        ok = !l->decider->actions.no_memory && !l->mailbox->lost;
        if (ok && !t.exit) {
            keep_up(l, &t, now_ms());
            wait_for_events(l, &t, due);
        }
    }
    free(t.fds);
    return ok;
}
