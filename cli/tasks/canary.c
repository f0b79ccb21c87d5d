/* `tenon canary`: sends one task the whole way, and says how long each part took. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/base/now.h"
#include "core/db/db.h"
#include "core/db/schema.h"

#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 10000, EVERY_MS = 10, MS_BYTES = 24 };
enum { ENDED, STATE, QUEUE, START_MS, END_MS }; /* the columns of canary_state.sql */
enum { SENTENCE, ADVICE };                      /* of why.sql */

struct canary {
    struct db *db;
    const char *kind, *queue; /* NULL: that of its kind */
    int64_t wait_ms;
    char id[MS_BYTES];
    int64_t commit_ms;
    struct rows *rows; /* its state; none: it is gone, as no history is kept */
};

/* Enqueue it, as a transaction of its own. */
static bool release(struct canary *c, struct fault *f)
{
    char wait[MS_BYTES];
    const char *const params[] = {c->kind, c->queue, wait};
    struct rows *rows = NULL;
    int64_t begun_ms = now_ms();
    (void)snprintf(wait, sizeof wait, "%lld", (long long)c->wait_ms);
    if (!db_exec(c->db, &sql_canary, params, 3, &rows, f)) {
        return fault_add(f, "could not enqueue the canary");
    }
    c->commit_ms = now_ms() - begun_ms;
    (void)snprintf(c->id, sizeof c->id, "%s", rows_text(rows, 0, 0));
    rows_free(rows);
    return true;
}

static bool read_state(struct canary *c, struct fault *f)
{
    const char *const params[] = {c->id};
    rows_free(c->rows);
    c->rows = NULL;
    return db_exec(c->db, &sql_canary_state, params, 1, &c->rows, f) ||
           fault_add(f, "could not read task %s", c->id);
}

static bool has_ended(const struct canary *c)
{
    return rows_count(c->rows) == 0 || rows_bool(c->rows, 0, ENDED);
}

static bool wait_for_end(struct canary *c, struct fault *f)
{
    int64_t until_ms = now_ms() + c->wait_ms;
    bool ok;
    while ((ok = read_state(c, f)) && !has_ended(c) && now_ms() < until_ms) {
        (void)poll(NULL, 0, EVERY_MS);
    }
    return ok;
}

static const char *cell(const struct canary *c, int column)
{
    return rows_count(c->rows) > 0 ? rows_text(c->rows, 0, column) : NULL;
}

/* Without a history it has ended well, or its row would be among the dead. */
static const char *state_of(const struct canary *c)
{
    return rows_count(c->rows) > 0 ? cell(c, STATE) : "done";
}

static json_t *ms(const char *text)
{
    return text ? json_real(strtod(text, NULL)) : json_null();
}

static void print_json(const struct canary *c, const char *why, const char *advice)
{
    const char *queue = rows_count(c->rows) > 0 ? cell(c, QUEUE) : c->queue;
    json_t *o = json_pack("{s:I, s:s, s:s?, s:s, s:I, s:o, s:o, s:s?, s:s?}", "id",
                          (json_int_t)strtoll(c->id, NULL, 10), "kind", c->kind, "queue", queue,
                          "state", state_of(c), "commit_ms", (json_int_t)c->commit_ms, "start_ms",
                          ms(cell(c, START_MS)), "end_ms", ms(cell(c, END_MS)), "why", why,
                          "advice", advice);
    (void)json_dumpf(o, stdout, JSON_REAL_PRECISION(6));
    (void)putchar('\n');
    json_decref(o);
}

static void print_text(const struct canary *c)
{
    const char *const names[] = {"started after ms", "ended after ms"};
    char commit[MS_BYTES];
    (void)snprintf(commit, sizeof commit, "%lld", (long long)c->commit_ms);
    print_pair("task", c->id);
    print_pair("state", state_of(c));
    print_pair("committed after ms", commit);
    for (int i = 0; i < 2; i++) {
        if (cell(c, START_MS + i)) {
            print_pair(names[i], cell(c, START_MS + i));
        }
    }
}

static bool report(const struct canary *c, bool json, struct fault *f)
{
    const char *const params[] = {c->id};
    struct rows *rows = NULL;
    bool well = strcmp(state_of(c), "done") == 0;
    if (!well && !db_exec(c->db, &sql_why, params, 1, &rows, f)) {
        return fault_add(f, "could not read the state of task %s", c->id);
    }
    const char *why = well ? NULL : rows_text(rows, 0, SENTENCE);
    const char *advice = well ? NULL : rows_text(rows, 0, ADVICE);
    if (json) {
        print_json(c, why, advice);
    } else {
        print_text(c);
    }
    if (!well) {
        (void)fault_set(f, FAULT_ABSENT, "the canary, task %s, %s within %lld ms: %s%s%s", c->id,
                        has_ended(c) ? "did not end well" : "has not ended", (long long)c->wait_ms,
                        why, advice ? " What to do: " : "", advice ? advice : "");
    }
    rows_free(rows);
    return well;
}

/* What nobody waits for any more does not run later. */
static bool call_back(const struct canary *c, struct fault *f)
{
    const char *const params[] = {c->id};
    struct rows *rows = NULL;
    bool ok = db_exec(c->db, &sql_canary_cancel, params, 1, &rows, f) ||
              fault_add(f, "could not cancel task %s", c->id);
    rows_free(rows);
    return ok;
}

bool canary_run(const struct options *o, struct fault *f)
{
    struct fault late = {.code = FAULT_NONE};
    const char *kind = option_text(o, OPTION_KIND);
    struct canary c = {.kind = kind ? kind : "canary", .queue = option_text(o, OPTION_QUEUE)};
    c.wait_ms = option_is_given(o, OPTION_TIMEOUT) ? option_int(o, OPTION_TIMEOUT) : WAIT_MS;
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN, "tenon canary", &c.db, f) &&
              schema_check(c.db, f) && release(&c, f) && wait_for_end(&c, f) &&
              report(&c, option_flag(o, OPTION_JSON), f);
    if (!ok && c.id[0] && !has_ended(&c)) {
        (void)call_back(&c, &late); /* the first fault is the one to tell */
    }
    rows_free(c.rows);
    db_close(c.db);
    return ok;
}
