#include "cleaner/queues.h"

#include "cleaner/chores.h"
#include "cleaner/statements.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(entry) ((entry)->failed = true)
#include <uthash.h>

struct queue_entry {
    struct queue queue; /* first, so that an entry is its queue */
    char name[QUEUE_NAME_BYTES];
    bool seen;   /* in the last look */
    bool failed; /* there was no memory to add it */
    UT_hash_handle hh;
};

struct queue_table {
    struct queue_entry *head;
    bool full_logged;
};

_Static_assert(QUEUES_MAX == 1024, "queues_turn says the same");

static struct queue_table *table_of(struct cleaner *c)
{
    if (!c->queues) {
        c->queues = calloc(1, sizeof *c->queues);
    }
    return c->queues;
}

static struct queue_entry *entry_add(struct queue_table *table, const char *name, size_t len)
{
    struct queue_entry *entry = calloc(1, sizeof *entry);
    if (!entry) {
        return NULL;
    }
    memcpy(entry->name, name, len);
    entry->queue.name = entry->name;
    HASH_ADD_STR(table->head, name, entry);
    if (entry->failed) {
        free(entry);
        return NULL;
    }
    return entry;
}

static bool is_full(struct queue_table *table)
{
    if (HASH_COUNT(table->head) < QUEUES_MAX) {
        return false;
    }
    if (!table->full_logged) {
        log_event(LOG_WARNING, LOG_EVENT("queues_too_many"), LOG_NUM("max", QUEUES_MAX));
        table->full_logged = true;
    }
    return true;
}

/* The entry of a name, made and declared if it is new. */
static struct queue_entry *entry_of(struct cleaner *c, const char *name)
{
    struct queue_table *table = table_of(c);
    struct queue_entry *entry = NULL;
    size_t len = strlen(name);
    if (!table || len == 0 || len >= QUEUE_NAME_BYTES) {
        return NULL;
    }
    HASH_FIND_STR(table->head, name, entry);
    if (entry || is_full(table)) {
        return entry;
    }
    entry = entry_add(table, name, len);
    if (entry) {
        publisher_declare(c->publisher, entry->name);
    }
    return entry;
}

bool queues_know(struct cleaner *c, const char *name)
{
    return entry_of(c, name) != NULL;
}

size_t queues_list(struct cleaner *c, struct queue *list[QUEUES_MAX])
{
    size_t n = 0;
    for (struct queue_entry *entry = c->queues ? c->queues->head : NULL; entry;
         entry = entry->hh.next) {
        list[n++] = &entry->queue;
    }
    return n;
}

static void entries_forget(struct queue_table *table, bool all)
{
    struct queue_entry *entry, *next;
    HASH_ITER(hh, table->head, entry, next)
    {
        if (all || !entry->seen) {
            HASH_DEL(table->head, entry);
            free(entry);
        } else {
            entry->seen = false;
        }
    }
}

void queues_free(struct cleaner *c)
{
    if (c->queues) {
        entries_forget(c->queues, true);
        free(c->queues);
        c->queues = NULL;
    }
}

/* Known queues are declared again and again: somebody may delete one, or the broker lose it. */
bool queues_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    const char *const params[] = {"1024"};
    struct rows *rows = NULL;
    (void)turn;
    if (!db_exec(c->hot, &sql_queues, params, 1, &rows, f)) {
        return false;
    }
    for (size_t i = 0; i < rows_count(rows); i++) {
        struct queue_entry *entry = entry_of(c, rows_text(rows, i, 0));
        if (entry) {
            entry->seen = true;
            publisher_declare(c->publisher, entry->name);
        }
    }
    rows_free(rows);
    if (c->queues) {
        entries_forget(c->queues, false);
    }
    return true;
}
