/* libtenon: enqueue tasks inside your own PostgreSQL transactions.
 *
 *     tenon *t = tenon_new(NULL);
 *     tenon_task task = TENON_TASK_INIT;
 *     int64_t id;
 *
 *     PQclear(PQexec(conn, "BEGIN"));
 *     ... your own statements ...
 *     task.kind = "welcome_mail";
 *     task.payload = "{\"to\": \"ann@example.org\"}";
 *     if (tenon_enqueue(t, conn, &task, &id) != TENON_OK)
 *         fprintf(stderr, "%s\n", tenon_errmsg());
 *     tenon_commit(t, conn);
 *
 * A task is a row that your transaction inserts: it is there when you commit and gone when you roll
 * back. After the commit, the row's number is also sent to RabbitMQ, so that a worker starts within
 * a millisecond or two. That message is only a wake-up. Nothing here waits for RabbitMQ: when it is
 * down, hangs, is full, or refuses, everything here continues at the same speed and the tasks
 * start about a second later.
 *
 * Threads. A handle may be used by any number of threads at once. A PGconn may be used by one
 * thread at a time, which libpq demands. tenon_errmsg() is of the calling thread.
 *
 * Fork. A handle may be used in a forked child, which gets a connection to RabbitMQ of its own;
 * what the parent had remembered and not yet published stays with the parent. A PGconn may not be
 * used on both sides of a fork.
 *
 * The library never prints, never logs, never ends the process, and leaves signals alone. A
 * connection in pipeline mode, or with a statement under way, is refused. Link with `pkg-config
 * --libs tenon`. */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <libpq-fe.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TENON_EXPORT __attribute__((visibility("default")))
#else
#define TENON_EXPORT
#endif

/* Limits. */
#define TENON_TRANSACTION_IDS_MAX                                                                  \
    10000 /* ids remembered for one open transaction, see tenon_enqueue() */
#define TENON_CONNECTIONS_MAX 4096  /* connections with ids remembered, of one handle */
#define TENON_BATCH_MAX 100000      /* payloads of one tenon_enqueue_many() */
#define TENON_BATCH_WAKEUPS_MAX 500 /* messages that one such call sends */
#define TENON_FREE_LIMIT_MS 1500    /* how long tenon_free() may take */

typedef struct tenon tenon;

/* What a call returns. tenon_enqueue(), tenon_enqueue_many() and tenon_prepare_statement() leave
 * the caller's transaction
 *   after OK               with the tasks in it
 *   after MISUSE, MEMORY   as it was: nothing was sent to PostgreSQL, and it can continue
 *   after any other code   failed, like after any other statement that fails: PostgreSQL only
 *                          accepts a rollback, or a rollback to a savepoint. After RETRY the
 *                          connection may be broken too, and the transaction lost with it.
 * tenon_commit() and tenon_rollback() end it with every code except MISUSE, after which it is
 * unchanged. tenon_flush() does not concern it. */
enum {
    TENON_OK = 0,
    TENON_MISUSE = 1,  /* a NULL, no kind, a connection in a wrong state: a bug in the caller */
    TENON_MEMORY = 2,  /* out of memory */
    TENON_REFUSED = 3, /* an argument that tenon.enqueue() does not allow; the text says which */
    TENON_RETRY = 4,   /* a deadlock, a timeout, a lost connection: run the transaction again */
    TENON_ABORTED = 5, /* the transaction had failed before; only a rollback is possible */
    TENON_ROLLED_BACK =
        6,             /* tenon_commit(): the transaction had failed, so COMMIT rolled it back */
    TENON_UNKNOWN = 7, /* tenon_commit(): the connection broke; it may have committed or not */
    TENON_SCHEMA = 8,  /* the database has no schema tenon, or an older one: run `tenon setup` */
    TENON_DENIED = 9,  /* the role may not: run `tenon setup --grant-producer ROLE` */
    TENON_FAILED = 10, /* any other error of PostgreSQL */
    TENON_UNPUBLISHED =
        11, /* tenon_flush(): some wake-ups did not reach RabbitMQ; their tasks run later */
    TENON_NOT_YET = 12 /* tenon_wait(): none of them has ended within the time */
};

