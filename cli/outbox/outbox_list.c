/* `tenon outbox list`. */
#include "cli/outbox/outbox.h"
#include "cli/print.h"
#include "cli/statements.h"

#include <stdlib.h>
#include <string.h>

/* The columns of outbox_list.sql. */
enum { NEXT, ID, STATE, PUBLISHED, EXCHANGE, ROUTING_KEY, ORDER_KEY, ERROR, JSON };

enum { ANSWERS_MAX = 1000 };

/* What was found, in the answers that have messages: one answer is 10,000 messages of reading. */
struct page {
    struct rows *answers[ANSWERS_MAX];
    size_t n;
    int64_t wanted, found;
    char next[24]; /* empty: that was all */
};

static void page_clear(struct page *p)
{
    for (size_t i = 0; i < p->n; i++) {
        rows_free(p->answers[i]);
    }
}

static bool page_add(struct page *p, struct db *db, const struct options *o, struct fault *f)
{
    char wanted[24];
    struct rows *rows = NULL;
    const char *const params[] = {option_text(o, OPTION_STATE), outbox_exchange(o),
                                  *p->next ? p->next : NULL, wanted};
    (void)snprintf(wanted, sizeof wanted, "%lld", (long long)(p->wanted - p->found));
    if (!db_exec(db, &sql_outbox_list, params, 4, &rows, f)) {
        return fault_add(f, "could not list the messages");
    }
    const char *next = rows_text(rows, 0, NEXT);
    (void)snprintf(p->next, sizeof p->next, "%s", next ? next : "");
    if (rows_is_null(rows, 0, ID)) {
        rows_free(rows);
        return true;
    }
    p->found += (int64_t)rows_count(rows);
    p->answers[p->n++] = rows;
    return true;
}

/* Until the page is full or everything was read, so that "no message matches" is true. */
static bool page_read(struct page *p, struct db *db, const struct options *o, struct fault *f)
{
    const char *cursor = option_text(o, OPTION_CURSOR);
    bool ok;
    p->wanted = strtoll(option_text(o, OPTION_LIMIT), NULL, 10);
    (void)snprintf(p->next, sizeof p->next, "%s", cursor ? cursor : "");
    do {
        ok = page_add(p, db, o, f);
    } while (ok && *p->next && p->found < p->wanted && p->n < ANSWERS_MAX);
    return ok;
}

static void print_json(const struct page *p)
{
    const char *comma = "";
    (void)printf("{\"next\": %s,\n\"messages\": [", *p->next ? p->next : "null");
    for (size_t a = 0; a < p->n; a++) {
        for (size_t i = 0; i < rows_count(p->answers[a]); i++, comma = ",") {
            (void)printf("%s\n  %s", comma, rows_text(p->answers[a], i, JSON));
        }
    }
    (void)puts("]}");
}

static bool print_table(const struct page *p, struct fault *f)
{
    static const char *const heads[] = {">ID",          "STATE",      "PUBLISHED", "<EXCHANGE",
                                        "<ROUTING KEY", "<ORDER KEY", "^ERROR"};
    struct table t;
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t a = 0; a < p->n; a++) {
        for (size_t i = 0; i < rows_count(p->answers[a]); i++) {
            for (int column = ID; column <= ERROR; column++) {
                table_put(&t, rows_text(p->answers[a], i, column));
            }
        }
    }
    return table_print(&t, f);
}

static bool print_page(const struct page *p, struct fault *f)
{
    if (p->found == 0) {
        (void)puts("no message matches");
    } else if (!print_table(p, f)) {
        return false;
    }
    if (*p->next) {
        (void)printf("(there may be more: --cursor %s)\n", p->next);
    }
    return true;
}

static bool state_check(const char *state, struct fault *f)
{
    return !state || strcmp(state, "waiting") == 0 || strcmp(state, "refused") == 0 ||
           fault_set(f, FAULT_CONFIG, "--state \"%.100s\" is not allowed: use waiting or refused",
                     state);
}

bool outbox_list(struct db *db, const struct options *o, struct fault *f)
{
    struct page *page = calloc(1, sizeof *page);
    if (!page) {
        return fault_memory(f);
    }
    bool ok = state_check(option_text(o, OPTION_STATE), f) && page_read(page, db, o, f);
    if (ok && option_flag(o, OPTION_JSON)) {
        print_json(page);
    } else if (ok) {
        ok = print_page(page, f);
    }
    page_clear(page);
    free(page);
    return ok;
}
