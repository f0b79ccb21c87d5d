#include "core/options/option_value.h"

#include "core/base/network.h"
#include "core/base/processors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define CAPITALS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

enum {
    QUEUE_BYTES_MAX = 63,
    KIND_BYTES_MAX = 100,
    NUMBER_DIGITS_MAX = 18,
    DURATION_DIGITS_MAX = 15
};

static const struct {
    const char *unit;
    int64_t ms;
} duration_units[] = {{"d", 86400000}, {"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}};
enum { DURATION_UNITS = sizeof duration_units / sizeof *duration_units };

/* A whole number at the start of `text`; returns what follows it, or NULL. So few digits cannot
 * overflow. */
static const char *number_parse(const char *text, int64_t *ret)
{
    bool negative = *text == '-';
    const char *digits = text + negative;
    size_t n = strspn(digits, DIGITS);
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
    bool fits = strspn(text, DIGITS) <= DURATION_DIGITS_MAX;
    const char *unit = fits ? number_parse(text, &n) : NULL;
    if (unit && *unit == ' ') { /* as in SQL: '1 h' */
        unit++;
    }
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
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret = i % 2;
            return true;
        }
    }
    return false;
}

static bool choice_parse(const char *choices, const char *text, int64_t *ret)
{
    size_t bytes = strlen(text);
    for (const char *at = choices; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (n == bytes && memcmp(at, text, n) == 0) {
            return true;
        }
        at += n;
        ++*ret;
    }
    return false;
}

static bool can_be_auto(const struct option_row *row)
{
    return row->def && strcmp(row->def, "auto") == 0;
}

static bool int_parse(const struct option_row *row, const char *text, int64_t *ret)
{
    if (can_be_auto(row) && strcmp(text, "auto") == 0) {
        int n = processors();
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
        return choice_parse(row->choices, text, ret);
    case OPTION_TYPE_TEXT:
    case OPTION_TYPE_LIST:
    case OPTION_TYPE_EACH:
        return *text && (!row->fits || row->fits(text));
    }
    return false;
}

void option_value_allowed(const struct option_row *row, char text[OPTION_ALLOWED_BYTES])
{
    char min[32], max[32];
    switch (row->type) {
    case OPTION_TYPE_INT:
        (void)snprintf(text, OPTION_ALLOWED_BYTES,
                       "a whole number from %" PRId64 " to %" PRId64 "%s", row->min, row->max,
                       can_be_auto(row) ? ", or auto: the number of processors it may use" : "");
        return;
    case OPTION_TYPE_DURATION:
        duration_text(row->min, min, sizeof min);
        duration_text(row->max, max, sizeof max);
        (void)snprintf(text, OPTION_ALLOWED_BYTES,
                       "a time from %s to %s, in ms, s, min, h or d, "
                       "such as 1h",
                       min, max);
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
        (void)snprintf(text, OPTION_ALLOWED_BYTES, "%s%s",
                       row->type == OPTION_TYPE_LIST ? "names separated by commas, each " : "",
                       row->allowed ? row->allowed : "any text except an empty one");
        return;
    }
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
        return fault_set(f, FAULT_CONFIG, "the value of %s is not allowed: it must be %s", where,
                         allowed);
    }
    return fault_set(f, FAULT_CONFIG, "%s \"%.100s\" is not allowed: it must be %s", where, text,
                     allowed);
}

bool fits_queue(const char *text)
{
    size_t bytes = strspn(text, LETTERS DIGITS "_.-");
    return bytes >= 1 && bytes <= QUEUE_BYTES_MAX && !text[bytes] && !strchr(".-", *text);
}

/* The bytes of a kind at the start of a text; 0 = it begins with none. */
static size_t kind_bytes(const char *text)
{
    size_t bytes = strspn(text, LETTERS CAPITALS DIGITS "_.:-");
    return bytes <= KIND_BYTES_MAX ? bytes : 0;
}

bool fits_id(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 18 && !text[digits];
}

bool fits_kind(const char *text)
{
    size_t bytes = kind_bytes(text);
    return bytes > 0 && !text[bytes];
}

bool fits_broker_queue(const char *text)
{
    size_t bytes = strlen(text);
    return bytes >= 1 && bytes <= 190;
}

static bool is_header(const char *text)
{
    return strncmp(text, "header:", 7) == 0 && text[7] && strlen(text) <= 7 + 128;
}

bool fits_offset(const char *text)
{
    size_t digits = strspn(text, DIGITS);
    return strcmp(text, "first") == 0 || strcmp(text, "last") == 0 || strcmp(text, "next") == 0 ||
           (digits >= 1 && digits <= 18 && !text[digits]);
}

bool fits_kind_from(const char *text)
{
    return strcmp(text, "type") == 0 || strcmp(text, "routing-key") == 0 || is_header(text);
}

bool fits_key_from(const char *text)
{
    return strcmp(text, "message-id") == 0 || strcmp(text, "body") == 0 || is_header(text);
}

bool fits_kinds(const char *text)
{
    size_t bytes = kind_bytes(text);
    return strcmp(text, "*") == 0 ||
           (bytes > 0 && (!text[bytes] || (text[bytes] == '*' && !text[bytes + 1])));
}

bool fits_rate(const char *text)
{
    size_t digits = strspn(text, DIGITS);
    return digits >= 1 && digits <= 5 && *text != '0' && strcmp(text + digits, "/s") == 0;
}

bool fits_starts(const char *text)
{
    size_t digits = strspn(text, DIGITS);
    int64_t ms;
    return digits >= 1 && digits <= 5 && text[digits] == '/' &&
           duration_parse(text + digits + 1, &ms);
}

bool fits_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    size_t digits = colon ? strspn(colon + 1, DIGITS) : 0;
    return colon > text && digits >= 1 && digits <= 5 && !colon[1 + digits];
}

bool fits_host(const char *text)
{
    return *text && strspn(text, LETTERS CAPITALS DIGITS ".-") == strlen(text);
}

bool fits_header(const char *text)
{
    return *text && strspn(text, LETTERS CAPITALS DIGITS "-_") == strlen(text);
}

bool fits_network(const char *text)
{
    struct network network;
    return network_read(text, &network);
}

bool fits_variable(const char *text)
{
    return *text && !strpbrk(text, "=,");
}

bool fits_handler(const char *text)
{
    size_t bytes = *text == '*' ? 1 : kind_bytes(text);
    return bytes > 0 && text[bytes] == '=' && text[bytes + 1];
}

bool fits_amqp_url(const char *text)
{
    return strcmp(text, "none") == 0 || strncmp(text, "amqp://", 7) == 0 ||
           strncmp(text, "amqps://", 8) == 0;
}

bool fits_http_url(const char *text)
{
    const char *host = strncmp(text, "http://", 7) == 0    ? text + 7
                       : strncmp(text, "https://", 8) == 0 ? text + 8
                                                           : NULL;
    return host && !memchr(host, '@', strcspn(host, "?")); /* the log would show a password */
}

/* https://www.w3.org/TR/trace-context/#traceparent-header: 2, 32, 16 and 2 hexadecimal digits */
bool fits_trace(const char *text)
{
    static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    if (strlen(text) != sizeof form - 1) {
        return false;
    }
    for (size_t i = 0; form[i]; i++) {
        if (form[i] == 'x' ? !strchr(DIGITS "abcdef", text[i]) : text[i] != '-') {
            return false;
        }
    }
    return true;
}
