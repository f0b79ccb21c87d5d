#include "cleaner/wake.h"

#include "cleaner/statements.h"
#include "core/log.h"

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
    if (c->once && !amqp_declare(&c->broker_url, c->exchange, &broker)) {
        log_fault(LOG_ERROR, "broker_down", &broker);
        c->exit_code = fault_exit_code(&broker);
        return true;
    }
    return publisher_open(&settings, &c->publisher, f);
}

/* Is this word of a text already there? Words are separated by blanks. */
static bool has_word(const char *text, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = text; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (n == len && memcmp(at, word, len) == 0) {
            return true;
        }
        at += n;
    }
    return false;
}

static void notice_add(struct notice *n, const char *key)
{
    size_t len = strlen(n->text);
    n->wanted = true;
    if (n->anything || has_word(n->text, key)) {
        return;
    }
    n->anything = len + 1 + strlen(key) >= sizeof n->text;
    if (!n->anything) {
        (void)snprintf(n->text + len, sizeof n->text - len, "%s%s", len ? " " : "", key);
    }
}

bool wake_row(struct cleaner *c, const struct rows *rows, size_t i)
{
    char key[TOPOLOGY_KEY_BYTES];
    (void)snprintf(key, sizeof key, "%s/%s", rows_text(rows, i, 1), rows_text(rows, i, 2));
    if (c->publisher && !publisher_is_away(c->publisher)) {
        return publisher_offer(c->publisher, c->exchange, key, rows_int(rows, i, 0));
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
    const char *const params[] = {c->notice.anything ? "" : c->notice.text};
    if (!c->notice.wanted) {
        return true;
    }
    if (!db_exec(c->hot, &sql_wake, params, 1, NULL, f)) {
        return fault_add(f, "could not notify the workers");
    }
    c->notice = (struct notice){.wanted = false};
    c->counts.notices++;
    return true;
}
