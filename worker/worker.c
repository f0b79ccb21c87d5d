#include "worker/worker.h"

#include "core/amqp/amqp_publisher.h"
#include "core/base/insecure.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/processors.h"
#include "core/base/service.h"
#include "core/db/db.h"
#include "worker/decide/start.h"
#include "worker/guard.h"
#include "worker/learn.h"
#include "worker/loop.h"
#include "worker/run_one.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    START_PAUSE_MIN_MS = 100,
    START_PAUSE_MAX_MS = 5000,
    LEARN_PAUSE_MIN_MS = 1000,
    LEARN_PAUSE_MAX_MS = 30000,
    CLOSE_LIMIT_MS = 1000,
    ROOT_KINDS_BYTES_MAX = 4096,
    KEYS_BYTES_MAX = 64 << 20, /* of all routing keys, before they are counted */
};

struct worker {
    const struct options *options;
    struct served served;
    int n_slots;
    sigset_t signals;
    struct mailbox mailbox;
    struct children children;
    struct learned learned; /* of the first child, if there is a handler "*" */
    struct series *series;  /* what is counted */
    struct loop loop;
};

static const char *database_url(const struct options *o)
{
    return option_text(o, OPTION_DATABASE_URL);
}

static const char *presence_url(const struct options *o)
{
    const char *url = option_text(o, OPTION_PRESENCE_URL);
    return url ? url : database_url(o);
}

static bool load_options(struct worker *w, struct fault *f)
{
    const struct options *o = w->options;
    if (!handlers_load(o, &w->served.handlers, f)) {
        return false;
    }
    w->served.n_queues = option_items(o, OPTION_QUEUES);
    w->served.queues = calloc(w->served.n_queues + 1, sizeof *w->served.queues);
    if (!w->served.queues) {
        return fault_memory(f);
    }
    for (size_t i = 0; i < w->served.n_queues; i++) {
        w->served.queues[i] = option_item(o, OPTION_QUEUES, i);
    }
    w->n_slots = (int)option_int(o, OPTION_SLOTS);
    return true;
}

