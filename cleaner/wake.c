#include "cleaner/wake.h"

#include "cleaner/statements.h"
#include "core/base/log.h"

#include <stdio.h>
#include <string.h>

bool wake_open(struct cleaner *c, struct fault *f)
{
    const struct publisher_settings settings = {.url = c->amqp_url,
                                                .name = "tenon cleaner",
                                                .exchange = c->exchange};
    struct fault broker = {.code = FAULT_NONE};
    if (!c->amqp_url || c->publisher) {
        return true;
    }
    if (c->once && !amqp_declare(c->amqp_url, c->exchange, &broker)) {
        log_fault(LOG_ERROR, "broker_down", &broker);
        c->exit_code = fault_exit_code(&broker);
        return true;
    }
    return publisher_open(&settings, &c->publisher, f);
}

static void notice_add(struct notice *n, const char *key)
{
    char word[TOPOLOGY_KEY_BYTES + 2];
    size_t len = strlen(n->text);
    int bytes = snprintf(word, sizeof word, " %s ", key);
    n->tasks++;
    if (n->anything || strstr(n->text, word)) {
        return;
    }
    n->anything = len + (size_t)bytes >= sizeof n->text;
    if (!n->anything) { /* the last blank is the next word's first */
        (void)snprintf(n->text + len, sizeof n->text - len, "%s", len ? word + 1 : word);
    }
}

bool wake_notifies(const struct cleaner *c)
{
    return !c->publisher || publisher_is_away(c->publisher);
}

bool wake_row(struct cleaner *c, const struct rows *rows, size_t i)
{
    char key[TOPOLOGY_KEY_BYTES];
    (void)snprintf(key, sizeof key, "%s/%s", rows_text(rows, i, 1), rows_text(rows, i, 2));
    if (!wake_notifies(c)) {
        return publisher_offer(c->publisher, wakeup_new(c->exchange, key, rows_int(rows, i, 0)));
    }
    notice_add(&c->notice, key);
    return true;
}

int64_t wake_rows(struct cleaner *c, const struct rows *rows)
{
    int64_t n = 0;
    for (size_t i = 0; i < rows_count(rows); i++) {
        n += wake_row(c, rows, i);
    }
    return n;
}

bool wake_send(struct cleaner *c, struct fault *f)
{
    struct notice *n = &c->notice;
    char said[CLEANER_NOTICE_BYTES + 24];
    const char *const params[] = {said};
    if (n->tasks == 0) {
        return true;
    }
    (void)snprintf(said, sizeof said, "%lld%s", (long long)n->tasks, n->anything ? "" : n->text);
    if (!db_exec(c->hot, &sql_wake, params, 1, NULL, f)) {
        return fault_add(f, "could not notify the workers");
    }
    *n = (struct notice){.tasks = 0};
    c->counts.notices++;
    return true;
}
