/* Reads JSON that somebody else wrote: in one pass, without a tree, recursion or rounding. It tells
 * whether a text is JSON (RFC 8259), where its parts are, and whether PostgreSQL can store them
 * as jsonb. */
#ifndef TENON_CORE_SCAN_H
#define TENON_CORE_SCAN_H

#include "core/base/buf.h"

/* PostgreSQL's own limit is its stack: 2 MB of it hold some 13,000. */
enum { SCAN_DEPTH_MAX = 5000 };

/* A JSON value within a longer text; the white space around it is not included. */
struct scanned {
    const char *text; /* NULL = there is none */
    size_t bytes;
    size_t printed;  /* bytes as PostgreSQL prints it, at most: [1e-16383] has 16 KB */
    bool loose;      /* JSON except for NaN, Infinity, -Infinity, and controls or bytes that are not
                        UTF-8 in a text */
    const char *why; /* PostgreSQL cannot store it; NULL = it can */
};

/* The whole text as one value; a byte order mark before it is skipped. False: it is no JSON. */
MUST_CHECK bool scan_value(const char *text, size_t bytes, struct scanned *ret);

struct scan_member {
    const char *key;
    struct scanned value; /* the last of that key, as jsonb has it */
    int times;            /* the key is there */
};

/* The text as one object, of which `members` are looked up by their keys.
 *   false   it is not JSON; what comes before its first mistake, or its end, is set nevertheless;
 *           of a member that is cut there PostgreSQL can store nothing */
MUST_CHECK bool scan_object(const char *text, size_t bytes, struct scan_member *members, size_t n);

bool scanned_is_text(const struct scanned *v);                 /* and so on; of no value: false */
bool scanned_is(const struct scanned *v, const char *letters); /* it is a text, and this one */
bool scanned_is_true(const struct scanned *v);
bool scanned_number(const struct scanned *v, double *ret);
/* A whole number from 1 on, however it is written. */
bool scanned_id(const struct scanned *v, int64_t *ret);

/* Put the characters of a text: U+FFFD for what PostgreSQL cannot store. */
void scanned_put(const struct scanned *v, struct buf *b);

#endif
