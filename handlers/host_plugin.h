/* A shared object with handlers, as include/tenon/handler.h describes it. */
#ifndef TENON_HANDLERS_HOST_PLUGIN_H
#define TENON_HANDLERS_HOST_PLUGIN_H

#include "core/base/fault.h"
#include "include/tenon/handler.h"

struct plugin {
    void *object;
    const tenon_plugin_table *table;
};

/*   false   CONFIG: it cannot be loaded, is no plugin, is newer than this host, or cannot start */
MUST_CHECK bool plugin_open(struct plugin *p, const char *path, struct fault *f);
void plugin_close(struct plugin *p);

/* The handler of a kind; NULL = none. */
const tenon_handler *plugin_find(const struct plugin *p, const char *kind);

#endif
