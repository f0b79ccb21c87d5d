#include "handlers/host_plugin.h"

#include <dlfcn.h>
#include <string.h>

static bool check(const tenon_plugin_table *table, const char *path, struct fault *f)
{
    if (table->abi < 1 || table->abi > TENON_HANDLER_ABI) {
        return fault_set(f, FAULT_CONFIG,
                         "%s was built with version %d of tenon/handler.h, this is version %d",
                         path, table->abi, TENON_HANDLER_ABI);
    }
    if (table->n_handlers == 0) {
        return fault_set(f, FAULT_CONFIG, "%s has no handlers", path);
    }
    return true;
}

bool plugin_open(struct plugin *p, const char *path, struct fault *f)
{
    *p = (struct plugin){.object = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!p->object) {
        return fault_set(f, FAULT_CONFIG, "could not load the plugin: %s", dlerror());
    }
    const tenon_plugin_table *table = dlsym(p->object, "tenon_plugin");
    if (!table) {
        return fault_set(f, FAULT_CONFIG,
                         "%s has no tenon_plugin: see TENON_PLUGIN in "
                         "tenon/handler.h",
                         path);
    }
    if (!check(table, path, f)) {
        return false;
    }
    int code = table->start ? table->start() : 0;
    p->table = code == 0 ? table : NULL;
    return p->table || fault_set(f, FAULT_CONFIG, "%s could not start: it returned %d", path, code);
}

/* It stays loaded: threads of its own may still be there. */
void plugin_close(struct plugin *p)
{
    if (p->table && p->table->stop) {
        p->table->stop();
    }
    p->table = NULL;
}

const tenon_handler *plugin_find(const struct plugin *p, const char *kind)
{
    for (size_t i = 0; i < p->table->n_handlers; i++) {
        if (strcmp(p->table->handlers[i].kind, kind) == 0) {
            return &p->table->handlers[i];
        }
    }
    return NULL;
}