/* One task, or what many have in common. Set it to TENON_TASK_INIT, then the fields you want;
 * strings are borrowed for the call. NULL, 0 and -1 mean: the default of the kind, else of the
 * queue, else tenon's. */
typedef struct tenon_task {
    size_t struct_size;     /* set by TENON_TASK_INIT; lets this struct grow */
    const char *kind;       /* which handler; 1 to 100 of A-Z a-z 0-9 _ . : - */
    const char *payload;    /* JSON; NULL = {} */
    const char *queue;      /* 1 to 63 of a-z 0-9 _ . - ; NULL = the kind's, else "default" */
    int priority;           /* 0 to 9, higher first; -1 = default, 4 */
    int max_attempts;       /* 1 to 1000; 0 = default, 25 */
    int64_t timeout_ms;     /* of one run, up to 30 days; 0 = default, 1 hour */
    int64_t delay_ms;       /* start after this time; 0 = now. Not together with run_at */
    const char *run_at;     /* start at this time, in any form that PostgreSQL reads */
    const char *unique_key; /* if a task waits with it, that task's id is returned */
    const char *trace;      /* a W3C traceparent */
    int prepared;           /* 1: the transaction will be PREPAREd, see tenon_committed() */
    /* With a unique_key; see tenon.enqueue() in docs/sql.md. */
    const char *on_conflict;  /* "keep", "replace" or "merge"; NULL = keep */
    int64_t unique_for_ms;    /* reserve the key this long, even after the task's end; 0 = not */
    int64_t debounce_ms;      /* start after this time without another enqueue; 0 = not */
    int64_t debounce_max_ms;  /* but at the latest this long after the first; 0 = no limit */
    const char *start_before; /* if not started by then, it expires; in any form that PostgreSQL
                                 reads */
    const char *retry;        /* "exponential(10 s, 1 h)" and such; NULL = default, "polynomial" */
    /* Relations of tasks; see docs/flows.md. */
    const char *const *limit_keys; /* `n_limit_keys` keys whose limits apply to it */
    size_t n_limit_keys;
    int64_t flow;              /* the flow to which it is added; 0 = none */
    const int64_t *depends_on; /* `n_depends_on` tasks of flows, its parents, up to 100,000 */
    size_t n_depends_on;
    const char *on_parent_dead; /* "wait", "run" or "cancel"; NULL = wait */
    const char *const *tags;    /* `n_tags` tags, by which it is found */
    size_t n_tags;
} tenon_task;

#define TENON_TASK_INIT                                                                            \
    {                                                                                              \
        sizeof(tenon_task), NULL, NULL, NULL, -1, 0, 0, 0, NULL, NULL, NULL, 0, NULL, 0, 0, 0,     \
            NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL, 0                                         \
    }

/* Make a handle: one per process is enough.
 *   amqp_url   amqp://user:password@host:port/vhost or amqps://...; NULL = the variable AMQP_URL;
 *              "none" = there is no RabbitMQ: the cleaner wakes the workers up
 *   returns    NULL when the URL cannot be read, or without memory; tenon_errmsg() says which
 * Starts a thread that connects when there is something to publish. The name of the program is what
 * RabbitMQ shows for the connection. */
TENON_EXPORT tenon *tenon_new(const char *amqp_url);

/* Send what can still be sent, and free. Takes at most TENON_FREE_LIMIT_MS. NULL is fine. */
TENON_EXPORT void tenon_free(tenon *t);

/* Enqueue one task on the caller's connection.
 *
 * In a transaction: the task becomes part of it, and its id is remembered until tenon_commit(),
 * tenon_rollback(), tenon_committed() or tenon_forget(). Outside of one, the statement is a
 * transaction of its own and the id is published at once.
 *
 * Beyond TENON_TRANSACTION_IDS_MAX ids in one transaction, or while RabbitMQ is known to be away,
 * the task is left to the cleaner, which publishes it within milliseconds of the commit. So is
 * every task with run_at or delay_ms, when its time comes.
 *
 * An id whose savepoint was rolled back is published for nothing, which is harmless: a worker finds
 * no such task.
 *
 *   ret_id   where the id goes; may be NULL
 *   returns  TENON_OK, or another code; for the state of the transaction see above */
