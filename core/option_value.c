#include "core/option_value.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUE_BYTES_MAX = 63, KIND_BYTES_MAX = 100, NUMBER_DIGITS_MAX = 15 };

static const struct {
    const char *unit;
    int64_t ms;
} duration_units[] = {{"d", 86400000}, {"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}};
enum { DURATION_UNITS = sizeof duration_units / sizeof *duration_units };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A whole number at the start of `text`; returns what follows it, or NULL. So few digits cannot
 * overflow. */
static const char *number_parse(const char *text, int64_t *ret)
{
    bool negative = *text == '-';
    const char *digits = text + negative;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > NUMBER_DIGITS_MAX) {
        return NULL;
    }
    *ret = 0;
    for (size_t i = 0; i < n; i++) {
        *ret = *ret * 10 + (digits[i] - '0');
    }
    *ret = negative ? -*ret : *ret;
    return digits + n;
}

bool duration_parse(const char *text, int64_t *ret_ms)
{
    int64_t n;
    const char *unit = number_parse(text, &n);
    for (size_t i = 0; unit && n >= 0 && i < DURATION_UNITS; i++) {
        if (strcmp(unit, duration_units[i].unit) == 0) {
            return !__builtin_mul_overflow(n, duration_units[i].ms, ret_ms);
        }
    }
    return false;
}

/* Milliseconds in the largest unit that shows them exactly: "25s", "30d", "0s". */
static void duration_text(int64_t ms, char *text, size_t size)
{
    size_t i = ms == 0 ? DURATION_UNITS - 2 : 0;
    while (ms % duration_units[i].ms != 0) {
        i++;
    }
    (void)snprintf(text, size, "%" PRId64 "%s", ms / duration_units[i].ms, duration_units[i].unit);
}

static bool flag_parse(const char *text, int64_t *ret)
{
    static const char *const words[][2] = {{"no", "yes"},
                                           {"false", "true"},
                                           {"off", "on"},
                                           {"0", "1"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        for (int value = 0; value <= 1; value++) {
            if (strcmp(text, words[i][value]) == 0) {
                *ret = value;
                return true;
            }
        }
    }
    return false;
}

static bool choice_holds(const char *choices, const char *text)
{
    size_t len = strlen(text);
    for (const char *at = choices; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (n == len && memcmp(at, text, n) == 0) {
            return true;
        }
        at += n;
    }
    return false;
}

static bool int_parse(const struct option_row *row, const char *text, int64_t *ret)
{
    if (row->def && strcmp(row->def, "auto") == 0 && strcmp(text, "auto") == 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        *ret = n < row->min ? row->min : n > row->max ? row->max : n;
        return true;
    }
    const char *end = number_parse(text, ret);
    return end && !*end && *ret >= row->min && *ret <= row->max;
}

static bool value_parse(const struct option_row *row, const char *text, int64_t *ret)
{
    *ret = 0;
    switch (row->type) {
    case OPTION_TYPE_INT:
        return int_parse(row, text, ret);
    case OPTION_TYPE_DURATION:
        return duration_parse(text, ret) && *ret >= row->min && *ret <= row->max;
    case OPTION_TYPE_FLAG:
        return flag_parse(text, ret);
    case OPTION_TYPE_CHOICE:
        return choice_holds(row->choices, text);
    case OPTION_TYPE_TEXT:
    case OPTION_TYPE_LIST:
    case OPTION_TYPE_EACH:
        return *text && (!row->fits || row->fits(text));
    }
    return false;
}

static void allowed_text(const struct option_row *row, char *text)
{
    bool many = row->type == OPTION_TYPE_LIST;
    (void)snprintf(text, OPTION_ALLOWED_BYTES, "%s%s",
                   many ? "names separated by commas, each " : "",
                   row->allowed ? row->allowed : "any text but an empty one");
}

static void allowed_range(const struct option_row *row, char *text)
{
    if (row->type == OPTION_TYPE_DURATION) {
        char min[32];
        char max[32];
        duration_text(row->min, min, sizeof min);
        duration_text(row->max, max, sizeof max);
        (void)snprintf(text, OPTION_ALLOWED_BYTES, "a time from %s to %s, in ms, s, min, h or d",
                       min, max);
        return;
    }
    bool can_be_auto = row->def && strcmp(row->def, "auto") == 0;
    (void)snprintf(text, OPTION_ALLOWED_BYTES,
                   "a whole number from %" PRId64 " to %" PRId64 "%s%s%s%s", row->min, row->max,
                   row->unit ? " (" : "", row->unit ? row->unit : "", row->unit ? ")" : "",
                   can_be_auto ? ", or auto: the number of processors" : "");
}

void option_value_allowed(const struct option_row *row, char text[OPTION_ALLOWED_BYTES])
{
    switch (row->type) {
    case OPTION_TYPE_INT:
    case OPTION_TYPE_DURATION:
        allowed_range(row, text);
        return;
    case OPTION_TYPE_FLAG:
        (void)snprintf(text, OPTION_ALLOWED_BYTES, "yes or no");
        return;
    case OPTION_TYPE_CHOICE:
        (void)snprintf(text, OPTION_ALLOWED_BYTES, "one of %s", row->choices);
        return;
    case OPTION_TYPE_TEXT:
    case OPTION_TYPE_LIST:
    case OPTION_TYPE_EACH:
        allowed_text(row, text);
        return;
    }
}

/* What people write when they mean a duration and we would have to guess. */
static const char *duration_hint(const char *text)
{
    int64_t n;
    const char *unit = number_parse(text, &n);
    if (unit && !*unit) {
        return "; a number alone has no unit";
    }
    if (unit && strcmp(unit, "m") == 0) {
        return "; m could be minutes or milliseconds";
    }
    return "";
}

bool option_value_check(const struct option_row *row, const char *where, const char *text,
                        int64_t *ret, struct fault *f)
{
    char allowed[OPTION_ALLOWED_BYTES];
    if (value_parse(row, text, ret)) {
        return true;
    }
    option_value_allowed(row, allowed);
    if (row->secret) {
        return fault_set(f, FAULT_CONFIG, "the value of %s is not allowed: it is %s", where,
                         allowed);
    }
    return fault_set(f, FAULT_CONFIG, "%s \"%.100s\" is not allowed: it is %s%s", where, text,
                     allowed, row->type == OPTION_TYPE_DURATION ? duration_hint(text) : "");
}

static bool is_queue_char(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || (c && strchr("_.-", c));
}

bool fits_queue(const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        if (!is_queue_char(text[i])) {
            return false;
        }
    }
    return len >= 1 && len <= QUEUE_BYTES_MAX && text[0] != '.' && text[0] != '-';
}

static bool is_kind(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x80 || (!isalnum(c) && !strchr("_.:-", c))) {
            return false;
        }
    }
    return len >= 1 && len <= KIND_BYTES_MAX;
}

bool fits_kind(const char *text)
{
    return is_kind(text, strlen(text));
}

bool fits_handler(const char *text)
{
    const char *equals = strchr(text, '=');
    return equals && is_kind(text, (size_t)(equals - text)) && equals[1];
}

bool fits_amqp_url(const char *text)
{
    return strcmp(text, "none") == 0 || strncmp(text, "amqp://", 7) == 0 ||
           strncmp(text, "amqps://", 8) == 0;
}

/* https://www.w3.org/TR/trace-context/#traceparent-header: 2, 32, 16 and 2 hexadecimal digits */
bool fits_trace(const char *text)
{
    static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    if (strlen(text) != sizeof form - 1) {
        return false;
    }
    for (size_t i = 0; form[i]; i++) {
        bool is_hex = is_digit(text[i]) || (text[i] >= 'a' && text[i] <= 'f');
        if (form[i] == 'x' ? !is_hex : text[i] != '-') {
            return false;
        }
    }
    return true;
}
