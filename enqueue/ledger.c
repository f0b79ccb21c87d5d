#include "enqueue/ledger.h"

#include "core/amqp_topology.h"
#include "include/tenon/tenon.h"

#define HASH_NONFATAL_OOM 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

enum { RUN_IDS_MIN = 4 };

/* Ids that go the same way; most transactions have one run. */
struct run {
    char exchange[TOPOLOGY_EXCHANGE_BYTES], key[TOPOLOGY_KEY_BYTES];
    int64_t *ids;
    size_t n, cap;
    struct run *next;
};

struct ledger_page {
    const void *conn;
    size_t n;
    struct run *first, *last;
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

static struct run *run_of(struct ledger_page *page, const char *exchange, const char *key)
{
    struct run *run = page->last;
    if (run && strcmp(run->exchange, exchange) == 0 && strcmp(run->key, key) == 0) {
        return run;
    }
    run = calloc(1, sizeof *run);
    if (!run) {
        return NULL;
    }
    (void)snprintf(run->exchange, sizeof run->exchange, "%s", exchange);
    (void)snprintf(run->key, sizeof run->key, "%s", key);
    *(page->last ? &page->last->next : &page->first) = run;
    page->last = run;
    return run;
}

static bool run_add(struct run *run, int64_t id)
{
    if (run->n == run->cap) {
        size_t cap = run->cap ? run->cap * 2 : RUN_IDS_MIN;
        int64_t *ids = realloc(run->ids, cap * sizeof *ids);
        if (!ids) {
            return false;
        }
        run->ids = ids;
        run->cap = cap;
    }
    run->ids[run->n++] = id;
    return true;
}

size_t ledger_count(const struct ledger *l, const void *conn)
{
    const struct ledger_page *page = page_of(l, conn);
    return page ? page->n : 0;
}

bool ledger_add(struct ledger *l, const void *conn, const char *exchange, const char *key,
                int64_t id)
{
    struct ledger_page *page = page_of(l, conn);
    page = page ? page : page_new(l, conn);
    if (!page || page->n >= TENON_TRANSACTION_IDS_MAX) {
        return false;
    }
    struct run *run = run_of(page, exchange, key);
    bool ok = run && run_add(run, id);
    page->n += ok;
    return ok;
}

void ledger_end(struct ledger *l, const void *conn,
                void (*take)(void *arg, const char *exchange, const char *key, int64_t id),
                void *arg)
{
    struct ledger_page *page = page_of(l, conn);
    if (!page) {
        return;
    }
    HASH_DEL(l->pages, page);
    for (struct run *run = page->first, *next; run; run = next) {
        next = run->next;
        for (size_t i = 0; take && i < run->n; i++) {
            take(arg, run->exchange, run->key, run->ids[i]);
        }
        free(run->ids);
        free(run);
    }
    free(page);
}

void ledger_clear(struct ledger *l)
{
    while (l->pages) {
        ledger_end(l, l->pages->conn, NULL, NULL);
    }
}
