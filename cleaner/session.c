#include "cleaner/session.h"

#include "cleaner/chores.h"
#include "cleaner/statements.h"
#include "cleaner/wake.h"
#include "core/base/insecure.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/db/schema.h"

#include <stdio.h>
#include <string.h>

static const char session_name[] = "tenon cleaner";

/* The lock counts by who logged in. */
static bool session_fits(const struct rows *rows, struct fault *f)
{
    enum { ROLE = 4, COUNTS };
    return rows_bool(rows, 0, COUNTS) ||
           fault_set(f, FAULT_CONFIG,
                     "the role %s may not run a cleaner: grant it the rights itself with tenon "
                     "setup --grant-cleaner, not a role that it can become",
                     rows_text(rows, 0, ROLE));
}

static bool session_read(struct cleaner *c, struct db *db, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_session, NULL, 0, &rows, f)) {
        return false;
    }
    bool ok = session_fits(rows, f);
    if (c->exchange[0] == '\0') {
        (void)snprintf(c->exchange, sizeof c->exchange, "%s", rows_text(rows, 0, 0));
    }
    (void)snprintf(c->key, sizeof c->key, "%s", rows_text(rows, 0, 2));
    rows_free(rows);
    return ok;
}

static bool session_open(struct cleaner *c, struct fault *f)
{
    struct db *db = NULL;
    if (!db_open(c->database_url, DB_LEADER, session_name, &db, f)) {
        return false;
    }
    if (!schema_check_home(db, f) || !session_read(c, db, f) || !wake_open(c, f)) {
        db_close(db);
        return false;
    }
    c->hot = db;
    return true;
}

static void log_up(const struct cleaner *c)
{
    char amqp[256] = "none", insecure[INSECURE_BYTES];
    if (c->amqp_url) {
        amqp_url_mask(c->amqp_url, amqp, sizeof amqp);
    }
    log_event(LOG_INFO, LOG_EVENT(c->was_up ? "database_up" : "cleaner_started"),
              LOG_TEXT("version", c->was_up ? NULL : TENON_VERSION),
              LOG_TEXT("database", db_where(c->hot)), LOG_TEXT("amqp", c->was_up ? NULL : amqp),
              LOG_TEXT("insecure",
                       insecure_text(db_insecure(c->hot), c->amqp_url, c->otlp_url, insecure)));
}

/* What trying again cannot mend: a schema that is too new always, the rest only at the start. */
static bool is_final(const struct cleaner *c, const struct fault *f)
{
    return c->once || f->code == FAULT_SCHEMA || (!fault_passes(f) && !c->was_up);
}

static void note_down(struct cleaner *c, const struct fault *f)
{
    if (is_final(c, f)) {
        log_fault(LOG_ERROR, "cleaner_failed", f);
        c->exit_code = fault_exit_code(f);
        c->ended = true;
    } else if (strcmp(c->down, f->text) != 0) { /* a person may have to mend what is new */
        log_fault(LOG_WARNING, "database_down", f);
    }
    (void)snprintf(c->down, sizeof c->down, "%s", f->text);
    c->connect_failures++;
    c->reconnect_ms = now_ms() +
                      now_pause_ms(c->connect_failures, SESSION_PAUSE_MIN_MS, SESSION_PAUSE_MAX_MS);
}

int64_t session_connect(struct cleaner *c, int64_t at_ms)
{
    struct fault f = {.code = FAULT_NONE};
    if (at_ms < c->reconnect_ms) {
        return c->reconnect_ms;
    }
    if (!session_open(c, &f)) {
        note_down(c, &f);
        return c->reconnect_ms;
    }
    log_up(c);
    c->was_up = true;
    c->down[0] = '\0';
    c->connect_failures = 0;
    c->led_ms = now_ms();
    verdict_start(&c->verdict, now_ms());
    c->settled = (struct settled){.all_ms = 0};
    chores_start(c, at_ms);
    return at_ms;
}

void session_lost(struct cleaner *c, const struct fault *f)
{
    db_close(c->hot);
    c->hot = NULL;
    note_down(c, f);
    if (c->leader) {
        c->leader = false;
        log_event(LOG_INFO, LOG_EVENT("leader_lost"));
    }
}
