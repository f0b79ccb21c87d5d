#include "ui/page.h"

#include <string.h>

#define STATIC "/static/"

/* The first parts of the views' paths; ui/page/app.js has the same. */
static const char *const views[] = {"",       "tasks",     "dead",    "flows",  "kinds",
                                    "limits", "schedules", "workers", "outbox", "audit"};

static const struct page_file *file_of(const char *name)
{
    for (const struct page_file *file = page_files; file->name; file++) {
        if (strcmp(file->name, name) == 0) {
            return file;
        }
    }
    return NULL;
}

static bool is_view(const char *path)
{
    size_t n = strcspn(path + 1, "/");
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        if (strlen(views[i]) == n && strncmp(path + 1, views[i], n) == 0) {
            return true;
        }
    }
    return false;
}

static const struct page_file *file_at(const char *path)
{
    if (strncmp(path, STATIC, strlen(STATIC)) == 0) {
        return file_of(path + strlen(STATIC));
    }
    return path[0] == '/' && is_view(path) ? file_of("index.html") : NULL;
}

bool page_answer(const struct http_request *r, struct http_answer *a)
{
    const struct page_file *file = file_at(r->path);
    const char *known = http_header(r, "If-None-Match");
    if (!file) {
        return false;
    }
    http_answer_header(a, "ETag", "%s", file->etag);
    http_answer_header(a, "Cache-Control", "no-cache");
    if (known && strcmp(known, file->etag) == 0) {
        a->status = 304;
        return true;
    }
    a->type = file->type;
    a->constant = file->bytes;
    a->constant_bytes = file->n;
    return true;
}
