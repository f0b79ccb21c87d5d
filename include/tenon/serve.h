/* Handlers in C: a program whose functions run tasks, in threads of a pool child of a worker.
 *
 *     #include <tenon/serve.h>
 *
 *     static int mail(const tenon_work *work, tenon_context *c)
 *     {
 *         if (send_mail(work->payload) != 0)
 *             return tenon_fail(c, "mail_server", "the mail server says no");
 *         return TENON_RUN_DONE;
 *     }
 *
 *     static const tenon_handler handlers[] = {{"welcome_mail", mail}};
 *
 *     int main(void)
 *     {
 *         if (tenon_serve(handlers, 1, 4) != TENON_OK) {
 *             fprintf(stderr, "%s\n", tenon_errmsg());
 *             return 1;
 *         }
 *         return 0;
 *     }
 *
 *     cc mail.c $(pkg-config --cflags --libs tenon) -o mailer
 *     tenon worker --handler 'welcome_mail=pool:exec ./mailer'
 *
 * A crash ends this child of the worker: each of its tasks gets a crash and is ready again, and the
 * worker starts another child. */
#ifndef TENON_SERVE_H
#define TENON_SERVE_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_THREADS_MAX 256

/* What a handler returns; any other number counts as TENON_RUN_FAILED. */
enum {
    TENON_RUN_DONE = 0,
    TENON_RUN_FAILED = 1,     /* retried after the retry delay, or after tenon_set_delay() */
    TENON_RUN_DEAD = 2,       /* it can never work */
    TENON_RUN_SNOOZE = 3,     /* again in a minute, or after tenon_set_delay(); not charged */
    TENON_RUN_INTERRUPTED = 4 /* it stopped before its end: not charged, ready at once */
};

/* A task. All texts end with a NUL, and are borrowed until the handler returns. */
typedef struct tenon_work {
    size_t struct_size; /* of the library's tenon_work, which may have more members than yours */
    int64_t id;
    const char *kind, *queue;
    int64_t attempt, failures, max_attempts, timeout_ms;
    const char *claim;    /* for tenon.finish(claim, result) in a transaction of your own */
    const char *trace;    /* W3C traceparent; NULL = none */
    const char *progress; /* what an earlier attempt said last, JSON; "null" = nothing */
    const char *payload;  /* JSON, exactly as PostgreSQL prints it */
    size_t payload_bytes;
} tenon_work;

/* The run of one task. Only the handler's own thread may use it, except tenon_is_stopped() and
 * tenon_stop_fd(). */
typedef struct tenon_context tenon_context;

typedef struct tenon_handler {
    const char *kind;
    int (*run)(const tenon_work *work, tenon_context *context);
} tenon_handler;

/* Run tasks until the worker sends no more, up to `threads` at once, each in a thread of its own.
 * The worker speaks through stdin and stdout, so the caller must not use these. What handlers print
 * to stdout goes to stderr, which is in the worker's log. SIGPIPE is ignored from then on.
 *   handlers   n of them, a kind each; a task of any other kind fails
 *   threads    1 to TENON_THREADS_MAX
 *   returns    TENON_OK       the worker sends no more, and all tasks are answered
 *              TENON_MISUSE   an argument is wrong, or stdin does not come from a worker
 *              TENON_MEMORY, TENON_RETRY   no memory, no thread, or a broken pipe */
TENON_EXPORT int tenon_serve(const tenon_handler *handlers, size_t n, int threads);

/* The result of a task that is done: JSON, copied. A text that is not JSON, or over 2 MiB, is
 * replaced by a note. */
TENON_EXPORT void tenon_set_result(tenon_context *c, const char *json);

/* Why it failed, is dead, or is snoozed: texts, copied; of `text` up to 8,192 bytes and of
 * `error_class`, which may be NULL, up to 100. Returns TENON_RUN_FAILED, to be returned. */
TENON_EXPORT int tenon_fail(tenon_context *c, const char *error_class, const char *text);

/* How long until the next run, of TENON_RUN_FAILED and TENON_RUN_SNOOZE; 1 ms to 30 days. */
TENON_EXPORT void tenon_set_delay(tenon_context *c, int64_t delay_ms);

/* How far it is: JSON of at most 64 KiB, which the next attempt gets. Returns 0, or -1 when that is
 * no JSON or longer. */
TENON_EXPORT int tenon_progress(tenon_context *c, const char *json);

/* More time: its deadline is `ms` from now on. Returns 0, or -1 if `ms` is not 1 ms to 30 days. */
TENON_EXPORT int tenon_extend(tenon_context *c, int64_t ms);

/* 1 if it is asked to stop, because it was cancelled or the worker drains. Then return soon, for
 * instance TENON_RUN_INTERRUPTED. */
TENON_EXPORT int tenon_is_stopped(tenon_context *c);

/* A descriptor for poll(), which becomes readable when tenon_is_stopped() becomes 1. It stays
 * readable until the handler returns. Do not read from it, write to it, or close it. */
TENON_EXPORT int tenon_stop_fd(tenon_context *c);

#ifdef __cplusplus
}
#endif
#endif
