/* The files of the page, embedded at build time (cmake/embed_page.cmake). They hold no secrets. */
#ifndef TENON_UI_PAGE_H
#define TENON_UI_PAGE_H

#include "core/http/http.h"

struct page_file {
    const char *name, *type, *etag; /* NULL name = the end of the table */
    const unsigned char *bytes;
    size_t n;
};

extern const struct page_file page_files[];

/* Answer "/" and every view with index.html, "/static/NAME" with that file; with 304 who has it
 * already. false: there is no such path. */
bool page_answer(const struct http_request *r, struct http_answer *a);

#endif
