#include "cli/print.h"

#include "core/base/text.h"
#include "core/db/db.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    PAIR_COLUMNS = 14,
    BELOW_COLUMNS = 4, /* the indent of lines below a row */
    CELL_BYTES_MAX = 256,
    WIDTH_MIN = 20, /* of a terminal; what is less is no width */
    WIDTH_MAX = 10000,
    WORD_MIN = 10, /* room for words, however far the line is indented */
    CUT_MIN = 6,   /* of a column that is cut */
};

void put_safe(struct buf *b, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        size_t n = text_sequence(s, strnlen((const char *)s, 4));
        unsigned point = text_unshown(s, n);
        if (*s == '\n') {
            buf_put_text(b, "\\n");
        } else if (*s < 0x20 || *s == 0x7F) {
            buf_printf(b, "\\x%02x", *s);
        } else if (point) {
            buf_printf(b, "\\u%04x", point);
            s += n - 1;
        } else {
            buf_put_char(b, (char)*s);
        }
    }
}

/* Characters, as far as a terminal is concerned: bytes that begin one. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++) {
        n += (*text & 0xC0) != 0x80;
    }
    return n;
}

/* The bytes of the first `n` characters, or of all. */
static size_t bytes_of(const char *text, int n)
{
    size_t i = 0;
    for (; text[i] && (n > 0 || (text[i] & 0xC0) == 0x80); i++) {
        n -= (text[i] & 0xC0) != 0x80;
    }
    return i;
}

int print_width(void)
{
    struct winsize size;
    const char *given = getenv("COLUMNS");
    long n = given ? strtol(given, NULL, 10) : 0;
    if (n >= WIDTH_MIN && n <= WIDTH_MAX) {
        return (int)n;
    }
    bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return known && size.ws_col >= WIDTH_MIN ? size.ws_col : 0;
}

/* How much of `text` goes into a line with room for `n` characters: up to its last blank, or all
 * that there is room for. */
static size_t line_bytes(const char *text, int n)
{
    size_t all = bytes_of(text, n), cut = all;
    if (!text[all]) {
        return all;
    }
    while (cut > 0 && text[cut] != ' ') {
        cut--;
    }
    return cut > 0 ? cut : all;
}

/* Harmless, and without a line's end inside. */
static void print_words(int column, int indent, int width, const char *text)
{
    while (*text) {
        size_t n = line_bytes(text, width - column);
        const char *rest = text + n + strspn(text + n, " ");
        (void)printf("%.*s", (int)n, text);
        text = rest;
        column = indent;
        if (*text) {
            (void)printf("\n%*s", indent, "");
        }
    }
}

void print_wrapped(int column, int indent, const char *text)
{
    int width = print_width();
    struct buf safe;
    for (const char *at = text; at;) {
        const char *end = width > 0 ? strchr(at, '\n') : NULL;
        char *line = end ? strndup(at, (size_t)(end - at)) : NULL;
        buf_init(&safe, PRINT_BYTES_MAX);
        put_safe(&safe, line ? line : at);
        if (width > 0) {
            print_words(column, indent, width > indent + WORD_MIN ? width : indent + WORD_MIN,
                        buf_text(&safe));
        } else {
            (void)fputs(buf_text(&safe), stdout);
        }
        buf_clear(&safe);
        free(line);
        column = indent;
        at = line ? end + 1 : NULL;
        if (at) {
            (void)printf("\n%*s", indent, "");
        }
    }
    (void)putchar('\n');
}

void print_pair(const char *key, const char *text)
{
    if (text && *text) {
        int n = printf("%-*s ", PAIR_COLUMNS, key);
        print_wrapped(n, PAIR_COLUMNS + 1, text);
    }
}

bool print_act(struct rows *rows, bool json)
{
    bool there = !rows_is_null(rows, 0, 0);
    if (there) {
        (void)puts(rows_text(rows, 0, json));
    }
    rows_free(rows);
    return there;
}

