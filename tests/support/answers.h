/* tests/answers.json: what becomes of what handlers answer, by whichever way. */
#ifndef TENON_TESTS_SUPPORT_ANSWERS_H
#define TENON_TESTS_SUPPORT_ANSWERS_H

#include "tests/support/test.h"

#include <jansson.h>

json_t *answers_read(const char *part); /* "results", "lines" or "said"; json_decref() */

/* The pieces of a text put together, with `id` for $ID; free(). */
char *answers_text(const json_t *pieces, int64_t id);

const char *answers_word(const json_t *answer, const char *key); /* NULL = it has none */

#endif
