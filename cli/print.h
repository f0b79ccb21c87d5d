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

/* How many columns there are for a line: of the variable COLUMNS, else of the terminal; 0 = it does
 * not matter, as nobody reads it there. */
int print_width(void);

/* A text and a line's end. Where the width matters, it is broken between words, and where the text
 * has line ends; each further line begins after `indent` blanks.
 *   column   how much of the first line has been printed */
void print_wrapped(int column, int indent, const char *text);

/* "key            text" and a line's end; nothing when the text is NULL or "". */
void print_pair(const char *key, const char *text);

/* What an act answered: one row, a sentence and JSON; NULL = there is no such thing. And free it.
 * ret: is there? */
bool print_act(struct rows *rows, bool json);

/* What is shown of one thing: pairs from the second row on, and in the first one JSON, as the text.
 * And free it. ret: is there any row? */
bool print_shown(struct rows *rows, bool json);

/* Rows in columns that are as wide as they must be. Where that is wider than print_width(), the
 * columns that may be cut are, the widest first.
 *   heads   one that begins with '>' is aligned right, like its cells; with '<', it may be cut; the
 *           last may begin with '^': in a table that is too wide it is a line below its row */
struct table {
    const char *const *heads;
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
