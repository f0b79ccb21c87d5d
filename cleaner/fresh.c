#include "cleaner/chores.h"

#include "cleaner/relay.h"
#include "cleaner/statements.h"
#include "cleaner/wake.h"
#include "core/base/array.h"
#include "core/base/point.h"

#include <stdio.h>

enum {
    FRESH_ROWS = 1000,   /* above the watermark, at a time */
    FRESH_GAPS_MS = 500, /* while ids are missing whose transaction is open, no longer than this */
    FRESH_ARRAY_BYTES_MAX = WATERMARK_GAPS_MAX * 20 + 2,
};

/* The columns of fresh.sql without those that wake_row() knows. */
enum { DELAYED = 3, ANNOUNCED, WANTED, BLOCKED, RUNNING, XMAX, NEXT, UNSETTLED, MESSAGE };

bool fresh_start(struct cleaner *c, int64_t now_ms, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_script(c->hot, "LISTEN tenon", f) ||
        !db_exec(c->hot, &sql_fresh_start, NULL, 0, &rows, f)) {
        return false;
    }
    watermark_start(&c->watermark, rows_int(rows, 0, 0));
    (void)snprintf(c->sleeper_key, sizeof c->sleeper_key, "%s", rows_text(rows, 0, 1));
    pace_start(&c->pace, now_ms);
    c->notified = c->reread = c->settled_many = false;
    c->message = 0;
    rows_free(rows);
    return true;
}

bool fresh_stop(struct cleaner *c, struct fault *f)
{
    const char *const params[] = {c->sleeper_key};
    return !c->pace.asleep || db_exec(c->hot, &sql_fresh_unlock, params, 1, NULL, f);
}

/* Asleep we hold the lock, and a session that waits for it does no harm yet. */
bool fresh_disturbed(struct cleaner *c, struct fault *f)
{
    struct rows *rows = NULL;
    const char *const params[] = {c->key};
    if (c->pace.asleep) {
        return true;
    }
    if (!db_exec(c->hot, &sql_fresh_disturbed, params, 1, &rows, f)) {
        return false;
    }
    if (rows_count(rows) == 1) {
        (void)snprintf(c->sleeper_key, sizeof c->sleeper_key, "%s", rows_text(rows, 0, 0));
    }
    rows_free(rows);
    return true;
}

/* The lock or its release, and the rows, in one round trip: statements of one batch have a snapshot
 * each, so the second sees all that was committed before the lock was granted. */
static bool read_fresh(struct cleaner *c, enum pace_act act, const char *gaps, struct rows **ret,
                       bool *ret_granted, struct fault *f)
{
    char mark[24], limit[24], settled[24], seen[24];
    const char *const params[] = {mark, gaps, limit, settled, seen};
    const char *const key[] = {c->sleeper_key};
    struct db_call calls[2];
    size_t n = 0;
    (void)snprintf(mark, sizeof mark, "%lld", (long long)c->watermark.id);
    (void)snprintf(settled, sizeof settled, "%lld", (long long)c->settled.id);
    (void)snprintf(limit, sizeof limit, "%d", FRESH_ROWS);
    (void)snprintf(seen, sizeof seen, "%lld", (long long)relay_seen(c->relay));
    if (act != PACE_READ) {
        calls[n++] = (struct db_call){.statement = act == PACE_LOCK ? &sql_fresh_lock
                                                                    : &sql_fresh_unlock,
                                      .params = key,
                                      .n_params = 1};
    }
    calls[n++] = (struct db_call){.statement = &sql_fresh, .params = params, .n_params = 5};
    if (!db_batch(c->hot, calls, n, DB_ANSWER_LIMIT_MS, NULL, f)) {
        return false;
    }
    *ret = calls[n - 1].rows;
    *ret_granted = n == 2 && rows_bool(calls[0].rows, 0, 0);
    if (n == 2) {
        rows_free(calls[0].rows);
    }
    return true;
}

struct news {
    size_t above; /* rows above the old watermark */
    enum pace_news news;
    bool delayed;   /* one of them has a run_at ahead */
    bool blocked;   /* one of them is */
    bool unsettled; /* there is something to settle */
};

