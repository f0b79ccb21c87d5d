/* `tenon list`: a page of tasks that fit a filter. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "cli/tasks/filter.h"
#include "core/base/now.h"
#include "core/db/db.h"
#include "core/db/schema.h"

#include <stdlib.h>
#include <unistd.h>

/* The columns of list.sql. */
enum { NEXT, PERCENT, ID, STATE, KIND, QUEUE, PRIORITY, TIME, ATTEMPTS, ERROR, JSON };

enum { TELL_TERMINAL_MS = 1000, TELL_FILE_MS = 5000 };

/* What was found, in the answers that have tasks: one answer is half a second of reading. */
struct page {
    struct rows **answers;
    size_t n;
    int64_t wanted, found;
    char next[24]; /* empty: that was all */
    int64_t begun_ms, told_ms;
};

static bool has_task(const struct rows *r, size_t i)
{
    return !rows_is_null(r, i, ID);
}

static void page_clear(struct page *p)
{
    for (size_t i = 0; i < p->n; i++) {
        rows_free(p->answers[i]);
    }
    free(p->answers);
}

static bool page_add(struct page *p, struct rows *r, struct fault *f)
{
    struct rows **more = realloc(p->answers, (p->n + 1) * sizeof(struct rows *));
    if (!more) {
        rows_free(r);
        return fault_memory(f);
    }
    p->answers = more;
    p->answers[p->n++] = r;
    p->found += (int64_t)rows_count(r);
    return true;
}

/* For a person who waits, on stderr. */
static void tell_progress(struct page *p, int64_t percent)
{
    bool terminal = isatty(STDERR_FILENO);
    int64_t now = now_ms();
    if (now - p->told_ms >= (terminal ? TELL_TERMINAL_MS : TELL_FILE_MS)) {
        p->told_ms = now;
        (void)fprintf(stderr, "%s%lld %% of all tasks searched, %lld found%s", terminal ? "\r" : "",
                      (long long)percent, (long long)p->found, terminal ? "   " : "\n");
    }
}

/* Half a second of reading. */
static bool page_go_on(struct page *p, struct db *db, const char *filter, const struct options *o,
                       struct fault *f)
{
    char wanted[24];
    struct rows *rows = NULL;
    (void)snprintf(wanted, sizeof wanted, "%lld", (long long)(p->wanted - p->found));
    const char *const params[] = {filter, *p->next ? p->next : NULL, wanted,
                                  option_flag(o, OPTION_OLDEST) ? "true" : "false"};
    if (!db_exec(db, &sql_list, params, 4, &rows, f)) {
        return fault_add(f, "could not list the tasks");
    }
    const char *next = rows_text(rows, 0, NEXT);
    int64_t percent = rows_int(rows, 0, PERCENT);
    (void)snprintf(p->next, sizeof p->next, "%s", next ? next : "");
    bool ok = true;
    if (has_task(rows, 0)) {
        ok = page_add(p, rows, f);
    } else {
        rows_free(rows);
    }
    tell_progress(p, percent);
    return ok;
}

/* Until the page is full or everything was read, so that "no task matches" is true. */
static bool page_read(struct page *p, struct db *db, const char *filter, const struct options *o,
                      struct fault *f)
{
    const char *cursor = option_text(o, OPTION_CURSOR);
    *p = (struct page){.wanted = strtoll(option_text(o, OPTION_LIMIT), NULL, 10)};
    p->begun_ms = p->told_ms = now_ms();
    (void)snprintf(p->next, sizeof p->next, "%s", cursor ? cursor : "");
    bool ok;
    do {
        ok = page_go_on(p, db, filter, o, f);
    } while (ok && *p->next && p->found < p->wanted);
    if (p->told_ms > p->begun_ms && isatty(STDERR_FILENO)) {
        (void)fputc('\n', stderr);
    }
    return ok;
}

static bool print_tasks(const struct page *p, struct fault *f)
{
    static const char *const heads[] = {">ID",  "STATE", "<KIND",     "<QUEUE",
                                        ">PRI", "TIME",  ">ATTEMPTS", "^LAST ERROR"};
    struct table t;
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t a = 0; a < p->n; a++) {
        const struct rows *r = p->answers[a];
        for (size_t i = 0; i < rows_count(r); i++) {
            for (int column = ID; has_task(r, i) && column <= ERROR; column++) {
                table_put(&t, rows_text(r, i, column));
            }
        }
    }
    return table_print(&t, f);
}

static bool print_page(const struct page *p, struct fault *f)
{
    if (p->found == 0) {
        (void)puts("no task matches");
    } else if (!print_tasks(p, f)) {
        return false;
    }
    if (*p->next) {
        (void)printf("(there may be more: --cursor %s)\n", p->next);
    }
    return true;
}

static void print_json(const struct page *p)
{
    const char *comma = "";
    (void)printf("{\"next\": %s,\n\"tasks\": [", *p->next ? p->next : "null");
    for (size_t a = 0; a < p->n; a++) {
        const struct rows *r = p->answers[a];
        for (size_t i = 0; i < rows_count(r) && has_task(r, i); i++, comma = ",") {
            (void)printf("%s\n  %s", comma, rows_text(r, i, JSON));
        }
    }
    (void)puts("]}");
}

static bool list(struct db *db, const struct options *o, struct fault *f)
{
    struct buf filter;
    struct page page = {0};
    bool ok = filter_read(&filter, o, options_args(o), f) &&
              page_read(&page, db, buf_text(&filter), o, f);
    if (ok && page.found == 0) {
        ok = filter_tell_errors(&filter, o, NULL, db, f);
    }
    buf_clear(&filter);
    if (ok && option_flag(o, OPTION_JSON)) {
        print_json(&page);
    } else if (ok) {
        ok = print_page(&page, f);
    }
    page_clear(&page);
    return ok;
}

bool list_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_READ, "tenon list", &db, f) &&
              schema_check(db, f) && list(db, o, f);
    db_close(db);
    return ok;
}
