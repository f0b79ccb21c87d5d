#include "core/base/scan.h"

#include "core/base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What PostgreSQL's numeric holds, in digits before and behind the point, and its exponents. */
enum { WHOLE_MAX = 131072, BEHIND_MAX = 16383, EXPONENT_MAX = 1073741822 };

struct scan {
    const char *at, *end;
    size_t printed, depth;
    bool loose;
    const char *why;
    char closing[SCAN_DEPTH_MAX]; /* the bracket that ends each open one */
};

static void scan_begin(struct scan *s, const char *text, size_t bytes)
{
    bool marked = bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    s->at = text + (marked ? 3 : 0);
    s->end = text + bytes;
    s->printed = s->depth = 0;
    s->loose = false;
    s->why = NULL;
}

static char next(const struct scan *s)
{
    return s->at < s->end ? *s->at : '\0';
}

static bool skip(struct scan *s, const char *word)
{
    size_t bytes = strlen(word);
    bool found = (size_t)(s->end - s->at) >= bytes && memcmp(s->at, word, bytes) == 0;
    s->at += found ? bytes : 0;
    return found;
}

static void skip_space(struct scan *s)
{
    while (s->at < s->end &&
           (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r')) {
        s->at++;
    }
}

static void refuse(struct scan *s, const char *why)
{
    s->why = s->why ? s->why : why;
}

static void refuse_loose(struct scan *s, const char *why)
{
    s->loose = true;
    refuse(s, why);
}

/* --- texts --- */

/* The four digits of an escape; -1 = they are none. */
static int hex4(const char *at, const char *end)
{
    int code = 0;
    for (int i = 0; i < 4; i++, at++) {
        char c = at < end ? *at : '\0';
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        code = code * 16 + digit;
    }
    return code;
}

/* The character of the escape at `*at`, which is moved behind it: 0 for \u0000 and half a pair.
 * -1 = it is none. */
static int read_escape(const char **at, const char *end)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (end - *at < 2) {
        *at = end;
        return -1;
    }
    char c = (*at)[1];
    const char *letter = c ? strchr(letters, c) : NULL;
    *at += 2;
    if (letter) {
        return meant[letter - letters];
    }
    int code = c == 'u' ? hex4(*at, end) : -1;
    if (code < 0) {
        return -1;
    }
    *at += 4;
    if (code < 0xD800 || code > 0xDFFF) {
        return code;
    }
    bool paired = code < 0xDC00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u';
    int low = paired ? hex4(*at + 2, end) : -1;
    if (low < 0xDC00 || low > 0xDFFF) {
        return 0;
    }
    *at += 6;
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
}

static bool text(struct scan *s)
{
    const char *from = s->at++;
    while (s->at < s->end && *s->at != '"') {
        unsigned char c = (unsigned char)*s->at;
        if (c == '\\') {
            int code = read_escape(&s->at, s->end);
            if (code < 0) {
                return false;
            }
            if (code == 0) {
                refuse(s, "a text in it has \\u0000, or half of a surrogate pair");
            }
        } else if (c >= 0x20 && c < 0x80) {
            s->at++;
        } else {
            size_t n = c < 0x20
                           ? 0
                           : text_sequence((const unsigned char *)s->at, (size_t)(s->end - s->at));
            if (n == 0) {
                refuse_loose(s, "a text in it has control characters, or is not UTF-8");
            }
            s->at += n ? n : 1;
        }
    }
    s->printed += (size_t)(s->at - from) + 1;
    return skip(s, "\"");
}

static void put_character(struct buf *b, int code)
{
    unsigned char c[4] = {(unsigned char)code};
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; n > 1 && i-- > 0; code >>= 6) {
        c[i] = (unsigned char)(i > 0 ? 0x80 | (code & 0x3F) : ((0xF00 >> n) & 0xFF) | code);
    }
    buf_put(b, c, n);
}

void scanned_put(const struct scanned *v, struct buf *b)
{
    const char *at = v->text + 1, *end = v->text + v->bytes - 1;
    while (at < end) {
        if (*at == '\\') {
            int code = read_escape(&at, end);
            put_character(b, code > 0 ? code : 0xFFFD);
            continue;
        }
        size_t n = *at ? text_sequence((const unsigned char *)at, (size_t)(end - at)) : 0;
        if (n > 0) {
            buf_put(b, at, n);
        } else {
            put_character(b, 0xFFFD);
        }
        at += n ? n : 1;
    }
}

/* --- numbers --- */

