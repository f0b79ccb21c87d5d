#include "worker/handler.h"

#include "core/base/file.h"
#include "core/base/variables.h"
#include "core/options/config.h"
#include "core/options/option_value.h"
#include "worker/decide/decider.h"
#include "worker/decide/start.h"
#include "worker/environment.h"

#include <confuse.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void words_free(char **words)
{
    for (char **word = words; word && *word; word++) {
        free(*word);
    }
    free(words);
}

static void handler_clear(struct handler *h)
{
    words_free(h->argv);
    words_free(h->pass_env);
    words_free(h->only_env);
    isolation_clear(&h->isolation);
    free(h->environment);
    free(h->named);
    free(h->kinds);
    free(h->directory);
}

void handlers_clear(struct handlers *h)
{
    for (int i = 0; i < h->n; i++) {
        handler_clear(&h->items[i]);
    }
    for (size_t i = 0; i < h->n_kinds; i++) {
        free(h->kinds[i].name);
    }
    free(h->kinds);
    free(h->items);
    *h = (struct handlers){0};
}

int handlers_find(const struct handlers *h, const char *kind)
{
    for (size_t i = 0; i < h->n_kinds; i++) {
        if (strcmp(h->kinds[i].name, kind) == 0) {
            return h->kinds[i].handler;
        }
    }
    return -1;
}

int handlers_any(const struct handlers *h)
{
    for (int i = 0; i < h->n; i++) {
        if (h->items[i].any) {
            return i;
        }
    }
    return -1;
}

/* Behind those of the same handler and of those before it. */
static char *insert_kind(struct handlers *all, int handler, const char *kind, size_t bytes)
{
    size_t at = all->n_kinds;
    struct handler_kind *kinds = realloc(all->kinds, (all->n_kinds + 1) * sizeof *kinds);
    all->kinds = kinds ? kinds : all->kinds;
    char *name = kinds ? strndup(kind, bytes) : NULL;
    if (!name) {
        return NULL;
    }
    while (at > 0 && kinds[at - 1].handler > handler) {
        at--;
    }
    memmove(&kinds[at + 1], &kinds[at], (all->n_kinds++ - at) * sizeof *kinds);
    kinds[at] = (struct handler_kind){.name = name, .handler = handler};
    return name;
}

static bool add_kind(struct handlers *all, int handler, const char *kind, size_t bytes,
                     struct fault *f)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%.*s", (int)(bytes < sizeof name ? bytes : sizeof name),
                   kind);
    int other = handlers_find(all, name);
    if (!insert_kind(all, handler, kind, bytes)) {
        return fault_memory(f);
    }
    if (!fits_kind(name)) {
        return fault_set(f, FAULT_CONFIG, "kind \"%s\" is not allowed: " KIND_ALLOWED, name);
    }
    return other < 0 || other == handler ||
           fault_set(f, FAULT_CONFIG, "kind \"%s\" has two handlers", name);
}

/* Split "a,b" into the kinds of the handler that comes next. */
static bool set_kinds(struct handler *h, struct handlers *all, const char *kinds, struct fault *f)
{
    int n = 0;
    h->kinds = strdup(kinds);
    if (!h->kinds) {
        return fault_memory(f);
    }
    if (strcmp(kinds, "*") == 0) {
        h->any = handlers_any(all) < 0;
        return h->any || fault_set(f, FAULT_CONFIG, "there may be one handler \"*\"");
    }
    for (const char *at = kinds; *at; at += strcspn(at, ","), at += *at == ',') {
        if (n++ == HANDLER_KINDS_MAX) {
            return fault_set(f, FAULT_CONFIG, "a handler may have at most %d kinds",
                             HANDLER_KINDS_MAX);
        }
        if (!add_kind(all, all->n, at, strcspn(at, ","), f)) {
            return false;
        }
    }
    return n > 0 || fault_set(f, FAULT_CONFIG, "a handler has no kind");
}

