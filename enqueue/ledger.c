#include "enqueue/ledger.h"

#include "include/tenon/tenon.h"

#include <stdlib.h>
#include <utlist.h>

struct ledger_page {
    struct ledger_page *prev, *next;
    const void *conn;
    size_t n;
    struct wakeup *wakeups;
};

static struct ledger_page *page_of(const struct ledger *l, const void *conn)
{
    struct ledger_page *page = NULL;
    DL_SEARCH_SCALAR(l->pages, page, conn, conn);
    return page;
}

static struct ledger_page *page_new(struct ledger *l, const void *conn)
{
    struct ledger_page *page = l->n < TENON_CONNECTIONS_MAX ? calloc(1, sizeof *page) : NULL;
    if (page) {
        page->conn = conn;
        DL_PREPEND(l->pages, page);
        l->n++;
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
        DL_DELETE(l->pages, page);
        l->n--;
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
