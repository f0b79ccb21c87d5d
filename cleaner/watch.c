#include "cleaner/chores.h"

#include "cleaner/relay.h"
#include "cleaner/statements.h"
#include "core/base/log.h"
#include "core/base/point.h"
#include "core/base/service.h"

#include <stdio.h>
#include <string.h>

enum {
    NOW_US,
    FRESH,
    DUE_MS,
    SCHEDULE_MS,
    SUSPECT,
    SETTLE_MS,
    MESSAGES,
    LEADER_KEY,
    LED,
    DISTURBED,
};

/* The session whose key tenon.setting names leads, until it ends. The last leader may have declared
 * workers dead, and not recovered their tasks. */
static bool lead(struct cleaner *c, int64_t now_us, const struct turn *turn, struct fault *f)
{
    if (POINT_FAILS(leader_elected, f)) {
        return false;
    }
    if (!fresh_start(c, turn->now_ms, f)) {
        return false;
    }
    c->leader = true;
    c->due_us = now_us;
    verdict_forget(&c->verdict);
    pass_want(&c->pass);
    chores_hurry(c, CHORE_RECOVER, turn->now_ms);
    log_event(LOG_INFO, LOG_EVENT("leader"));
    return true;
}

/* Nobody leads who may: write our key, unless somebody was faster. */
static bool elect(struct cleaner *c, const char *last_key, bool *ret_ours, struct fault *f)
{
    struct rows *rows = NULL;
    const char *const params[] = {c->key, last_key};
    if (!db_exec(c->hot, &sql_watch_lead, params, 2, &rows, f)) {
        return fault_add(f, "could not become the leader");
    }
    *ret_ours = rows_count(rows) == 1;
    rows_free(rows);
    return true;
}

/* Lead, continue, or stop when another's key is there. */
static bool take_lead(struct cleaner *c, const struct rows *rows, const struct turn *turn,
                      struct fault *f)
{
    bool ours = strcmp(rows_text(rows, 0, LEADER_KEY), c->key) == 0;
    bool led = rows_bool(rows, 0, LED);
    if (!led && !ours && !elect(c, rows_text(rows, 0, LEADER_KEY), &ours, f)) {
        return false;
    }
    if (c->leader && !ours) {
        c->leader = false;
        log_event(LOG_INFO, LOG_EVENT("leader_lost"));
        return fresh_stop(c, f);
    }
    if (c->once && !ours) {
        log_event(LOG_INFO, LOG_EVENT("leader_is_another"));
    }
    return c->leader || !ours || lead(c, rows_int(rows, 0, NOW_US), turn, f);
}

/* Only the leader asks for rows. */
static bool ask(struct cleaner *c, struct rows **ret, struct fault *f)
{
    char mark[24], due[24], settled[24];
    const char *const params[] = {c->leader ? mark : NULL, c->leader ? due : NULL, settled};
    (void)snprintf(mark, sizeof mark, "%lld", (long long)c->watermark.id);
    (void)snprintf(due, sizeof due, "%lld", (long long)c->due_us);
    (void)snprintf(settled, sizeof settled, "%lld", (long long)c->settled.id);
    return db_exec(c->hot, &sql_watch, params, 3, ret, f);
}

/* A cleaner with something to do has a turn in this round, or when the next row is due. */
static void hurry(struct cleaner *c, const struct rows *rows, int64_t now_ms)
{
    if (rows_bool(rows, 0, FRESH) || c->watermark.n > 0) {
        chores_hurry(c, CHORE_FRESH, now_ms);
    }
    if (!rows_is_null(rows, 0, DUE_MS)) {
        chores_hurry(c, CHORE_DUE, now_ms + rows_int(rows, 0, DUE_MS));
    }
    if (!rows_is_null(rows, 0, SETTLE_MS)) {
        chores_hurry(c, CHORE_SETTLE, now_ms + rows_int(rows, 0, SETTLE_MS));
    }
    if (!rows_is_null(rows, 0, SCHEDULE_MS)) {
        chores_hurry(c, CHORE_SCHEDULES, now_ms + rows_int(rows, 0, SCHEDULE_MS));
    }
    if (rows_bool(rows, 0, SUSPECT)) {
        chores_hurry(c, CHORE_WORKERS, now_ms);
    }
    if (rows_bool(rows, 0, MESSAGES)) {
        relay_call(c->relay);
    }
}

/* Without a leader tasks run all the same, later: nobody wakes workers for those who use SQL
 * alone. */
static void note_leader(struct cleaner *c, bool led, int64_t now_ms)
{
    if (led) {
        c->led_ms = now_ms;
        c->leaderless = false;
    } else if (!c->leaderless && now_ms - c->led_ms >= CLEANER_LEADERLESS_MS) {
        c->leaderless = true;
        log_event(LOG_ERROR, LOG_EVENT("no_leader"), LOG_NUM("for_ms", now_ms - c->led_ms));
    }
}

bool watch_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    note_leader(c, false, turn->now_ms);
    if (!ask(c, &rows, f)) {
        return false;
    }
    if (!c->once) {
        hurry(c, rows, turn->now_ms);
    }
    bool disturbed = rows_bool(rows, 0, DISTURBED);
    bool ok = take_lead(c, rows, turn, f);
    if (ok) {
        note_leader(c, c->leader || rows_bool(rows, 0, LED), turn->now_ms);
        service_ready(); /* it leads, or stands by */
    }
    rows_free(rows);
    return ok && (!c->leader || !disturbed || fresh_disturbed(c, f));
}