static long digits(struct scan *s)
{
    const char *from = s->at;
    while (next(s) >= '0' && next(s) <= '9') {
        s->at++;
    }
    return (long)(s->at - from);
}

/* False: it has no digits. */
static bool exponent(struct scan *s, long *ret)
{
    bool negative = next(s) == '-';
    s->at += negative || next(s) == '+';
    const char *from = s->at;
    *ret = 0;
    for (long n = digits(s), i = 0; i < n; i++) {
        *ret = *ret <= EXPONENT_MAX ? 10 * *ret + (from[i] - '0') : *ret;
    }
    *ret = negative ? -*ret : *ret;
    return s->at > from;
}

/* PostgreSQL keeps the digits behind the point, zeros too, and moves the point by the exponent.
 *   lead   the place of the first digit that is not 0, in digits before the point */
static void measure(struct scan *s, bool negative, bool zero, long lead, long behind, long power)
{
    long whole = zero ? 0 : lead + power;
    behind = behind > power ? behind - power : 0;
    if (whole > WHOLE_MAX || behind > BEHIND_MAX || labs(power) > EXPONENT_MAX) {
        refuse(s, "a number in it has more digits than a numeric may have");
    }
    s->printed += (size_t)negative + (size_t)(whole > 1 ? whole : 1) +
                  (size_t)(behind > 0 ? 1 + behind : 0);
}

static bool number(struct scan *s)
{
    bool negative = skip(s, "-");
    const char *from = s->at;
    if (negative && skip(s, "Infinity")) {
        refuse_loose(s, "-Infinity is not a number in JSON");
        return true;
    }
    long lead = digits(s), behind = 0, power = 0, zeros = 0;
    if (lead == 0 || (lead > 1 && *from == '0')) {
        return false;
    }
    if (skip(s, ".")) {
        const char *point = s->at;
        behind = digits(s);
        while (zeros < behind && point[zeros] == '0') {
            zeros++;
        }
        if (behind == 0) {
            return false;
        }
    }
    if ((skip(s, "e") || skip(s, "E")) && !exponent(s, &power)) {
        return false;
    }
    bool below = *from == '0';
    measure(s, negative, below && zeros == behind, below ? -zeros : lead, behind, power);
    return true;
}

static bool word(struct scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    static const char *const loose[] = {"NaN", "Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (skip(s, words[i])) {
            s->printed += strlen(words[i]);
            return true;
        }
    }
    for (size_t i = 0; i < sizeof loose / sizeof *loose; i++) {
        if (skip(s, loose[i])) {
            refuse_loose(s, "NaN and Infinity are not numbers in JSON");
            return true;
        }
    }
    return false;
}

/* --- values --- */

/* Behind the brackets that are too many. Nobody keeps what is there. */
static bool skip_deep(struct scan *s)
{
    size_t depth = 0;
    refuse(s, "it is nested more than 5000 deep");
    do {
        char c = next(s);
        depth += c == '[' || c == '{';
        depth -= c == ']' || c == '}';
        if (c == '"' ? !text(s) : s->at == s->end) {
            return false;
        }
        s->at += c != '"';
    } while (depth > 0);
    return true;
}

static bool key(struct scan *s)
{
    skip_space(s);
    if (next(s) != '"' || !text(s)) {
        return false;
    }
    skip_space(s);
    s->printed += 2;
    return skip(s, ":");
}

static bool close_bracket(struct scan *s)
{
    bool closes = s->depth > 0 && next(s) == s->closing[s->depth - 1];
    s->at += closes;
    s->depth -= closes;
    s->printed += closes;
    return closes;
}

/* Begin a value. *ended: it has ended as well. */
static bool begin(struct scan *s, bool *ended)
{
    skip_space(s);
    char c = next(s);
    *ended = true;
    if (c != '{' && c != '[') {
        return c == '"' ? text(s) : c == '-' || (c >= '0' && c <= '9') ? number(s) : word(s);
    }
    if (s->depth == SCAN_DEPTH_MAX) {
        return skip_deep(s);
    }
    s->closing[s->depth++] = c == '{' ? '}' : ']';
    s->at++;
    s->printed++;
    skip_space(s);
    *ended = close_bracket(s);
    return *ended || c == '[' || key(s);
}

/* Behind a value: close what ends there. *ended: all has, else a value follows. */
static bool follow(struct scan *s, bool *ended)
{
    for (*ended = true; s->depth > 0;) {
        skip_space(s);
        if (skip(s, ",")) {
            *ended = false;
            s->printed += 2;
            return s->closing[s->depth - 1] == ']' || key(s);
        }
        if (!close_bracket(s)) {
            return false;
        }
    }
    return true;
}

