#include "enqueue/pending.h"

#include "include/tenon/tenon.h"

#include <stdlib.h>
#include <utlist.h>

struct pending_page {
    struct pending_page *prev, *next;
    const void *conn;
    size_t n;
    struct wakeup *wakeups;
};

static struct pending_page *page_of(const struct pending *p, const void *conn)
{
    struct pending_page *page = NULL;
    DL_SEARCH_SCALAR(p->pages, page, conn, conn);
    return page;
}

static struct pending_page *page_new(struct pending *p, const void *conn)
{
    struct pending_page *page = p->n < TENON_CONNECTIONS_MAX ? calloc(1, sizeof *page) : NULL;
    if (page) {
        page->conn = conn;
        DL_PREPEND(p->pages, page);
        p->n++;
    }
    return page;
}

size_t pending_count(const struct pending *p, const void *conn)
{
    const struct pending_page *page = page_of(p, conn);
    return page ? page->n : 0;
}

bool pending_add(struct pending *p, const void *conn, struct wakeup *w)
{
    struct pending_page *page = page_of(p, conn);
    page = page ? page : page_new(p, conn);
    if (!w || !page || page->n >= TENON_TRANSACTION_IDS_MAX) {
        free(w);
        return false;
    }
    DL_APPEND(page->wakeups, w);
    page->n++;
    return true;
}

struct wakeup *pending_take(struct pending *p, const void *conn)
{
    struct pending_page *page = page_of(p, conn);
    struct wakeup *wakeups = page ? page->wakeups : NULL;
    if (page) {
        DL_DELETE(p->pages, page);
        p->n--;
        free(page);
    }
    return wakeups;
}

void pending_clear(struct pending *p)
{
    while (p->pages) {
        struct wakeup *wakeups = pending_take(p, p->pages->conn);
        wakeups_free(&wakeups);
    }
}