bool handlers_name(struct handlers *all, int any, const char *kinds, struct fault *f)
{
    struct handler *h = &all->items[any];
    struct buf own;
    buf_init(&own, strlen(kinds) + 1);
    for (const char *at = kinds; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t bytes = strcspn(at, ",");
        char name[128];
        (void)snprintf(name, sizeof name, "%.*s", (int)bytes, at);
        if (handlers_find(all, name) >= 0) {
            continue;
        }
        if (!insert_kind(all, any, at, bytes)) {
            buf_clear(&own);
            return fault_memory(f);
        }
        buf_printf(&own, "%s%s", own.len > 0 ? "," : "", name);
    }
    char *served = own.len > 0 ? strdup(buf_text(&own)) : NULL;
    char *named = strdup(kinds);
    bool none = own.len == 0;
    buf_clear(&own);
    if (!served || !named) {
        free(served);
        free(named);
        return none
                   ? fault_set(f, FAULT_CONFIG,
                               "handler \"*\": other handlers have all kinds that it names: %.200s",
                               kinds)
                   : fault_memory(f);
    }
    free(h->kinds);
    h->kinds = served;
    h->named = named;
    return true;
}

static struct handler *add_handler(struct handlers *all, struct fault *f)
{
    if (all->n == HANDLERS_MAX) {
        (void)fault_set(f, FAULT_CONFIG, "there may be at most %d handlers", HANDLERS_MAX);
        return NULL;
    }
    struct handler *items = realloc(all->items, (size_t)(all->n + 1) * sizeof *items);
    if (!items) {
        (void)fault_memory(f);
        return NULL;
    }
    all->items = items;
    items[all->n] = (struct handler){0};
    return &items[all->n];
}

static bool set_words(char ***ret, const char *const *words, size_t n, struct fault *f)
{
    char **copy = *ret = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = strdup(words[i]);
        if (!copy[i]) {
            return fault_memory(f);
        }
    }
    return copy ? true : fault_memory(f);
}

/* --- is the program there? It would show with the first task otherwise. --- */

static bool path_join(const char *directory, const char *path, char full[PATH_MAX])
{
    bool joined = directory && *path != '/';
    return snprintf(full, PATH_MAX, "%s%s%s", joined ? directory : "", joined ? "/" : "", path) <
           PATH_MAX;
}

static bool is_executable(const char *directory, const char *path)
{
    struct stat file;
    char full[PATH_MAX];
    return path_join(directory, path, full) && stat(full, &file) == 0 && S_ISREG(file.st_mode) &&
           access(full, X_OK) == 0;
}

/* The kernel would look for an interpreter whose name ends in a carriage return. */
static bool check_first_line(const char *directory, const char *path, struct fault *f)
{
    char full[PATH_MAX], line[256] = "";
    FILE *file = path_join(directory, path, full) ? fopen(full, "re") : NULL;
    bool is_wrong = file && fgets(line, sizeof line, file) && strncmp(line, "#!", 2) == 0 &&
                    strstr(line, "\r\n");
    if (file) {
        (void)fclose(file);
    }
    return !is_wrong ||
           fault_set(f, FAULT_CONFIG,
                     "the first line of %s ends in a carriage return, so that its interpreter "
                     "cannot be found: save it with Unix line endings",
                     path);
}

static bool is_in_path(const char *directory, const char *name)
{
    const char *at = getenv("PATH");
    bool found = !at; /* then the C library looks where it likes */
    while (at && *at && !found) {
        char path[PATH_MAX];
        int bytes = (int)strcspn(at, ":");
        (void)snprintf(path, sizeof path, "%.*s/%s", bytes, at, name);
        found = is_executable(directory, path);
        at += bytes + (at[bytes] == ':');
    }
    return found;
}

static bool check_program(const char *directory, const char *program, struct fault *f)
{
    bool is_path = strchr(program, '/') != NULL;
    if (is_path ? is_executable(directory, program) : is_in_path(directory, program)) {
        return !is_path || check_first_line(directory, program, f);
    }
    char here[PATH_MAX];
    const char *place = !is_path          ? "PATH"
                        : *program == '/' ? NULL
                        : directory       ? directory
                                          : getcwd(here, sizeof here);
    return fault_set(f, FAULT_CONFIG, "there is no executable %s%s%s", program, place ? " in " : "",
                     place ? place : "");
}

/* Of a shell's command only the first word can be checked, if it is a plain path. */
static bool check_command(const char *command, struct fault *f)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
    char word[PATH_MAX];
    command += strncmp(command, "exec ", 5) == 0 ? 5 : 0;
    size_t bytes = strcspn(command, " \t\n");
    if (strspn(command, plain) < bytes || bytes >= sizeof word || !memchr(command, '/', bytes)) {
        return true;
    }
    memcpy(word, command, bytes);
    word[bytes] = '\0';
    return check_program(NULL, word, f);
}

