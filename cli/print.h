/* What the commands print on stdout, for people and as JSON.
 *
 * Texts come from applications; control characters, and those that turn the direction of writing,
 * are shown as \xNN and \u20NN, so that nothing can speak to the terminal. */
#ifndef TENON_CLI_PRINT_H
#define TENON_CLI_PRINT_H

#include "core/base/buf.h"

#include <stdio.h>

struct rows; /* core/db/db.h */

enum { PRINT_BYTES_MAX = 16 << 20, TABLE_COLUMNS_MAX = 12 };

/* Put a UTF-8 text so that it is harmless on a terminal and stays on one line. */
void put_safe(struct buf *b, const char *text);

/* "key            text" and a line's end; nothing when the text is NULL or "". */
void print_pair(const char *key, const char *text);

/* What an act answered: one row, a sentence and JSON; NULL = there is no such thing. And free it.
 * ret: is there? */
bool print_act(struct rows *rows, bool json);

/* What is shown of one thing: pairs from the second row on, and in the first one JSON, as the text.
 * And free it. ret: is there any row? */
bool print_shown(struct rows *rows, bool json);

/* Rows in columns that are as wide as they must be. */
struct table {
    const char *const *heads; /* a head that begins with '>' is aligned right, like its cells */
    size_t columns;
    struct buf cells; /* harmless texts, each with its NUL */
    size_t n_cells;
};

void table_init(struct table *t, const char *const *heads, size_t columns);
void table_put(struct table *t, const char *text); /* the next cell; NULL = "" */
void table_put_printf(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* And free what it holds. false: MEMORY */
MUST_CHECK bool table_print(struct table *t, struct fault *f);

#endif
