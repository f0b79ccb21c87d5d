#include "worker/decide/action.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool make_room(struct actions *l)
{
    if (l->n < l->cap) {
        return true;
    }
    size_t cap = l->cap ? 2 * l->cap : 64;
    struct action *items = realloc(l->items, cap * sizeof *items);
    if (items) {
        l->items = items;
        l->cap = cap;
    }
    return items != NULL;
}

struct action *actions_add(struct actions *l, enum action_type type)
{
    bool ok = make_room(l);
    struct action *a = ok ? &l->items[l->n++] : &l->spare;
    l->no_memory = l->no_memory || !ok;
    *a = (struct action){.type = type, .slot = -1, .handler = -1};
    return a;
}

void actions_note(struct actions *l, enum note note, int64_t task, const char *fmt, ...)
{
    struct action *a = actions_add(l, ACTION_NOTE);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(a->text, sizeof a->text, fmt, args);
    va_end(args);
    a->note = note;
    a->task = task;
}
