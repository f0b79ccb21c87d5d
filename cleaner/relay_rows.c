#include "cleaner/relay_state.h"

#include "cleaner/statements.h"
#include "core/base/array.h"
#include "core/base/now.h"
#include "core/base/point.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static const char *busy_text(struct relay *r, struct buf *b)
{
    struct order *o, *next;
    buf_init(b, RELAY_ARRAY_BYTES_MAX);
    array_begin(b);
    HASH_ITER(hh, r->busy, o, next)
    {
        array_put_text(b, o->key);
    }
    return array_end(b);
}

static const char *ids_text(const struct relay *r, struct buf *b)
{
    const struct message *m;
    buf_init(b, RELAY_ARRAY_BYTES_MAX);
    array_begin(b);
    DL_FOREACH(r->ready, m)
    {
        array_put_int(b, m->id);
    }
    DL_FOREACH(r->sent, m)
    {
        array_put_int(b, m->id);
    }
    return array_end(b);
}

static void read_from(struct relay *r, int64_t id)
{
    if (id > 0) {
        r->from = r->from > 0 && r->from < id ? r->from : id;
        r->settled.id = r->settled.id < id ? r->settled.id : id - 1;
    }
}

static bool tell_done(struct relay *r, struct fault *f)
{
    struct buf busy;
    struct rows *rows = NULL;
    const char *const params[] = {r->token, array_end(&r->ended.done), array_end(&r->ended.expired),
                                  busy_text(r, &busy)};
    bool ok = params[1] && params[2] && params[3] ? true : fault_memory(f);
    ok = ok && !POINT_FAILS(relay_confirmed, f) &&
         db_exec(r->db, &sql_relay_done, params, 4, &rows, f) && !POINT_FAILS(relay_deleted, f);
    if (ok) {
        read_from(r, rows_int(rows, 0, 0));
    }
    rows_free(rows);
    buf_clear(&busy);
    return ok;
}

static bool tell_failed(struct relay *r, struct fault *f)
{
    const char *const params[] = {r->token, array_end(&r->ended.failed),
                                  array_end(&r->ended.errors), array_end(&r->ended.retries)};
    return (params[1] && params[2] && params[3])
               ? db_exec(r->db, &sql_relay_failed, params, 4, NULL, f)
               : fault_memory(f);
}

bool relay_tell_ended(struct relay *r, struct fault *f)
{
    if ((r->ended.n > 0 && !tell_done(r, f)) || (r->ended.n_failed > 0 && !tell_failed(r, f))) {
        return false;
    }
    if (r->ended.n + r->ended.n_failed > 0) {
        ended_begin(&r->ended);
    }
    return true;
}

/* What was committed late is below `seen`; what was let go, too. */
bool relay_watch(struct relay *r, struct fault *f)
{
    int64_t now = now_ms(), from = settled_from(&r->settled, now);
    struct rows *rows = NULL;
    char settled[24];
    const char *const params[] = {r->token, settled};
    if (now < r->watch_ms || !atomic_exchange(&r->looks, false)) {
        return true;
    }
    (void)snprintf(settled, sizeof settled, "%lld", (long long)from);
    if (!db_exec(r->db, &sql_relay_watch, params, 2, &rows, f)) {
        return false;
    }
    const struct settled_answer answer = {.from = from,
                                          .first = rows_int(rows, 0, 1),
                                          .last = rows_int(rows, 0, 2),
                                          .xmin = rows_int(rows, 0, 3),
                                          .next = rows_int(rows, 0, 4)};
    settled_answered(&r->settled, &answer, now);
    read_from(r, rows_int(rows, 0, 0));
    rows_free(rows);
    r->watch_ms = now + RELAY_WATCH_MS;
    return true;
}

/* Messages of one key come in their order, and the first of them first. */
static bool take_message(struct relay *r, struct message *m)
{
    struct order *o = relay_order_of(r, m);
    if (!m->order_key) {
        relay_make_ready(r, m);
        return true;
    }
    if (o) {
        DL_APPEND(o->rest, m);
        r->n_rest++;
        return true;
    }
    size_t bytes = strlen(m->order_key) + 1;
    o = calloc(1, sizeof *o + bytes);
    if (!o) {
        return false;
    }
    memcpy(o->key, m->order_key, bytes);
    HASH_ADD_STR(r->busy, key, o);
    relay_make_ready(r, m);
    return true;
}

