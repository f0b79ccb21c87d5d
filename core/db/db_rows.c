#include "core/db/db.h"

#include <libpq-fe.h>
#include <stdlib.h>

/* rows are a PGresult under another name, so that libpq's type stays out of db.h */
static PGresult *result_of(const struct rows *rows)
{
    return (PGresult *)(uintptr_t)rows;
}

size_t rows_count(const struct rows *rows)
{
    return (size_t)PQntuples(result_of(rows));
}

int rows_columns(const struct rows *rows)
{
    return PQnfields(result_of(rows));
}

bool rows_is_null(const struct rows *rows, size_t row, int column)
{
    return PQgetisnull(result_of(rows), (int)row, column) == 1;
}

const char *rows_text(const struct rows *rows, size_t row, int column)
{
    return rows_is_null(rows, row, column) ? NULL : PQgetvalue(result_of(rows), (int)row, column);
}

size_t rows_bytes(const struct rows *rows, size_t row, int column)
{
    return (size_t)PQgetlength(result_of(rows), (int)row, column);
}

/* A claim is nine of them; strtoll(), which asks for the locale, costs a drain 2.5 %. */
int64_t rows_int(const struct rows *rows, size_t row, int column)
{
    const char *at = PQgetvalue(result_of(rows), (int)row, column);
    bool negative = *at == '-';
    uint64_t n = 0;
    for (at += negative; *at >= '0' && *at <= '9'; at++) {
        n = n * 10 + (uint64_t)(*at - '0');
    }
    return (int64_t)(negative ? 0 - n : n);
}

bool rows_bool(const struct rows *rows, size_t row, int column)
{
    return *PQgetvalue(result_of(rows), (int)row, column) == 't';
}

void rows_free(struct rows *rows)
{
    PQclear(result_of(rows));
}