TENON_EXPORT int tenon_enqueue(tenon *t, PGconn *conn, const tenon_task *task, int64_t *ret_id);

/* Prepare the statement of tenon_enqueue() in the session of `conn`, which makes each call
 * cheaper: once after PQconnectdb(), and again after PQreset(). Only where the session is the
 * connection's own: with a pooler between that gives sessions to transactions, do without.
 *
 * If the session loses it (DISCARD ALL, DEALLOCATE ALL), tenon_enqueue() continues without it, or
 * returns TENON_RETRY once when it is in a transaction.
 *
 *   returns  TENON_OK, also when it is prepared already, or a code as tenon_enqueue() */
TENON_EXPORT int tenon_prepare_statement(tenon *t, PGconn *conn);

/* Enqueue one task per payload, with one statement. RabbitMQ gets messages for the first
 * TENON_BATCH_WAKEUPS_MAX ids, including tasks that existed already under their unique keys. Busy
 * workers find the rest by polling, idle ones within about a second.
 *   common       what they share; its payload and unique_key are ignored
 *   payloads     `n` JSON texts; NULL among them = {}
 *   unique_keys  `n` keys, or NULL: none has one
 *   ret_ids      room for `n` ids, in the order of the payloads; may be NULL
 *   n            0 to TENON_BATCH_MAX */
TENON_EXPORT int tenon_enqueue_many(tenon *t, PGconn *conn, const tenon_task *common,
                                    const char *const *payloads, const char *const *unique_keys,
                                    size_t n, int64_t *ret_ids);

/* COMMIT, then publish what was remembered for this connection.
 *   TENON_OK           committed
 *   TENON_ROLLED_BACK  a statement had failed before, so the server rolled back; all is forgotten
 *   TENON_UNKNOWN      the connection broke meanwhile. The ids are published: if it did not commit,
 *                      workers find no such tasks
 *   other              COMMIT itself failed (say, a deferred constraint): rolled back, forgotten */
TENON_EXPORT int tenon_commit(tenon *t, PGconn *conn);

/* ROLLBACK, and forget what was remembered for this connection. */
TENON_EXPORT int tenon_rollback(tenon *t, PGconn *conn);

/* For callers that end their transactions themselves: publish, or forget, what was remembered.
 * Neither touches the connection, which may even be closed already; call one of them before
 * PQfinish(), or the ids wait for the next connection that happens to get the same address.
 *
 * PREPARE TRANSACTION: set task.prepared, and call tenon_committed() after COMMIT PREPARED, or
 * tenon_forget() after ROLLBACK PREPARED. When another process ends the transaction, call
 * tenon_forget(): the ids are then found by the workers themselves, about a second later. */
TENON_EXPORT void tenon_committed(tenon *t, PGconn *conn);
TENON_EXPORT void tenon_forget(tenon *t, PGconn *conn);

/* Wait until everything published so far has arrived at RabbitMQ, for programs that end right away.
 *   TENON_OK           all arrived
 *   TENON_UNPUBLISHED  not within timeout_ms, or RabbitMQ did not take them; the text says why.
 *                      Nothing is lost: the tasks start about a second later */
TENON_EXPORT int tenon_flush(tenon *t, int timeout_ms);

/* What the body of a message is: a text in UTF-8, JSON, or bytes. */
enum {
    TENON_TEXT = 0,
    TENON_JSON = 1,
    TENON_BYTES = 2,
};

/* A message for an exchange of your own; see tenon.publish() in docs/sql.md. Set it to
 * TENON_MESSAGE_INIT, then the fields you want; strings are borrowed for the call. NULL and 0 mean:
 * none, or the default. */
