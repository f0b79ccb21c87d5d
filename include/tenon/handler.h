/* Handlers in C that run inside of tenon-host, a pool child of a worker.
 *
 *     #include <tenon/handler.h>
 *
 *     static int mail(const tenon_work *work, tenon_context *c)
 *     {
 *         if (send_mail(work->payload) != 0)
 *             return tenon_fail(c, "mail_server", "the mail server says no");
 *         return TENON_DONE;
 *     }
 *
 *     static const tenon_handler handlers[] = {{"welcome_mail", mail}};
 *     TENON_PLUGIN(handlers, NULL, NULL);
 *
 * Build it as a shared object; nothing is linked:
 *
 *     cc -shared -fPIC $(pkg-config --cflags tenon-handler) -o mail.so mail.c
 *     tenon worker --handler 'welcome_mail=pool:exec tenon-host ./mail.so --threads 4'
 *
 * A handler is called in one of the host's threads, many at once with --threads. What it is given
 * is borrowed until it returns. A crash ends the host, which is one child of the worker: its tasks
 * go back, each with a crash to its name, and another child is started. stdout belongs to the host:
 * print nothing there.
 *
 * Versions. TENON_HANDLER_ABI is the version of what stands here. Structs only ever grow at their
 * end, so a plugin that was built with an older version goes on working; a host refuses one that
 * was built with a newer version than its own. */
#ifndef TENON_HANDLER_H
#define TENON_HANDLER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HANDLER_ABI 1

/* What a handler returns; anything else counts as TENON_FAILED. */
enum {
    TENON_DONE = 0,
    TENON_FAILED = 1,     /* tried again after the retry delay, or tenon_set_delay() */
    TENON_DEAD = 2,       /* it can never work */
    TENON_SNOOZE = 3,     /* again in a minute, or tenon_set_delay(), not charged */
    TENON_INTERRUPTED = 4 /* it stopped before its end: not charged, ready at once */
};

/* A task. All texts end with a NUL. */
typedef struct tenon_work {
    int64_t id;
    const char *kind, *queue;
    int64_t attempt, failures, max_attempts, timeout_ms;
    const char *claim;    /* for tenon.finish(claim, result) in a transaction of your own */
    const char *trace;    /* W3C traceparent; NULL = none */
    const char *progress; /* what an earlier attempt said last, JSON; "null" = nothing */
    const char *payload;  /* JSON, exactly as PostgreSQL prints it */
    size_t payload_bytes;
} tenon_work;

typedef struct tenon_context tenon_context;

/* The host's side; use the functions below. A host may have more members than you know. */
struct tenon_context {
    void (*set_result)(tenon_context *, const char *json);
    void (*set_error)(tenon_context *, const char *error_class, const char *text);
    void (*set_delay)(tenon_context *, int64_t delay_ms);
    int (*progress)(tenon_context *, const char *json);
    int (*extend)(tenon_context *, int64_t ms);
    int (*is_stopped)(tenon_context *);
};

/* The result of a task that is done: JSON, copied. What is no JSON, or over 2 MiB, is not kept. */
static inline void tenon_set_result(tenon_context *c, const char *json)
{
    c->set_result(c, json);
}

/* Why it failed, is dead, or is for later: texts, copied; `error_class` may be NULL. Returns
 * TENON_FAILED, to be returned. */
static inline int tenon_fail(tenon_context *c, const char *error_class, const char *text)
{
    c->set_error(c, error_class, text);
    return TENON_FAILED;
}

/* How long until the next attempt, of TENON_FAILED and TENON_SNOOZE; 1 ms to 30 days. */
static inline void tenon_set_delay(tenon_context *c, int64_t delay_ms)
{
    c->set_delay(c, delay_ms);
}

/* How far it is: JSON of at most 64 KiB, which the next attempt gets. Returns 0, or -1 when that is
 * no JSON or longer. */
static inline int tenon_progress(tenon_context *c, const char *json)
{
    return c->progress(c, json);
}

/* More time: so much of it from now on. Returns 0, or -1 if `ms` is not 1 ms to 30 days. */
static inline int tenon_extend(tenon_context *c, int64_t ms)
{
    return c->extend(c, ms);
}

/* Is it asked to stop, because it was cancelled, or because the worker drains? Then return soon,
 * TENON_INTERRUPTED for instance. */
static inline int tenon_is_stopped(tenon_context *c)
{
    return c->is_stopped(c);
}

typedef struct tenon_handler {
    const char *kind;
    int (*run)(const tenon_work *work, tenon_context *context);
} tenon_handler;

typedef struct tenon_plugin_table {
    int abi;
    size_t n_handlers;
    const tenon_handler *handlers;
    int (*start)(void); /* once, before the first task; not 0: the host ends. NULL = none */
    void (*stop)(void); /* once, after the last. NULL = none */
} tenon_plugin_table;

/* The one symbol of a plugin. `handlers` is an array. */
#define TENON_PLUGIN(handlers, start, stop)                                                        \
    __attribute__((visibility("default"))) extern const tenon_plugin_table tenon_plugin;           \
    const tenon_plugin_table tenon_plugin = {TENON_HANDLER_ABI,                                    \
                                             sizeof(handlers) / sizeof *(handlers), (handlers),    \
                                             (start), (stop)}

#ifdef __cplusplus
}
#endif
#endif
