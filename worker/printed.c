#include "worker/printed.h"

#include <stdbool.h>

enum { EXPONENT_MAX = 1000000 }; /* PostgreSQL takes none so large */

struct text {
    const char *at, *end;
};

static bool is_next(const struct text *t, const char *any)
{
    for (; t->at < t->end && *any; any++) {
        if (*t->at == *any) {
            return true;
        }
    }
    return false;
}

static long digits(struct text *t)
{
    const char *from = t->at;
    while (is_next(t, "0123456789")) {
        t->at++;
    }
    return (long)(t->at - from);
}

static long exponent(struct text *t)
{
    bool negative = is_next(t, "-");
    long n = 0;
    for (t->at += is_next(t, "+-"); is_next(t, "0123456789"); t->at++) {
        n = n < EXPONENT_MAX ? 10 * n + (*t->at - '0') : n;
    }
    return negative ? -n : n;
}

/* PostgreSQL keeps the digits behind the point, zeros too, and moves the point. */
static size_t number(struct text *t)
{
    bool negative = is_next(t, "-");
    t->at += negative;
    long before = digits(t), behind = 0, power = 0;
    if (is_next(t, ".")) {
        t->at++;
        behind = digits(t);
    }
    if (is_next(t, "eE")) {
        t->at++;
        power = exponent(t);
    }
    before = before + power > 1 ? before + power : 1;
    behind = behind > power ? behind - power : 0;
    return (size_t)negative + (size_t)before + (behind > 0 ? 1 + (size_t)behind : 0);
}

static size_t string(struct text *t)
{
    const char *from = t->at++;
    while (t->at < t->end && *t->at != '"') {
        t->at += *t->at == '\\' && t->at + 1 < t->end ? 2 : 1;
    }
    t->at += t->at < t->end;
    return (size_t)(t->at - from);
}

size_t printed_bytes(const char *json, size_t bytes)
{
    struct text t = {json, json + bytes};
    size_t n = 0;
    while (t.at < t.end) {
        if (*t.at == '"') {
            n += string(&t);
        } else if (is_next(&t, "-0123456789")) {
            n += number(&t);
        } else {
            n += is_next(&t, ",:") ? 2 : !is_next(&t, " \t\r\n"); /* it puts a space behind those */
            t.at++;
        }
    }
    return n;
}
