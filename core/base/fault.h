/* A fault: what failed, on what, and what kind of trouble it is.
 *
 * Every function that can fail takes a `struct fault *` and returns false. The first fault wins;
 * callers put what they were doing in front: "could not claim tasks: server closed the connection".
 * Libraries return faults, programs log them, once. */
#ifndef TENON_CORE_FAULT_H
#define TENON_CORE_FAULT_H

#include <stdbool.h>
#include <stddef.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

enum fault_code {
    FAULT_NONE,
    FAULT_RETRY,   /* a server could not be reached or the outcome is unknown: try again later */
    FAULT_AGAIN,   /* the statement met a lock, a deadlock or a timeout: repeat it */
    FAULT_ROW,     /* one value in a batch is bad (SQLSTATE classes 22, 23 and 54) */
    FAULT_REFUSED, /* the caller gave something that is not allowed */
    FAULT_CONFIG,  /* an option, a file or a permission is wrong: a person must act */
    FAULT_ABSENT,  /* what was asked for is not there */
    FAULT_SCHEMA,  /* the database's schema is newer than this program */
    FAULT_BUG,     /* the server refused a statement of ours */
    FAULT_MEMORY,  /* no memory */
};

enum { FAULT_TEXT_BYTES_MAX = 1024 };

struct fault {
    enum fault_code code;
    char sqlstate[6]; /* five letters when PostgreSQL reported it, else "" */
    char text[FAULT_TEXT_BYTES_MAX];
};

/* Set `f` unless it holds a fault already. The text becomes one line without control characters.
 * Always returns false, so that a caller can return it. */
bool fault_set(struct fault *f, enum fault_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Put "what was being done: " in front of a fault that is set. Always returns false. */
bool fault_add(struct fault *f, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* FAULT_MEMORY with a fixed text. Always returns false. */
bool fault_memory(struct fault *f);

void fault_clear(struct fault *f);

/* May the same succeed a little later, without anybody's help? FAULT_RETRY and FAULT_AGAIN. */
bool fault_passes(const struct fault *f);

/* The word for a code, as logs write it: "retry", "config", ... Never NULL. */
const char *fault_word(enum fault_code code);

/* The exit code a program ends with after this fault: 1 failure, 2 usage or configuration,
 * 3 the schema is newer than the program (docs/cli.md). */
int fault_exit_code(const struct fault *f);

#endif
