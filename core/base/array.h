/* PostgreSQL array literals in text form, {1,2,NULL,"a \"b\""}, built element by element. */
#ifndef TENON_CORE_ARRAY_H
#define TENON_CORE_ARRAY_H

#include "core/base/buf.h"

/* Start over with an empty array. The buffer keeps its memory. */
void array_begin(struct buf *b);
void array_put_int(struct buf *b, int64_t n);
/* An element of any type in its text form; NULL is SQL's NULL. */
void array_put_text(struct buf *b, const char *text);
/* Close the array and return the literal, or NULL when it did not fit (`b->failed`). */
const char *array_end(struct buf *b);

#endif
