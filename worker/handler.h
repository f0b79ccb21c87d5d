/* Which program runs a kind of task: from the handlers file or from --handler KIND=COMMAND. */
#ifndef TENON_WORKER_HANDLER_H
#define TENON_WORKER_HANDLER_H

#include "core/options/option.h"
#include "worker/isolation.h"

#include <stddef.h>

enum {
    HANDLER_KINDS_MAX = 100, /* kinds of one handler */
    HANDLER_WORDS_MAX = 100, /* words of its command */
};

struct handler {
    char *kinds;        /* "mail" or "mail,sms"; of the handler "*", once they are known */
    char *named;        /* those that the first child of "*" named, see kinds.h; NULL = not yet */
    bool any;           /* it is "*", for all kinds that no other handler has */
    bool pool;          /* a long-lived child that speaks JSON lines; else one process per task */
    char **argv;        /* ends with NULL */
    char **pass_env;    /* variables that it gets all the same; ends with NULL */
    char **only_env;    /* those that it gets besides, and no others; empty = all */
    char **environment; /* all that it gets, without the task's; ends with NULL */
    char *directory;    /* where it runs; NULL = where the worker does */
    int in_flight;      /* tasks a pool child may have at once; 0 = as its hello says */
    int chunk_size;     /* tasks it gets together, in one go; 0 = one by one */
    int64_t chunk_wait_ms;  /* how long the first of them waits for the others */
    int64_t start_limit_ms; /* how long a pool child may take to say hello */
    struct isolation isolation;
    int64_t tasks_max;   /* pool: after this many answers a child is replaced; 0 = never */
    int64_t rss_mib_max; /* and when it holds more memory than this */
    bool own_stderr;     /* it writes to the worker's stderr; else the last of it is kept, */
    bool log_stderr;     /* and each line is an event of the worker's log */
};

struct handler_kind {
    char *name;
    int handler;
};

struct handlers {
    struct handler *items;
    int n;
    struct handler_kind *kinds; /* of all of them, by handler */
    size_t n_kinds;
};

/* What a worker serves. */
struct served {
    struct handlers handlers;
    const char **queues;
    size_t n_queues;
};

/* All handlers that the options name.
 *   false   CONFIG: none, a file that cannot be read (file and line), a kind twice, a bad name */
MUST_CHECK bool handlers_load(const struct options *o, struct handlers *ret, struct fault *f);
void handlers_clear(struct handlers *h);

/* The handler of a kind, or -1; the handler "*", or -1. */
int handlers_find(const struct handlers *h, const char *kind);
int handlers_any(const struct handlers *h);

/* The handler "*" has these kinds (kinds.h), except those of other handlers.
 *   false   CONFIG: none is left */
MUST_CHECK bool handlers_name(struct handlers *all, int any, const char *kinds, struct fault *f);

#endif
