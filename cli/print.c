#include "cli/print.h"

#include "core/base/text.h"
#include "core/db/db.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { PAIR_COLUMNS = 14, CELL_BYTES_MAX = 256 };

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

void print_pair(const char *key, const char *text)
{
    struct buf safe;
    if (!text || !*text) {
        return;
    }
    buf_init(&safe, PRINT_BYTES_MAX);
    put_safe(&safe, text);
    (void)printf("%-*s %s\n", PAIR_COLUMNS, key, buf_text(&safe));
    buf_clear(&safe);
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
        table_put(t, heads[i] + (*heads[i] == '>'));
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

/* Characters, as far as a terminal is concerned: bytes that begin one. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++) {
        n += (*text & 0xC0) != 0x80;
    }
    return n;
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

bool table_print(struct table *t, struct fault *f)
{
    int widths[TABLE_COLUMNS_MAX] = {0};
    bool ok = !t->cells.failed || fault_memory(f);
    t->n_cells = ok ? t->n_cells : 0;
    table_widths(t, widths);
    const char *cell = buf_text(&t->cells);
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t column = i % t->columns;
        bool last = column + 1 == t->columns;
        int pad = widths[column] - width_of(cell);
        bool right = *t->heads[column] == '>';
        (void)printf("%*s%s%*s%s", right ? pad : 0, "", cell, right || last ? 0 : pad, "",
                     last ? "\n" : "  ");
        cell += strlen(cell) + 1;
    }
    buf_clear(&t->cells);
    return ok;
}
