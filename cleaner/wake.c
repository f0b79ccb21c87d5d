#include "cleaner/wake.h"

#include "cleaner/statements.h"
#include "core/log.h"

#include <stdio.h>
#include <string.h>

static bool broker_check(struct cleaner *c, struct fault *f)
{
    struct amqp_url url = {0};
    bool ok = amqp_url_parse(c->amqp_url, &url, f) && amqp_declare(&url, c->exchange, f);
    amqp_url_clear(&url);
    return ok;
}

bool wake_open(struct cleaner *c, struct fault *f)
{
    const struct publisher_settings settings = {.url = c->amqp_url,
                                                .name = "tenon cleaner",
                                                .exchange = c->exchange};
    struct fault broker = {.code = FAULT_NONE};
    if (!c->amqp_url || c->publisher) {
        return true;
    }
    if (c->once && !broker_check(c, &broker)) {
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

bool wake_task(struct cleaner *c, const char *queue, const char *kind, int64_t id)
{
    char key[TOPOLOGY_KEY_BYTES];
    (void)snprintf(key, sizeof key, "%s/%s", queue, kind);
    if (c->publisher && !publisher_is_away(c->publisher)) {
        return publisher_offer(c->publisher, c->exchange, key, id);
    }
    notice_add(&c->notice, key);
    return true;
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
