#include "core/options/config.h"

#include "core/base/file.h"
#include "core/base/variables.h"

#include <confuse.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* libconfuse's callbacks carry no pointer of ours */
static _Thread_local struct reading {
    const char *path;
    config_on_value *on_value;
    void *owner;
    struct fault *f;
} reading;

static void on_error(cfg_t *cfg, const char *fmt, va_list args)
{
    char text[512];
    (void)vsnprintf(text, sizeof text, fmt, args);
    (void)fault_set(reading.f, FAULT_CONFIG, "%s:%d: %s", reading.path, cfg->line, text);
}

static int on_key(cfg_t *cfg, cfg_opt_t *opt)
{
    unsigned n = cfg_opt_size(opt);
    const char **values = calloc(n + 1, sizeof *values);
    if (!values) {
        (void)fault_memory(reading.f);
        return -1;
    }
    for (unsigned i = 0; i < n; i++) {
        values[i] = cfg_opt_getnstr(opt, i);
    }
    char where[PATH_MAX + 64];
    (void)snprintf(where, sizeof where, "%s:%d: %s", reading.path, cfg->line, opt->name);
    bool ok = reading.on_value(reading.owner, option_find(opt->name, strlen(opt->name)), where,
                               values, n, reading.f);
    free(values);
    return ok ? 0 : -1;
}

/* Every option that a file may set. */
static size_t keys_fill(cfg_opt_t keys[OPTION_COUNT + 1])
{
    size_t n = 0;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        if (i != OPTION_CONFIG && (!row->typed || row->untyped)) {
            bool many = row->type == OPTION_TYPE_LIST || row->type == OPTION_TYPE_EACH;
            keys[n++] = many ? (cfg_opt_t)CFG_STR_LIST(row->name, NULL, CFGF_NODEFAULT)
                             : (cfg_opt_t)CFG_STR(row->name, NULL, CFGF_NODEFAULT);
        }
    }
    keys[n] = (cfg_opt_t)CFG_END();
    return n;
}

static bool text_parse(const char *text, struct fault *f)
{
    cfg_opt_t keys[OPTION_COUNT + 1];
    size_t n = keys_fill(keys);
    cfg_t *cfg = cfg_init(keys, CFGF_NONE);
    if (!cfg) {
        return fault_memory(f);
    }
    (void)cfg_set_error_function(cfg, on_error);
    for (size_t i = 0; i < n; i++) {
        (void)cfg_set_validate_func(cfg, keys[i].name, on_key);
    }
    if (cfg_parse_buf(cfg, text) != CFG_SUCCESS) {
        (void)fault_set(f, FAULT_CONFIG, "%s:%d: this cannot be read", reading.path, cfg->line);
    }
    (void)cfg_free(cfg);
    return f->code == FAULT_NONE;
}

bool config_read(const char *path, config_on_value *on_value, void *owner, struct fault *f)
{
    struct buf text;
    reading = (struct reading){path, on_value, owner, f};
    bool ok = file_read(path, "config file", CONFIG_BYTES_MAX, &text, f) &&
              variables_are_set(path, buf_text(&text), f) && text_parse(buf_text(&text), f);
    buf_clear(&text);
    return ok;
}