/* ret_place: the last id that was looked at, 0 = none; ret_more: there are more up to `to`. */
static bool read_rows(struct relay *r, int64_t beyond, int64_t to, bool newest, int64_t *ret_place,
                      bool *ret_more, struct fault *f)
{
    enum { PLACE = 12, MORE };
    char from_text[24], to_text[24], most[24];
    struct buf busy, ids;
    struct rows *rows = NULL;
    const char *const params[] = {
        r->token,          from_text,          to_text, most, newest ? "t" : "f",
        ids_text(r, &ids), busy_text(r, &busy)};
    (void)snprintf(from_text, sizeof from_text, "%lld", (long long)beyond);
    (void)snprintf(to_text, sizeof to_text, "%lld", (long long)to);
    (void)snprintf(most, sizeof most, "%d", newest ? RELAY_NEWEST_ROWS : RELAY_ROWS);
    bool ok = params[5] && params[6] ? true : fault_memory(f);
    ok = ok && db_exec(r->db, &sql_relay_read, params, 7, &rows, f);
    if (ok && rows_count(rows) > 1) {
        ok = !POINT_FAILS(relay_read, f);
    }
    for (size_t i = 1; ok && i < rows_count(rows); i++) {
        struct message *m = message_read(rows, i, now_ms());
        if (!m || !take_message(r, m)) {
            free(m);
            ok = fault_memory(f);
        }
    }
    if (ok) {
        *ret_place = rows_int(rows, 0, PLACE);
        *ret_more = rows_bool(rows, 0, MORE);
    }
    rows_free(rows);
    buf_clear(&busy);
    buf_clear(&ids);
    return ok;
}

int64_t relay_read_due(const struct relay *r)
{
    size_t n = r->n_ready + r->n_sent;
    if (n >= RELAY_WINDOW || (r->from == 0 && !r->more && !atomic_load(&r->called))) {
        return INT64_MAX;
    }
    if (r->from > 0 || !r->more) {
        return 0;
    }
    return r->read_ms + (n + r->n_rest >= RELAY_WINDOW ? RELAY_AHEAD_MS : r->pause_ms);
}

/* A read that only held rows is followed by a pause as long as it took, so that messages that go
 * out meanwhile do not wait for such a read each. */
static bool read_above(struct relay *r, bool newest, int64_t *ret_place, bool *ret_more,
                       struct fault *f)
{
    size_t before = r->n_ready + r->n_rest;
    int64_t begun_ms = now_ms();
    bool ok = read_rows(r, r->seen, INT64_MAX, newest, ret_place, ret_more, f);
    r->read_ms = now_ms();
    r->pause_ms = r->n_ready + r->n_rest > before ? 0 : r->read_ms - begun_ms;
    r->pause_ms = r->pause_ms < RELAY_AHEAD_MS ? r->pause_ms : RELAY_AHEAD_MS;
    return ok;
}

/* What is below `seen` first; then what is above, and every other time the newest of that, so that
 * a backlog does not keep a new message of another key waiting. */
bool relay_read_more(struct relay *r, struct fault *f)
{
    int64_t place = 0;
    bool more = false;
    if (relay_read_due(r) > now_ms()) {
        return true;
    }
    if (r->from > 0) {
        bool ok = read_rows(r, r->from - 1, r->seen, false, &place, &more, f);
        r->from = more && place >= r->from ? place + 1 : 0;
        return ok;
    }
    if (!r->more) {
        atomic_store(&r->called, false);
    }
    r->newest = r->more && !r->newest;
    if (r->newest) {
        return read_above(r, true, &place, &more, f);
    }
    if (!read_above(r, false, &place, &more, f)) {
        return false;
    }
    r->seen = place > r->seen ? place : r->seen;
    r->more = more;
    return true;
}