typedef struct tenon_message {
    size_t struct_size;      /* set by TENON_MESSAGE_INIT; lets this struct grow */
    const char *exchange;    /* "" = the default exchange */
    const char *routing_key; /* may be "" */
    const void *body;        /* `body_bytes` bytes, at most 16,777,216 */
    size_t body_bytes;
    int form;                 /* TENON_TEXT, TENON_JSON or TENON_BYTES */
    const char *headers;      /* a JSON object */
    const char *message_id;   /* NULL = a random UUID */
    const char *content_type; /* NULL = what `form` says */
    const char *order_key;    /* messages of one key are sent in the order of their commits */
    int64_t expires_ms;       /* not sent after this time; 0 = never expires */
    const char *properties;   /* a JSON object: type, app_id, priority and others */
    const char *trace;        /* a W3C traceparent */
    int prepared;             /* 1: the transaction will be PREPAREd */
} tenon_message;

#define TENON_MESSAGE_INIT                                                                         \
    {                                                                                              \
        sizeof(tenon_message), NULL, NULL, NULL, 0, TENON_TEXT, NULL, NULL, NULL, NULL, 0, NULL,   \
            NULL, 0                                                                                \
    }

/* Publish a message in the transaction of `conn`: the cleaner sends it to RabbitMQ after the
 * commit, and never if the transaction rolls back. It needs no handle.
 *   ret_id   its number in tenon.outbox; may be NULL
 *   returns  TENON_OK, or a code as tenon_enqueue() */
TENON_EXPORT int tenon_publish(PGconn *conn, const tenon_message *message, int64_t *ret_id);

/* How a task that is waited for has ended. */
enum {
    TENON_TASK_UNFINISHED = 0,
    TENON_TASK_DONE = 1,
    TENON_TASK_DEAD = 2,
    TENON_TASK_CANCELLED = 3,
    TENON_TASK_EXPIRED = 4,
    TENON_TASK_ABSENT = 5 /* there is none, or it left no trace */
};

/* A task to wait for: set it to {.id = ...}, the rest is tenon_wait()'s. */
typedef struct tenon_awaited {
    int64_t id;
    int state;    /* as above */
    char *result; /* what its handler returned, JSON; of one that is done, else NULL; free() it */
    char *error;  /* what went wrong, of one that is not done; NULL = nothing; free() it */
    int64_t asked_ms; /* tenon_wait()'s own: when it asked for it last */
} tenon_awaited;

#define TENON_WAIT_ASK_MS 10000 /* how often tenon_wait() asks for what it has heard nothing of */

/* Wait until one more of these tasks has ended, whatever its end; those that had before do not
 * count. It is told by PostgreSQL, about a millisecond after the end: nothing polls, but every
 * TENON_WAIT_ASK_MS it asks again.
 *
 * `conn` is in no transaction, and better a connection for this alone: it is left LISTENing on
 * tenon_ended, so that a next call for the others misses nothing. One that leads through a pooler
 * is refused, TENON_MISUSE. One call may wait for thousands of tasks; a process needs no second
 * connection for that.
 *
 *   tasks       `n` of them; who enqueued them may be the role of `conn`, or this one is a reader
 *   timeout_ms  < 0: for ever; 0: look and return
 *   TENON_OK       at least one has ended in this call, or none is left to wait for
 *   TENON_NOT_YET  none has
 *   other          what happened to the connection; TENON_DENIED: another role's task */
TENON_EXPORT int tenon_wait(PGconn *conn, tenon_awaited *tasks, size_t n, int timeout_ms);

/* Why the last call of this thread failed, one line without a line feed; "" after a success. Valid
 * until this thread's next call. */
TENON_EXPORT const char *tenon_errmsg(void);

/* A code in words. Never NULL. */
TENON_EXPORT const char *tenon_strerror(int code);

/* 1 when the same transaction may well succeed if it is run again from its start. */
TENON_EXPORT int tenon_should_retry(int code);

/* "1.0.0": of the library that is loaded. */
TENON_EXPORT const char *tenon_version(void);

#ifdef __cplusplus
}
#endif

#endif
