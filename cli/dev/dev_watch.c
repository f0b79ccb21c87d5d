/* What `tenon dev` watches. It reads what is there, and is not told: a file that an editor replaces
 * is seen, and so is a folder that comes from elsewhere. */
#include "cli/dev/dev.h"
#include "worker/handler.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FOLDERS_OPEN_MAX = 16, FILES_MAX = 20000, WORD_BYTES = 512 };

/* nftw() hands nothing on. */
static struct watched *scanned;
static int n_files;

static void add(uint64_t value)
{
    scanned->files = (scanned->files ^ value) * UINT64_C(1099511628211); /* FNV-1a */
}

static void add_file(const char *path, const struct stat *s)
{
    int64_t ns = s->st_mtim.tv_sec * INT64_C(1000000000) + s->st_mtim.tv_nsec;
    add((uint64_t)s->st_ino);
    add((uint64_t)s->st_size);
    add((uint64_t)ns);
    if (ns > scanned->newest_ns) {
        scanned->newest_ns = ns;
        (void)snprintf(scanned->newest, sizeof scanned->newest, "%s", path);
    }
}

static bool is_left_out(const char *name)
{
    return (*name == '.' && name[1]) || strcmp(name, "node_modules") == 0 ||
           strcmp(name, "__pycache__") == 0;
}

static int take_entry(const char *path, const struct stat *s, int type, struct FTW *at)
{
    if (at->level > 0 && is_left_out(path + at->base)) {
        return FTW_SKIP_SUBTREE;
    }
    if (type == FTW_F && n_files++ < FILES_MAX) {
        add_file(path, s);
    }
    return n_files < FILES_MAX ? FTW_CONTINUE : FTW_STOP;
}

static void scan(const char *path)
{
    (void)nftw(path, take_entry, FOLDERS_OPEN_MAX, FTW_ACTIONRETVAL);
}

/* A word of a command, when it is a file: a program by its path, a script. */
static void scan_word(const char *directory, const char *word, size_t bytes)
{
    char path[2 * WORD_BYTES];
    struct stat s;
    bool is_relative = directory && *word != '/';
    (void)snprintf(path, sizeof path, "%s%s%.*s", is_relative ? directory : "",
                   is_relative ? "/" : "", (int)bytes, word);
    if (bytes > 0 && bytes < WORD_BYTES && stat(path, &s) == 0 && S_ISREG(s.st_mode)) {
        add_file(path, &s);
    }
}

/* The words of a shell's command are between spaces. */
static void scan_words(const char *directory, const char *text)
{
    for (const char *at = text; *at; at += strspn(at, " \t\n")) {
        size_t bytes = strcspn(at, " \t\n");
        scan_word(directory, at, bytes);
        at += bytes;
    }
}

/* With a mistake in the handlers file there is that alone to watch; the worker says which. */
static void scan_commands(const struct options *o)
{
    struct handlers handlers;
    struct fault f = {.code = FAULT_NONE};
    if (!handlers_load(o, &handlers, &f)) {
        return;
    }
    for (int i = 0; i < handlers.n; i++) {
        for (char **word = handlers.items[i].argv; *word; word++) {
            scan_words(handlers.items[i].directory, *word);
        }
    }
    handlers_clear(&handlers);
}

void watched_read(const struct options *o, struct watched *ret)
{
    *ret = (struct watched){.files = UINT64_C(14695981039346656037)};
    scanned = ret;
    n_files = 0;
    if (option_text(o, OPTION_HANDLERS)) {
        scan(option_text(o, OPTION_HANDLERS));
    }
    scan_commands(o);
    for (size_t i = 0; i < options_args(o); i++) {
        scan(options_arg(o, i));
    }
}