/* Any value from here on. */
static bool any(struct scan *s, struct scanned *ret)
{
    bool ok = true;
    skip_space(s);
    s->printed = s->depth = 0;
    s->loose = false;
    s->why = NULL;
    const char *from = s->at;
    for (bool ended = false; ok && !ended;) {
        ok = begin(s, &ended) && (!ended || follow(s, &ended));
    }
    *ret = (struct scanned){.text = from,
                            .bytes = (size_t)(s->at - from),
                            .printed = s->printed,
                            .loose = s->loose,
                            .why = s->why};
    return ok;
}

static bool at_end(struct scan *s)
{
    skip_space(s);
    return s->at == s->end;
}

bool scan_value(const char *from, size_t bytes, struct scanned *ret)
{
    struct scan s;
    scan_begin(&s, from, bytes);
    return any(&s, ret) && at_end(&s);
}

/* --- objects --- */

static bool member(struct scan *s, struct scan_member *members, size_t n)
{
    struct scanned name, value;
    skip_space(s);
    name.text = s->at;
    if (next(s) != '"' || !text(s)) {
        return false;
    }
    name.bytes = (size_t)(s->at - name.text);
    skip_space(s);
    if (!skip(s, ":")) {
        return false;
    }
    bool ok = any(s, &value);
    for (size_t i = 0; i < n; i++) {
        if (scanned_is(&name, members[i].key)) {
            members[i].value = value;
            members[i].value.why = ok ? value.why : "it is cut";
            members[i].times++;
        }
    }
    return ok;
}

bool scan_object(const char *from, size_t bytes, struct scan_member *members, size_t n)
{
    struct scan s;
    scan_begin(&s, from, bytes);
    skip_space(&s);
    bool ok = skip(&s, "{");
    skip_space(&s);
    if (ok && skip(&s, "}")) {
        return at_end(&s);
    }
    do {
        ok = ok && member(&s, members, n);
        skip_space(&s);
    } while (ok && skip(&s, ","));
    return ok && skip(&s, "}") && at_end(&s);
}

/* --- what a value is --- */

bool scanned_is_text(const struct scanned *v)
{
    return v->text && v->bytes >= 2 && *v->text == '"';
}

/* With escapes it is longer than what it says. */
bool scanned_is(const struct scanned *v, const char *letters)
{
    struct buf b;
    size_t bytes = strlen(letters);
    if (!scanned_is_text(v) || v->bytes <= bytes + 2) {
        return scanned_is_text(v) && v->bytes == bytes + 2 &&
               memcmp(v->text + 1, letters, bytes) == 0;
    }
    if (!memchr(v->text, '\\', v->bytes)) {
        return false;
    }
    buf_init(&b, 3 * v->bytes);
    scanned_put(v, &b);
    bool same = strcmp(buf_text(&b), letters) == 0;
    buf_clear(&b);
    return same;
}

bool scanned_is_true(const struct scanned *v)
{
    return v->text && v->bytes == 4 && memcmp(v->text, "true", 4) == 0;
}

enum { NUMBER_BYTES = 64 };

/* Longer ones are neither ids nor delays. */
static bool copy_number(const struct scanned *v, char copy[NUMBER_BYTES])
{
    bool is_number = v->text && (*v->text == '-' || (*v->text >= '0' && *v->text <= '9'));
    if (!is_number || v->loose || v->bytes >= NUMBER_BYTES) {
        return false;
    }
    memcpy(copy, v->text, v->bytes);
    copy[v->bytes] = '\0';
    return true;
}

bool scanned_number(const struct scanned *v, double *ret)
{
    char copy[NUMBER_BYTES];
    bool ok = copy_number(v, copy);
    *ret = ok ? strtod(copy, NULL) : 0;
    return ok;
}

bool scanned_id(const struct scanned *v, int64_t *ret)
{
    char copy[NUMBER_BYTES];
    if (!copy_number(v, copy)) {
        return false;
    }
    if (strspn(copy, "0123456789") == v->bytes) {
        errno = 0;
        *ret = strtoll(copy, NULL, 10);
        return errno == 0 && *ret > 0;
    }
    double real = strtod(copy, NULL);
    *ret = real >= 1 && real < 9223372036854775808.0 ? (int64_t)real : 0;
    return *ret > 0 && (double)*ret == real;
}
