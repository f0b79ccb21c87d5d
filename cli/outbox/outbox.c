/* `tenon outbox`: the messages that RabbitMQ does not have yet. */
#include "cli/outbox/outbox.h"

#include "cli/command.h"
#include "core/db/schema.h"

#include <string.h>

static const struct action {
    const char *word;
    bool takes_ids;
    bool (*run)(struct db *db, const struct options *o, struct fault *f);
} actions[] = {
    {"list", false, outbox_list},
    {"retry", true, outbox_act},
    {"delete", true, outbox_act},
    {"replay", false, outbox_act},
};

static const struct action *action_of(const struct options *o, struct fault *f)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(options_arg(o, 0), actions[i].word) != 0) {
            continue;
        }
        if (actions[i].takes_ids || options_args(o) == 1) {
            return &actions[i];
        }
        (void)fault_set(f, FAULT_CONFIG,
                        "unexpected argument \"%.100s\": tenon outbox %s takes none",
                        options_arg(o, 1), actions[i].word);
        return NULL;
    }
    (void)fault_set(f, FAULT_CONFIG,
                    "\"%.100s\" is not an action; use: tenon outbox list, retry, delete or replay",
                    options_arg(o, 0));
    return NULL;
}

const char *outbox_exchange(const struct options *o)
{
    const char *text = option_text(o, OPTION_EXCHANGE);
    return text && strcmp(text, "(default)") == 0 ? "" : text;
}

/* What the database refuses is what was typed. */
static bool told(bool ok, struct fault *f)
{
    if (!ok && f->code == FAULT_ROW) {
        f->code = FAULT_REFUSED;
    }
    return ok;
}

bool outbox_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    const struct action *action = action_of(o, f);
    bool ok = action &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN | DB_ANY, "tenon outbox", &db,
                      f) &&
              schema_check(db, f) && told(action->run(db, o, f), f);
    db_close(db);
    return ok;
}