bool print_shown(struct rows *rows, bool json)
{
    bool there = rows_count(rows) > 0;
    for (size_t i = 1; i < rows_count(rows) && !json; i++) {
        print_pair(rows_text(rows, i, 0), rows_text(rows, i, 1));
    }
    if (there && json) {
        (void)puts(rows_text(rows, 0, 1));
    }
    rows_free(rows);
    return there;
}

void table_init(struct table *t, const char *const *heads, size_t columns)
{
    assert(columns <= TABLE_COLUMNS_MAX);
    *t = (struct table){.heads = heads, .columns = columns};
    buf_init(&t->cells, PRINT_BYTES_MAX);
    for (size_t i = 0; i < columns; i++) {
        table_put(t, heads[i] + (*heads[i] && strchr("<>^", *heads[i])));
    }
}

void table_put(struct table *t, const char *text)
{
    put_safe(&t->cells, text ? text : "");
    buf_put_char(&t->cells, '\0');
    t->n_cells++;
}

void table_put_printf(struct table *t, const char *fmt, ...)
{
    char text[CELL_BYTES_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    table_put(t, text);
}

static void table_widths(const struct table *t, int widths[TABLE_COLUMNS_MAX])
{
    const char *cell = buf_text(&t->cells);
    for (size_t i = 0; i < t->n_cells; i++) {
        int width = width_of(cell);
        int *widest = &widths[i % t->columns];
        *widest = width > *widest ? width : *widest;
        cell += strlen(cell) + 1;
    }
}

static bool is_cuttable(const char *head)
{
    return *head == '<';
}

/* The widths of these columns and of what is between them. */
static int width_of_row(const int *widths, size_t columns)
{
    int all = 2 * ((int)columns - 1);
    for (size_t i = 0; i < columns; i++) {
        all += widths[i];
    }
    return all;
}

/* Make the widest of the columns that may be cut narrower until the row fits, or none may. */
static void table_shrink(const struct table *t, int *widths, size_t columns, int width)
{
    int *widest;
    do {
        widest = NULL;
        for (size_t i = 0; i < columns; i++) {
            if (is_cuttable(t->heads[i]) && widths[i] > CUT_MIN &&
                (!widest || widths[i] > *widest)) {
                widest = &widths[i];
            }
        }
        if (widest && width_of_row(widths, columns) > width) {
            *widest -= 1;
        } else {
            widest = NULL;
        }
    } while (widest);
}

static void print_cell(const char *cell, int width, bool right, bool last)
{
    int own = width_of(cell), pad = width - own;
    if (own > width) {
        (void)printf("%.*s...%s", (int)bytes_of(cell, width - 3), cell, last ? "" : "  ");
    } else {
        (void)printf("%*s%s%*s", right ? pad : 0, "", cell, last ? 0 : (right ? 0 : pad) + 2, "");
    }
}

/* Below its row, where the table is too wide; the head of the column is left out. */
static void print_below(const char *cell, size_t row, int width)
{
    if (row > 0 && *cell) {
        (void)printf("%*s", BELOW_COLUMNS, "");
        print_cell(cell, width - BELOW_COLUMNS, false, true);
        (void)putchar('\n');
    }
}

bool table_print(struct table *t, struct fault *f)
{
    int widths[TABLE_COLUMNS_MAX] = {0}, width = print_width();
    bool ok = !t->cells.failed || fault_memory(f);
    t->n_cells = ok ? t->n_cells : 0;
    table_widths(t, widths);
    bool below = width > 0 && *t->heads[t->columns - 1] == '^' &&
                 width_of_row(widths, t->columns) > width;
    size_t columns = t->columns - below;
    if (width > 0) {
        table_shrink(t, widths, columns, width);
    }
    const char *cell = buf_text(&t->cells);
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t column = i % t->columns;
        if (column >= columns) {
            print_below(cell, i / t->columns, width);
        } else {
            print_cell(cell, widths[column], *t->heads[column] == '>', column + 1 == columns);
        }
        if (column + 1 == columns) {
            (void)putchar('\n');
        }
        cell += strlen(cell) + 1;
    }
    buf_clear(&t->cells);
    return ok;
}