/* Only a pool child says hello. */
static bool check_any(const struct handler *h, struct fault *f)
{
    return !h->any || h->pool || fault_set(f, FAULT_CONFIG, "handler \"*\" requires mode \"pool\"");
}

/* KIND=COMMAND or KIND=pool:COMMAND; the command is the shell's. */
static bool load_flag(struct handlers *all, const char *text, struct fault *f)
{
    const char *equals = strchr(text, '=');
    if (!equals || !equals[1]) {
        return fault_set(f, FAULT_CONFIG,
                         "--handler \"%s\" is not allowed: give KIND=COMMAND or KIND=pool:COMMAND",
                         text);
    }
    struct handler *h = add_handler(all, f);
    char *kinds = strndup(text, (size_t)(equals - text));
    if (!h || !kinds) {
        free(kinds);
        return fault_memory(f);
    }
    bool ok = set_kinds(h, all, kinds, f);
    free(kinds);
    h->pool = strncmp(equals + 1, "pool:", 5) == 0;
    const char *const words[] = {"/bin/sh", "-c", equals + (h->pool ? 6 : 1)};
    ok = ok && check_any(h, f) && set_words(&h->argv, words, 3, f) && check_command(words[2], f);
    all->n++;
    return ok || fault_add(f, "--handler %s", text);
}

/* --- the handlers file --- */

enum { LIMIT_MAX = 1000000000 };
#define FILE_END "end-of-handlers-file"

/* libconfuse's callbacks carry no pointer of ours */
static char file_error[512];
static const char *file_path;

static void keep_error(cfg_t *cfg, const char *fmt, va_list args)
{
    int n = file_error[0]
                ? 0
                : snprintf(file_error, sizeof file_error, "%s:%d: ", file_path, cfg->line);
    if (n > 0 && (size_t)n < sizeof file_error) {
        (void)vsnprintf(file_error + n, sizeof file_error - (size_t)n, fmt, args);
    }
}

static int check_mode(cfg_t *cfg, cfg_opt_t *opt)
{
    const char *mode = cfg_opt_getstr(opt);
    if (strcmp(mode, "exec") == 0 || strcmp(mode, "pool") == 0) {
        return 0;
    }
    cfg_error(cfg, "mode \"%s\" is not allowed: exec or pool", mode);
    return -1;
}

static const struct {
    const char *name;
    int max;
} limits[] = {{"in_flight", IN_FLIGHT_MAX}, {"chunk_size", CHUNK_MAX}, {"memory_mib", LIMIT_MAX},
              {"cpu_s", LIMIT_MAX},         {"files", LIMIT_MAX},      {"processes", LIMIT_MAX},
              {"tasks_max", LIMIT_MAX},     {"rss_mib_max", LIMIT_MAX}};
enum { LIMITS = sizeof limits / sizeof *limits };

static int check_limit(cfg_t *cfg, cfg_opt_t *opt)
{
    long n = cfg_opt_getnint(opt, 0), max = LIMIT_MAX;
    for (size_t i = 0; i < LIMITS; i++) {
        max = strcmp(limits[i].name, cfg_opt_name(opt)) == 0 ? limits[i].max : max;
    }
    if (n >= 0 && n <= max) {
        return 0;
    }
    cfg_error(cfg, "%s %ld is not allowed: 0 to %ld", cfg_opt_name(opt), n, max);
    return -1;
}

