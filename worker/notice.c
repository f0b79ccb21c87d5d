#include "worker/notice.h"

#include <stdlib.h>
#include <string.h>

static bool is_word(const char *name, const char *word, size_t bytes)
{
    return strlen(name) == bytes && memcmp(name, word, bytes) == 0;
}

bool notice_lists(const char *list, const char *kind)
{
    bool found = strcmp(list, "*") == 0;
    for (const char *at = list; !found && *at; at += strspn(at, ",")) {
        size_t bytes = strcspn(at, ",");
        found = is_word(kind, at, bytes);
        at += bytes;
    }
    return found;
}

size_t notice_tasks(const char *words)
{
    return *words >= '1' && *words <= '9' ? strtoul(words, NULL, 10) : 0;
}

/* Does the worker serve this "queue/kind"? */
static bool serves(const struct served *s, const char *word, size_t bytes)
{
    size_t queue = strcspn(word, "/");
    bool queue_found = false, kind_found = false;
    for (size_t i = 0; !queue_found && i < s->n_queues; i++) {
        queue_found = is_word(s->queues[i], word, queue);
    }
    for (size_t i = 0; queue_found && !kind_found && i < s->handlers.n_kinds; i++) {
        kind_found = is_word(s->handlers.kinds[i].name, word + queue + 1, bytes - queue - 1);
    }
    return kind_found;
}

bool notice_concerns(const struct served *s, const char *words)
{
    bool any = !strchr(words, '/') && (*words == '\0' || notice_tasks(words) > 0);
    for (const char *at = words; !any && *at; at += strspn(at, " ")) {
        size_t bytes = strcspn(at, " ");
        any = memchr(at, '/', bytes) && serves(s, at, bytes);
        at += bytes;
    }
    return any;
}
