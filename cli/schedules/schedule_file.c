/* `tenon schedule sync FILE`: a file of schedules, a line each (docs/schedules.md).
 *
 *   zone=Europe/Berlin                                  for the lines below
 *   NAME MINUTE HOUR DAY MONTH WEEKDAY KIND [KEY=VALUE ...] [PAYLOAD]
 *   NAME @daily KIND ...
 *   NAME every 5min KIND ... */
#include "cli/print.h"
#include "cli/schedules/schedule.h"
#include "cli/statements.h"
#include "core/base/file.h"

#include <inttypes.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20, CRON_FIELDS = 5, CRON_BYTES = 512, TIME_BYTES = 32 };

static const char *const keys[] = {"zone",     "catch_up",     "overlap", "queue",
                                   "priority", "max_attempts", "timeout"};
enum { KEYS = sizeof keys / sizeof *keys, KEY_TIMEOUT = KEYS - 1 };

/* What the lines above said, and what is made of them. */
struct reading {
    const char *path;
    int line;
    const char *values[KEYS]; /* in the file's text; NULL = not said */
    struct buf json;
};

static bool refuse(const struct reading *r, struct fault *f, const char *what, const char *word)
{
    return fault_set(f, FAULT_CONFIG, "%s:%d: %s%.100s", r->path, r->line, what, word);
}

/* The next word, NULL at the end. */
static char *word_next(char **rest)
{
    char *word;
    while ((word = strsep(rest, " \t\r")) && !*word) {
    }
    return word;
}

/* --- one line ------------------------------------------------------------------------------- */

static void put_member(struct buf *b, const char *key, const char *text)
{
    if (text) {
        buf_printf(b, ", \"%s\": ", key);
        buf_put_json(b, text, strlen(text));
    }
}

/* "5min" as PostgreSQL reads it. */
static bool put_time(struct reading *r, const char *key, const char *text, struct fault *f)
{
    char time[TIME_BYTES];
    int64_t ms;
    if (!text || !duration_parse(text, &ms)) {
        return refuse(r, f, "a time must be a number and ms, s, min, h or d, not ",
                      text ? text : "nothing");
    }
    (void)snprintf(time, sizeof time, "%" PRId64 " ms", ms);
    put_member(&r->json, key, time);
    return true;
}

/* "zone=Europe/Berlin" */
static bool take_value(const struct reading *r, char *word, const char **values, struct fault *f)
{
    char *value = strchr(word, '=');
    *value++ = '\0';
    for (char *c = word; *c; c++) {
        *c = *c == '-' ? '_' : *c;
    }
    for (size_t i = 0; i < KEYS; i++) {
        if (strcmp(word, keys[i]) == 0) {
            values[i] = value;
            return true;
        }
    }
    return refuse(
        r, f,
        "the keys are zone, catch_up, overlap, queue, priority, max_attempts and timeout, "
        "not ",
        word);
}

static bool is_value(const char *word)
{
    return strchr(word, '=') && !strchr("{[\"", *word);
}

static bool put_when(struct reading *r, char **rest, struct fault *f)
{
    char cron[CRON_BYTES] = "", *word = word_next(rest);
    if (word && strcmp(word, "every") == 0) {
        return put_time(r, "every", word_next(rest), f);
    }
    for (int i = 1; word; i++) {
        size_t len = strlen(cron);
        (void)snprintf(cron + len, sizeof cron - len, "%s%s", len ? " " : "", word);
        if (*cron == '@' || i == CRON_FIELDS) {
            break;
        }
        word = word_next(rest);
    }
    put_member(&r->json, "cron", cron);
    return true;
}

/* The values, and what is left: the payload. */
static bool put_rest(struct reading *r, char *rest, struct fault *f)
{
    const char *values[KEYS];
    memcpy(values, r->values, sizeof values);
    while (rest && *(rest += strspn(rest, " \t\r")) && !strchr("{[\"", *rest)) {
        char *word = word_next(&rest);
        if (!is_value(word)) {
            return refuse(r, f, "expected KEY=VALUE or a JSON object, got ", word);
        }
        if (!take_value(r, word, values, f)) {
            return false;
        }
    }
    for (int i = 0; i < KEY_TIMEOUT; i++) {
        put_member(&r->json, keys[i], values[i]);
    }
    put_member(&r->json, "payload", rest && *rest ? rest : NULL);
    return !values[KEY_TIMEOUT] || put_time(r, keys[KEY_TIMEOUT], values[KEY_TIMEOUT], f);
}