static bool load_list(cfg_t *section, const char *name, size_t min, char ***ret, struct fault *f)
{
    const char *words[HANDLER_WORDS_MAX];
    size_t n = cfg_size(section, name);
    if (n < min || n > HANDLER_WORDS_MAX) {
        return fault_set(f, FAULT_CONFIG, "%s must have %zu to %d words", name, min,
                         HANDLER_WORDS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        words[i] = cfg_getnstr(section, name, (unsigned)i);
    }
    return set_words(ret, words, n, f);
}

static bool load_isolation(cfg_t *section, struct handler *h, struct fault *f)
{
    const char *user = cfg_getstr(section, "user");
    h->isolation.no_new_privs = cfg_getbool(section, "no_new_privs");
    h->isolation.memory_mib = cfg_getint(section, "memory_mib");
    h->isolation.cpu_s = cfg_getint(section, "cpu_s");
    h->isolation.files = cfg_getint(section, "files");
    h->isolation.processes = cfg_getint(section, "processes");
    h->tasks_max = cfg_getint(section, "tasks_max");
    h->rss_mib_max = cfg_getint(section, "rss_mib_max");
    return !user || isolation_set_user(&h->isolation, user, f);
}

static bool load_start_limit(cfg_t *section, struct handler *h, struct fault *f)
{
    const char *limit = cfg_getstr(section, "start_limit");
    if (limit && !h->pool) {
        return fault_set(
            f, FAULT_CONFIG,
            "start_limit requires mode \"pool\": in mode \"exec\" no process says hello");
    }
    return !limit ||
           (duration_parse(limit, &h->start_limit_ms) && h->start_limit_ms >= START_LIMIT_MIN_MS &&
            h->start_limit_ms <= START_LIMIT_MAX_MS) ||
           fault_set(f, FAULT_CONFIG,
                     "start_limit \"%s\" is not allowed: a time from 1s to 1h, such as 90s", limit);
}

static bool load_chunks(cfg_t *section, struct handler *h, struct fault *f)
{
    const char *wait = cfg_getstr(section, "chunk_wait");
    h->in_flight = (int)cfg_getint(section, "in_flight");
    h->chunk_size = (int)cfg_getint(section, "chunk_size");
    if (h->chunk_size > 0 && !h->pool) {
        return fault_set(
            f, FAULT_CONFIG,
            "chunk_size requires mode \"pool\": in mode \"exec\" a process has one task");
    }
    if (h->chunk_size > 0 && h->in_flight > 0) {
        return fault_set(f, FAULT_CONFIG,
                         "chunk_size and in_flight cannot be used together: a process has "
                         "chunk_size tasks");
    }
    if (h->chunk_size == 0 && wait) {
        return fault_set(f, FAULT_CONFIG, "chunk_wait requires chunk_size");
    }
    return !wait ||
           (duration_parse(wait, &h->chunk_wait_ms) && h->chunk_wait_ms >= 0 &&
            h->chunk_wait_ms <= CHUNK_WAIT_MAX_MS) ||
           fault_set(f, FAULT_CONFIG,
                     "chunk_wait \"%s\" is not allowed: a time up to 10s, such as 200ms", wait);
}

static bool load_section(struct handlers *all, cfg_t *section, struct fault *f)
{
    struct handler *h = add_handler(all, f);
    if (!h) {
        return false;
    }
    if (!load_list(section, "command", 1, &h->argv, f) ||
        !load_list(section, "pass_env", 0, &h->pass_env, f) ||
        !load_list(section, "only_env", 0, &h->only_env, f) || !load_isolation(section, h, f)) {
        all->n++;
        return false;
    }
    h->pool = strcmp(cfg_getstr(section, "mode"), "pool") == 0;
    const char *directory = cfg_getstr(section, "directory");
    h->directory = directory ? strdup(directory) : NULL;
    bool ok = set_kinds(h, all, cfg_title(section), f) && check_any(h, f) &&
              load_chunks(section, h, f) && load_start_limit(section, h, f) &&
              check_program(directory, h->argv[0], f);
    all->n++;
    return ok;
}

static bool load_sections(struct handlers *all, cfg_t *cfg, const char *path, struct fault *f)
{
    for (unsigned i = 0; i < cfg_size(cfg, "handler"); i++) {
        cfg_t *section = cfg_getnsec(cfg, "handler", i);
        if (!load_section(all, section, f)) {
            return fault_add(f, "%s:%d: handler \"%s\"", path, section->line, cfg_title(section));
        }
    }
    return true;
}

/* libconfuse takes the end of the file for that of a section, too. So a setting is put after the
 * text, which is allowed outside of sections only. */
static bool parse(cfg_t *cfg, const char *path, struct buf *text, struct fault *f)
{
    int lines = 0;
    for (const char *at = buf_text(text); *at; at++) {
        lines += *at == '\n' || at[1] == '\0';
    }
    file_error[0] = '\0';
    file_path = path;
    (void)cfg_set_error_function(cfg, keep_error);
    (void)cfg_set_validate_func(cfg, "handler|mode", check_mode);
    for (size_t i = 0; i < LIMITS; i++) {
        char path_of[32];
        (void)snprintf(path_of, sizeof path_of, "handler|%s", limits[i].name);
        (void)cfg_set_validate_func(cfg, path_of, check_limit);
    }
    buf_put_text(text, "\n" FILE_END " = true\n");
    bool ok = cfg_parse_buf(cfg, buf_text(text)) == CFG_SUCCESS;
    if (ok ? !cfg_getbool(cfg, FILE_END)
           : strstr(file_error, FILE_END) || strstr(file_error, "premature end of file")) {
        return fault_set(f, FAULT_CONFIG, "%s:%d: a section, string or comment is not closed", path,
                         lines);
    }
    return ok || fault_set(f, FAULT_CONFIG, "could not read the handlers file: %s", file_error);
}

static bool load_text(struct handlers *all, const char *path, struct buf *text, struct fault *f)
{
    cfg_opt_t handler[] = {CFG_STR_LIST("command", NULL, CFGF_NONE),
                           CFG_STR("mode", "exec", CFGF_NONE),
                           CFG_STR_LIST("pass_env", NULL, CFGF_NONE),
                           CFG_STR("directory", NULL, CFGF_NONE),
                           CFG_INT("in_flight", 0, CFGF_NONE),
                           CFG_INT("chunk_size", 0, CFGF_NONE),
                           CFG_STR("chunk_wait", NULL, CFGF_NONE),
                           CFG_STR_LIST("only_env", NULL, CFGF_NONE),
                           CFG_STR("start_limit", NULL, CFGF_NONE),
                           CFG_STR("user", NULL, CFGF_NONE),
                           CFG_BOOL("no_new_privs", cfg_false, CFGF_NONE),
                           CFG_INT("memory_mib", 0, CFGF_NONE),
                           CFG_INT("cpu_s", 0, CFGF_NONE),
                           CFG_INT("files", 0, CFGF_NONE),
                           CFG_INT("processes", 0, CFGF_NONE),
                           CFG_INT("tasks_max", 0, CFGF_NONE),
                           CFG_INT("rss_mib_max", 0, CFGF_NONE),
                           CFG_END()};
    cfg_opt_t file[] = {CFG_SEC("handler", handler, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
                        CFG_BOOL(FILE_END, cfg_false, CFGF_NONE), CFG_END()};
    cfg_t *cfg = cfg_init(file, CFGF_NONE);
    if (!cfg) {
        return fault_memory(f);
    }
    bool ok = parse(cfg, path, text, f) && load_sections(all, cfg, path, f);
    (void)cfg_free(cfg);
    return ok;
}

static bool load_file(struct handlers *all, const char *path, struct fault *f)
{
    struct buf text;
    bool ok = file_read(path, "handlers file", CONFIG_BYTES_MAX, &text, f) &&
              variables_are_set(path, buf_text(&text), f) && load_text(all, path, &text, f);
    buf_clear(&text);
    return ok;
}

/* What its section leaves to the worker's options. */
static bool finish_handler(struct handler *h, const struct options *o, struct fault *f)
{
    const char *user = option_text(o, OPTION_USER);
    h->log_stderr = option_flag(o, OPTION_LOG_STDERR);
    h->own_stderr = option_flag(o, OPTION_STDERR) && !h->log_stderr;
    h->start_limit_ms = h->start_limit_ms ? h->start_limit_ms : option_int(o, OPTION_START_LIMIT);
    if (user && !h->isolation.groups && !isolation_set_user(&h->isolation, user, f)) {
        return fault_add(f, "--user");
    }
    h->environment = environment_of(o, h->pass_env, h->only_env, h->isolation.variables);
    return h->environment || fault_memory(f);
}

bool handlers_load(const struct options *o, struct handlers *ret, struct fault *f)
{
    struct handlers all = {0};
    const char *path = option_text(o, OPTION_HANDLERS);
    bool ok = !path || load_file(&all, path, f);
    for (size_t i = 0; ok && i < option_items(o, OPTION_HANDLER); i++) {
        ok = load_flag(&all, option_item(o, OPTION_HANDLER, i), f);
    }
    if (ok && all.n == 0) {
        ok = fault_set(f, FAULT_CONFIG,
                       "no handler is given: use --handler KIND=COMMAND or --handlers FILE");
    }
    for (int i = 0; ok && i < all.n; i++) {
        ok = finish_handler(&all.items[i], o, f);
    }
    if (!ok) {
        handlers_clear(&all);
        return false;
    }
    *ret = all;
    return true;
}