static struct news take_rows(struct cleaner *c, const struct rows *rows, int64_t now_ms)
{
    int64_t message = rows_int(rows, 0, MESSAGE); /* above those that the relay has read */
    struct news news = {.news = message > c->message ? PACE_ROWS : PACE_NOTHING,
                        .unsettled = rows_bool(rows, 0, UNSETTLED)};
    struct snapshot snapshot;
    int64_t mark = c->watermark.id;
    if (message > 0) {
        relay_call(c->relay);
        c->message = message;
    }
    snapshot_read(&snapshot, rows_text(rows, 0, RUNNING), rows_int(rows, 0, XMAX),
                  rows_int(rows, 0, NEXT));
    watermark_snapshot(&c->watermark, &snapshot);
    for (size_t i = 1; i < rows_count(rows); i++) {
        int64_t id = rows_int(rows, i, 0);
        news.above += id > mark;
        if (!watermark_see(&c->watermark, id, now_ms)) {
            continue;
        }
        news.news = rows_bool(rows, i, ANNOUNCED) && news.news != PACE_ROWS ? PACE_ANNOUNCED
                                                                            : PACE_ROWS;
        news.delayed = news.delayed || rows_bool(rows, i, DELAYED);
        news.blocked = news.blocked || rows_bool(rows, i, BLOCKED);
        if (rows_bool(rows, i, WANTED)) {
            c->counts.fresh += wake_row(c, rows, i);
            POINT(fresh_published);
        }
    }
    return news;
}

static const char *gaps_text(struct cleaner *c, bool all, int64_t now_ms, struct buf *text)
{
    int64_t ids[WATERMARK_GAPS_MAX];
    size_t n = watermark_ask(&c->watermark, now_ms, all, ids);
    array_begin(text);
    for (size_t i = 0; i < n; i++) {
        array_put_int(text, ids[i]);
    }
    return array_end(text);
}

bool fresh_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    bool notified = c->notified;
    enum pace_act act = pace_plan(&c->pace, notified, turn->now_ms);
    struct buf gaps;
    struct rows *rows = NULL;
    bool granted = false;
    c->notified = false;
    buf_init(&gaps, FRESH_ARRAY_BYTES_MAX);
    const char *text = gaps_text(c, act != PACE_READ || c->reread, turn->now_ms, &gaps);
    bool ok = text ? read_fresh(c, act, text, &rows, &granted, f) : fault_memory(f);
    buf_clear(&gaps);
    if (ok && rows_count(rows) > 1 && POINT_FAILS(fresh_read, f)) {
        rows_free(rows);
        ok = false;
    }
    if (!ok) {
        c->reread = false;
        pace_failed(&c->pace);
        return false;
    }
    struct news news = take_rows(c, rows, turn->now_ms);
    rows_free(rows);
    news.news = c->settled_many ? PACE_ROWS : news.news;
    c->settled_many = false;
    if (notified && news.news != PACE_ROWS) {
        throttle_charge(&c->reads, turn->now_ms);
    }
    /* who sleeps, is about to, or was called, reads once more: which transactions had ended, this
     * read has told */
    c->reread = !c->reread && (act != PACE_READ || c->pace.asleep) &&
                watermark_has_ended(&c->watermark, turn->now_ms);
    turn->more = news.above == FRESH_ROWS || c->reread;
    turn->next_ms = pace_done(&c->pace, act, granted, news.news, turn->more, turn->now_ms);
    if (c->watermark.n > 0 && turn->next_ms > turn->now_ms + FRESH_GAPS_MS) {
        turn->next_ms = turn->now_ms + FRESH_GAPS_MS;
    }
    if (news.delayed) {
        chores_hurry(c, CHORE_DUE, turn->now_ms);
    }
    if (news.blocked) {
        chores_hurry(c, CHORE_SETTLE, turn->now_ms);
    } else if (news.unsettled) {
        settle_call(c, turn->now_ms);
    }
    return true;
}
