#include "worker/kinds.h"

#include "core/options/option_value.h"

#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"

struct kind {
    char name[101];
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kind *)a)->name, ((const struct kind *)b)->name);
}

static bool refuse(struct fault *f, const char *why)
{
    return fault_set(f, FAULT_REFUSED, "its hello %s", why);
}

/* One text of an array, which is known to be JSON. */
static bool read_one(const char **at, struct kind *ret, struct fault *f)
{
    size_t bytes = **at == '"' ? strcspn(*at + 1, "\"\\") : 0;
    bool fits = bytes > 0 && bytes < sizeof ret->name;
    memcpy(ret->name, *at + 1, fits ? bytes : 0);
    ret->name[fits ? bytes : 0] = '\0';
    *at += bytes + 1;
    if (!fits || **at != '"' || !fits_kind(ret->name)) {
        return refuse(f, "has something in kinds that is not a kind: " KIND_ALLOWED);
    }
    *at += 1;
    *at += strspn(*at, BLANKS);
    return true;
}

static bool read_all(const char *at, struct kind *kinds, size_t *n, struct fault *f)
{
    at += strspn(at, "[" BLANKS);
    for (*n = 0; *at != ']'; (*n)++) {
        at += *at == ',' ? 1 + strspn(at + 1, BLANKS) : 0;
        if (*n == NAMED_KINDS_MAX) {
            return refuse(f, "names more than 1000 kinds");
        }
        if (!read_one(&at, &kinds[*n], f)) {
            return false;
        }
    }
    return *n > 0 || refuse(f, "names no kind");
}

static bool join(struct kind *kinds, size_t n, char **ret, struct fault *f)
{
    struct buf b;
    buf_init(&b, (size_t)NAMED_KINDS_MAX * sizeof *kinds);
    qsort(kinds, n, sizeof *kinds, by_name);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(kinds[i].name, kinds[i - 1].name) != 0) {
            buf_printf(&b, "%s%s", i > 0 ? "," : "", kinds[i].name);
        }
    }
    *ret = b.failed ? NULL : strdup(buf_text(&b));
    buf_clear(&b);
    return *ret || fault_memory(f);
}

bool kinds_read(const struct scanned *array, char **ret, struct fault *f)
{
    *ret = NULL;
    if (!array->text || *array->text != '[') {
        return refuse(f,
                      "does not say \"kinds\", an array, which a handler for all kinds requires");
    }
    struct kind *kinds = malloc(NAMED_KINDS_MAX * sizeof *kinds);
    size_t n;
    bool ok = kinds ? read_all(array->text, kinds, &n, f) && join(kinds, n, ret, f)
                    : fault_memory(f);
    free(kinds);
    return ok;
}

static const char *after(const char *kind, size_t bytes)
{
    return kind + bytes + (kind[bytes] == ',');
}

const char *kinds_other(const char *a, const char *b, size_t *bytes)
{
    while (*a) {
        size_t other = strcspn(b, ",");
        *bytes = strcspn(a, ",");
        int order = strncmp(a, b, *bytes < other ? *bytes : other);
        order = order != 0 ? order : (*bytes > other) - (*bytes < other);
        if (order < 0 || *b == '\0') {
            return a;
        }
        b = after(b, other);
        a = order == 0 ? after(a, *bytes) : a;
    }
    return NULL;
}