/* Signals are read from a descriptor in the main loop; all threads inherit the blocked mask. */
static bool catch_signals(struct worker *w, struct fault *f)
{
    (void)sigemptyset(&w->signals);
    (void)sigaddset(&w->signals, SIGTERM);
    (void)sigaddset(&w->signals, SIGINT);
    (void)sigaddset(&w->signals, SIGHUP);
    (void)sigaddset(&w->signals, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &w->signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    w->loop.signal_fd = signalfd(-1, &w->signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return w->loop.signal_fd >= 0 ||
           fault_set(f, FAULT_RETRY, "could not watch signals: %s", strerror(errno));
}

/* Wait a moment before the next try; true when a signal says to stop instead. */
static bool pause_or_stop(struct worker *w, int64_t ms)
{
    struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    int signal = sigtimedwait(&w->signals, NULL, &limit);
    return signal > 0 && signal != SIGUSR1;
}

/* The kinds of the handler "*", however often its first child does not start. */
static bool learn(struct worker *w, struct fault *f)
{
    struct handlers *h = &w->served.handlers;
    int any = handlers_any(h);
    for (int failures = 1;
         any >= 0 && !learn_kinds(w->children.slots, h, any, w->loop.signal_fd, &w->learned, f);
         failures++) {
        if (f->code != FAULT_RETRY) {
            return false;
        }
        log_fault(LOG_WARNING, "kinds_unknown", f);
        fault_clear(f); /* to be stopped while waiting is no failure */
        if (pause_or_stop(w, now_pause_ms(failures, LEARN_PAUSE_MIN_MS, LEARN_PAUSE_MAX_MS))) {
            return false;
        }
    }
    return true;
}

/* Be registered, however long PostgreSQL takes to be there. Why it waits is told when it is
 * something new: a person may have to mend it. */
static bool become_present(struct worker *w, struct fault *f)
{
    char told[FAULT_TEXT_BYTES_MAX] = "";
    for (int failures = 1; !presence_open(presence_url(w->options), &w->served, w->n_slots,
                                          option_text(w->options, OPTION_RELEASE), w->series,
                                          &w->mailbox, &w->loop.presence, f);
         failures++) {
        if (!fault_passes(f)) {
            return false;
        }
        if (strcmp(told, f->text) != 0) {
            (void)snprintf(told, sizeof told, "%s", f->text);
            log_fault(LOG_WARNING, "waiting_for_database", f);
        }
        fault_clear(f); /* to be stopped while waiting is no failure */
        guard_beat();   /* the first child of "*" may be there */
        if (pause_or_stop(w, now_pause_ms(failures, START_PAUSE_MIN_MS, START_PAUSE_MAX_MS))) {
            return false;
        }
    }
    return true;
}

/* "queue/kind queue/kind ...", all that the worker serves. */
static const char *routing_keys(const struct worker *w, struct buf *b)
{
    for (size_t q = 0; q < w->served.n_queues; q++) {
        for (size_t k = 0; k < w->served.handlers.n_kinds; k++) {
            buf_printf(b, "%s%s/%s", b->len ? " " : "", w->served.queues[q],
                       w->served.handlers.kinds[k].name);
        }
    }
    return buf_text(b);
}

static bool open_consumer(struct worker *w, struct fault *f)
{
    const char *url = option_text(w->options, OPTION_AMQP_URL);
    if (strcmp(url, "none") == 0) {
        return true;
    }
    struct buf keys;
    buf_init(&keys, KEYS_BYTES_MAX);
    const struct consumer_settings settings = {.url = url,
                                               .exchange = presence_exchange(w->loop.presence),
                                               .keys = routing_keys(w, &keys),
                                               .on_event = loop_consumer_event,
                                               .owner = &w->mailbox};
    bool ok = !keys.failed ? consumer_open(&settings, &w->loop.consumer, f) : fault_memory(f);
    buf_clear(&keys);
    return ok;
}

static bool make_decider(struct worker *w, struct fault *f)
{
    const char *kinds[HANDLERS_MAX];
    bool pool[HANDLERS_MAX];
    uint64_t seed = (uint64_t)now_us();
    ssize_t n = getrandom(&seed, sizeof seed, GRND_NONBLOCK);
    (void)n;
    for (int i = 0; i < w->served.handlers.n; i++) {
        kinds[i] = w->served.handlers.items[i].kinds;
        pool[i] = w->served.handlers.items[i].pool;
    }
    w->loop.decider = decider_new(w->n_slots, w->served.handlers.n, kinds, pool,
                                  option_int(w->options, OPTION_DRAIN_LIMIT),
                                  option_flag(w->options, OPTION_UNTIL_EMPTY), seed, now_ms());
    for (int i = 0; w->loop.decider && i < w->served.handlers.n; i++) {
        const struct handler *h = &w->served.handlers.items[i];
        decider_chunks(w->loop.decider, i, h->chunk_size, h->chunk_wait_ms);
        w->loop.decider->handlers[i].start_limit_ms = h->start_limit_ms;
        w->loop.decider->handlers[i].name = h->any ? "*" : h->kinds;
    }
    w->series = series_new();
    if (!w->loop.decider || !w->series) {
        return fault_memory(f);
    }
    w->loop.decider->tally = w->series;
    w->loop.decider->notes_done = log_enabled(LOG_DEBUG);
    int most = processors();
    w->loop.decider->starts_max = most < SLOTS_MAX ? most : SLOTS_MAX;
    int any = handlers_any(&w->served.handlers);
    if (any >= 0) {
        start_adopt(w->loop.decider, 0, any, w->learned.room, w->learned.hears_stop, now_ms());
    }
    return true;
}

/* It may be meant, as in a container, but it is said each time. */
static void log_root(const struct worker *w)
{
    struct buf kinds;
    buf_init(&kinds, ROOT_KINDS_BYTES_MAX);
    for (int i = 0; i < w->served.handlers.n; i++) {
        const struct handler *h = &w->served.handlers.items[i];
        if (isolation_is_root(&h->isolation)) {
            buf_printf(&kinds, "%s%s", kinds.len ? "," : "", h->any ? "*" : h->kinds);
        }
    }
    if (kinds.len > 0) {
        log_event(LOG_WARNING, LOG_EVENT("handlers_run_as_root"),
                  LOG_TEXT("kinds", buf_text(&kinds)),
                  LOG_TEXT("hint", "run the worker as another user, or give it --user NAME, or the "
                                   "handlers a user in the handlers file (user root: no warning)"));
    }
    buf_clear(&kinds);
}

static void log_ready(void *owner)
{
    const struct worker *w = owner;
    char database[512], broker[512] = "none", insecure[INSECURE_BYTES];
    const char *amqp_url = option_text(w->options, OPTION_AMQP_URL);
    const char *otlp_url = option_text(w->options, OPTION_OTLP_URL);
    db_url_mask(database_url(w->options), database, sizeof database);
    if (w->loop.consumer) {
        amqp_url_mask(amqp_url, broker, sizeof broker);
    }
    log_event(LOG_INFO, LOG_EVENT("worker_ready"), LOG_TEXT("version", TENON_VERSION),
              LOG_TEXT("database", database), LOG_TEXT("broker", broker),
              LOG_NUM("slots", w->n_slots), LOG_NUM("queues", w->served.n_queues),
              LOG_NUM("handlers", w->served.handlers.n),
              LOG_TEXT("insecure", insecure_text(presence_insecure(w->loop.presence), amqp_url,
                                                 otlp_url, insecure)));
}

/* Every queue and kind that it serves is counted from 0: the first dead task of a kind is an
 * increase. If they are too many, those come first that have tasks. */
static void name_series(struct worker *w)
{
    const struct handlers *h = &w->served.handlers;
    if (h->n_kinds == 0 || w->served.n_queues > SERIES_MAX / h->n_kinds) {
        return;
    }
    for (size_t i = 0; i < w->served.n_queues; i++) {
        for (size_t j = 0; j < h->n_kinds; j++) {
            (void)series_of(w->series, w->served.queues[i], h->kinds[j].name);
        }
    }
}

/* Before the servers are there: a worker that waits for them is alive. */
static bool show_metrics(struct worker *w, struct fault *f)
{
    const char *address = option_text(w->options, OPTION_HTTP);
    name_series(w);
    return !address || worker_metrics_open(address, w->series, &w->loop.metrics, f);
}

static bool open_all(struct worker *w, struct fault *f)
{
    if (!load_options(w, f) || !child_descriptors(w->n_slots, f) || !guard_start(f) ||
        !catch_signals(w, f) || !mailbox_init(&w->mailbox, f) ||
        !children_init(&w->children, w->n_slots, &w->served.handlers, f) || !learn(w, f) ||
        !make_decider(w, f)) {
        return false;
    }
    log_root(w);
    w->children.emit = loop_child_event;
    w->children.is_given = loop_child_has;
    w->children.is_full = loop_child_is_full;
    w->children.owner = &w->loop;
    w->loop.mailbox = &w->mailbox;
    w->loop.children = &w->children;
    w->loop.on_ready = log_ready;
    w->loop.owner = w;
    if (!otlp_open(option_text(w->options, OPTION_OTLP_URL), &w->loop.otlp, f)) {
        return false;
    }
    w->loop.spans = spans_new(w->loop.otlp);
    return show_metrics(w, f) && become_present(w, f) &&
           round_thread_open(database_url(w->options), &w->served, &w->mailbox,
                             &w->loop.round_thread, f) &&
           open_consumer(w, f);
}

/* False: a thread hangs in a connect and may still use what is left; the process must end. */
static bool close_all(struct worker *w)
{
    consumer_close(w->loop.consumer, CLOSE_LIMIT_MS);
    bool ended = round_thread_close(w->loop.round_thread);
    children_clear(&w->children); /* before the presence: then others may start what they ran */
    ended = presence_close(w->loop.presence) && ended;
    spans_free(w->loop.spans);
    ended = otlp_close(w->loop.otlp, OTLP_FLUSH_LIMIT_MS) && ended;
    guard_stop();
    if (!ended) {
        return false;
    }
    worker_metrics_close(w->loop.metrics);
    decider_free(w->loop.decider);
    series_free(w->series);
    if (w->mailbox.fd > 0) {
        mailbox_clear(&w->mailbox);
    }
    if (w->loop.signal_fd > 0) {
        (void)close(w->loop.signal_fd);
    }
    handlers_clear(&w->served.handlers);
    free(w->served.queues);
    free(w);
    return true;
}

int worker_main(const struct options *o)
{
    (void)signal(SIGCHLD, SIG_DFL); /* inherited as ignored, it would hide how children end */
    if (option_text(o, OPTION_RUN_ONE)) {
        return run_one_main(o);
    }
    service_open();
    struct fault f = {0};
    struct worker *w = calloc(1, sizeof *w);
    if (!w) {
        (void)fault_memory(&f);
        log_fault(LOG_ERROR, "worker_failed", &f);
        return fault_exit_code(&f);
    }
    w->options = o;
    bool ok = open_all(w, &f) && (loop_run(&w->loop) || fault_memory(&f)) &&
              !presence_refused(w->loop.presence, &f);
    int code = ok ? 0 : fault_exit_code(&f); /* 0, too, if it was stopped while it started */
    if (f.code != FAULT_NONE) {
        log_fault(LOG_ERROR, "worker_failed", &f);
    }
    bool closed = close_all(w);
    if (code == 0) {
        log_event(LOG_INFO, LOG_EVENT("worker_stopped"));
    }
    if (!closed) {
        _exit(code);
    }
    return code;
}
