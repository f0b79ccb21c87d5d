/* A TCP proxy that fails as networks do, a process of its own in front of one server. What is said
 * here holds within a few milliseconds. Open it after the fixture; it ends with the test. */
#ifndef TENON_TESTS_SUPPORT_PROXY_H
#define TENON_TESTS_SUPPORT_PROXY_H

#include "tests/support/test.h"

#include <sys/types.h>

enum proxy_way { PROXY_TO_SERVER, PROXY_TO_CLIENT };

enum proxy_door {
    PROXY_SERVES,
    PROXY_SILENT, /* takes connections and never says a word */
    PROXY_RESETS, /* takes them and resets them at once */
};

enum proxy_break {
    PROXY_CLOSE,     /* both sides see an end */
    PROXY_RESET,     /* both sides see a reset */
    PROXY_HALF_OPEN, /* the server sees an end, the client sees nothing any more */
    PROXY_LIMIT,     /* nothing yet: for proxy_cut_after() */
};

struct proxy_rules;

struct proxy {
    char url[512]; /* the server's URL, by way of the proxy */
    pid_t pid;
    struct proxy_rules *rules;
};

/* Listen in front of the server that `url` names (a URL with user, host and port). */
void proxy_open(struct proxy *p, const char *url);
void proxy_close(struct proxy *p);

/* What connections meet from now on. */
void proxy_door(struct proxy *p, enum proxy_door door);

/* The next `n` connections are each closed after so many bytes of that way; later ones are not. */
void proxy_cut_next(struct proxy *p, enum proxy_way way, int64_t bytes, int n);

/* Each connection there is now is closed after so many bytes more of that way. */
void proxy_cut_after(struct proxy *p, enum proxy_way way, int64_t bytes);

/* The next `n` connections, but they stay open and pass nothing on any more, either way. */
void proxy_hang_next(struct proxy *p, enum proxy_way way, int64_t bytes, int n);

/* All connections, also later ones: pass nothing on; pass on so many bytes a second, 0 = all. */
void proxy_stall(struct proxy *p, enum proxy_way way, bool stalled);
void proxy_throttle(struct proxy *p, enum proxy_way way, int bytes_per_s);

/* All connections, also later ones: `skip` bytes behind `mark` stands `text`, whatever the sender
 * wrote there. For what is sent in one piece. Strings, each shorter than 32 bytes. */
void proxy_overwrite(struct proxy *p, enum proxy_way way, const char *mark, size_t skip,
                     const char *text);

/* Break every connection there is; returns when it is done. */
void proxy_break(struct proxy *p, enum proxy_break how);

/* Connections so far, those that were cut or hang, and bytes of that way over all connections. */
int proxy_accepted(const struct proxy *p);
int proxy_cut(const struct proxy *p);
int64_t proxy_bytes(const struct proxy *p, enum proxy_way way);

#endif
