#include "enqueue/ledger.h"

#include "include/tenon/tenon.h"

#define HASH_NONFATAL_OOM 1
#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

struct ledger_page {
    const void *conn;
    size_t n;
    struct wakeup *wakeups;
    UT_hash_handle hh;
};

static struct ledger_page *page_of(const struct ledger *l, const void *conn)
{
    struct ledger_page *page = NULL;
    HASH_FIND_PTR(l->pages, &conn, page);
    return page;
}

static struct ledger_page *page_new(struct ledger *l, const void *conn)
{
    if (HASH_COUNT(l->pages) >= TENON_CONNECTIONS_MAX) {
        return NULL;
    }
    struct ledger_page *page = calloc(1, sizeof *page);
    if (page) {
        page->conn = conn;
        HASH_ADD_PTR(l->pages, conn, page);
    }
    if (page && !page_of(l, conn)) { /* no memory for the table */
        free(page);
        return NULL;
    }
    return page;
}

size_t ledger_count(const struct ledger *l, const void *conn)
{
    const struct ledger_page *page = page_of(l, conn);
    return page ? page->n : 0;
}

bool ledger_add(struct ledger *l, const void *conn, struct wakeup *w)
{
    struct ledger_page *page = page_of(l, conn);
    page = page ? page : page_new(l, conn);
    if (!w || !page || page->n >= TENON_TRANSACTION_IDS_MAX) {
        free(w);
        return false;
    }
    DL_APPEND(page->wakeups, w);
    page->n++;
    return true;
}

struct wakeup *ledger_take(struct ledger *l, const void *conn)
{
    struct ledger_page *page = page_of(l, conn);
    struct wakeup *wakeups = page ? page->wakeups : NULL;
    if (page) {
        HASH_DEL(l->pages, page);
        free(page);
    }
    return wakeups;
}

void ledger_clear(struct ledger *l)
{
    while (l->pages) {
        struct wakeup *wakeups = ledger_take(l, l->pages->conn);
        wakeups_free(&wakeups);
    }
}