static bool put_schedule(struct reading *r, const char *name, char *rest, struct fault *f)
{
    buf_printf(&r->json, "%s{\"line\": %d", r->json.len > 1 ? ",\n" : "", r->line);
    put_member(&r->json, "name", name);
    if (!put_when(r, &rest, f)) {
        return false;
    }
    const char *kind = word_next(&rest);
    if (!kind) {
        return refuse(r, f, "expected NAME, a cron expression or every TIME, and KIND, got only ",
                      name);
    }
    put_member(&r->json, "kind", kind);
    if (!put_rest(r, rest, f)) {
        return false;
    }
    buf_put_char(&r->json, '}');
    return true;
}

static bool read_line(struct reading *r, char *line, struct fault *f)
{
    char *rest = line, *word = word_next(&rest);
    if (!word || *word == '#') {
        return true;
    }
    if (!is_value(word)) {
        return put_schedule(r, word, rest, f);
    }
    for (; word; word = word_next(&rest)) {
        if (!is_value(word)) {
            return refuse(r, f, "expected KEY=VALUE, got ", word);
        }
        if (!take_value(r, word, r->values, f)) {
            return false;
        }
    }
    return true;
}

/* --- the file ------------------------------------------------------------------------------- */

static bool read_lines(struct reading *r, char *text, struct fault *f)
{
    char *line;
    buf_put_char(&r->json, '[');
    while ((line = strsep(&text, "\n"))) {
        r->line++;
        if (!read_line(r, line, f)) {
            return false;
        }
    }
    buf_put_char(&r->json, ']');
    return !r->json.failed || fault_memory(f);
}

static void print_changes(const struct rows *rows, bool json, bool dry_run)
{
    size_t n = rows_count(rows);
    if (json) {
        (void)printf("{\"dry_run\": %s, \"changes\": [", dry_run ? "true" : "false");
    }
    for (size_t i = 0; i < n; i++) {
        if (json) {
            (void)printf("%s\n  %s", i ? "," : "", rows_text(rows, i, 2));
        } else {
            (void)printf("%s%s %s\n", dry_run ? "would be " : "", rows_text(rows, i, 1),
                         rows_text(rows, i, 0));
        }
    }
    (void)fputs(json ? "]}\n" : n > 0 ? "" : "no changes\n", stdout);
}

/* In a transaction, which a dry run rolls back. */
static bool sync_lines(struct db *db, const struct reading *r, const struct options *o,
                       struct fault *f)
{
    const char *slash = strrchr(r->path, '/');
    const char *const params[] = {slash ? slash + 1 : r->path, buf_text(&r->json)};
    bool dry_run = option_flag(o, OPTION_DRY_RUN);
    struct rows *rows = NULL;
    if (!db_script(db, "BEGIN", f) || !db_exec(db, &sql_schedule_sync, params, 2, &rows, f) ||
        !db_script(db, dry_run ? "ROLLBACK" : "COMMIT", f)) {
        rows_free(rows);
        return fault_add(f, "could not sync the schedules");
    }
    print_changes(rows, option_flag(o, OPTION_JSON), dry_run);
    rows_free(rows);
    return true;
}

bool schedule_sync(struct db *db, const struct options *o, struct fault *f)
{
    struct reading r = {.path = options_arg(o, 1)};
    struct buf text;
    buf_init(&r.json, 4 * FILE_BYTES_MAX);
    bool ok = file_read(r.path, "file of schedules", FILE_BYTES_MAX, &text, f);
    ok = ok && read_lines(&r, text.data, f) && sync_lines(db, &r, o, f);
    buf_clear(&text);
    buf_clear(&r.json);
    return ok;
}
