#include "cli/doctor/doctor.h"

#include "cli/statements.h"
#include "core/base/buf.h"
#include "worker/statements.h"

#include <stdio.h>
#include <string.h>

enum { PREPARE_BYTES_MAX = 64 * 1024, TEXT_BYTES = 256 };

/* The statements that find tasks, and how a session prepares and explains them. */
static const struct hot {
    const char *name, *prepare;
    const struct statement *statement, *explain;
} hot[] = {
    {"claim", "PREPARE doctor_claim AS ", &sql_claim, &sql_doctor_plan_claim},
    {"poll", "PREPARE doctor_poll AS ", &sql_poll, &sql_doctor_plan_poll},
};

static const char *text_of(const json_t *node, const char *key)
{
    const char *text = json_string_value(json_object_get(node, key));
    return text ? text : "";
}

/* How this node reads more of tenon.task than it returns; NULL = it does not. */
static const char *waste_of(const json_t *node, bool sorted)
{
    const char *type = text_of(node, "Node Type");
    if (strcmp(text_of(node, "Relation Name"), "task") != 0) {
        return NULL;
    }
    if (strcmp(type, "Seq Scan") == 0) {
        return "reads the whole table";
    }
    if (strncmp(type, "Index", strlen("Index")) != 0) {
        return NULL;
    }
    return !json_object_get(node, "Index Cond") ? "reads a whole index"
           : sorted                             ? "reads an index that has another order"
                                                : NULL;
}

static const char *waste_in(const json_t *node, bool sorted)
{
    const char *waste = waste_of(node, sorted);
    const json_t *below = json_object_get(node, "Plans");
    sorted = sorted || strstr(text_of(node, "Node Type"), "Sort");
    for (size_t i = 0; !waste && i < json_array_size(below); i++) {
        waste = waste_in(json_array_get(below, i), sorted);
    }
    return waste;
}

static bool tell(struct doctor *d, const char *name, const char *plan, struct fault *f)
{
    char text[TEXT_BYTES];
    json_t *all = json_loads(plan, 0, NULL);
    const char *waste = waste_in(json_object_get(json_array_get(all, 0), "Plan"), false);
    bool ok = all || fault_set(f, FAULT_BUG, "the plan of the %s is not JSON", name);
    if (ok && waste) {
        (void)snprintf(text, sizeof text,
                       "the plan of the %s %s: it becomes slower with each waiting task", name,
                       waste);
        ok = doctor_find(d, "error", "plan", text,
                         "create its indexes as sql/tables.sql does: task_pkey for "
                         "the claim, task_order for the poll",
                         f);
    }
    json_decref(all);
    return ok;
}

static bool explain(struct doctor *d, struct db *db, const struct hot *h, struct fault *f)
{
    struct rows *rows = NULL;
    struct buf b;
    buf_init(&b, PREPARE_BYTES_MAX);
    buf_put_text(&b, h->prepare);
    buf_put_text(&b, h->statement->text);
    bool ok = b.failed
                  ? fault_memory(f)
                  : db_script(db, buf_text(&b), f) && db_exec(db, h->explain, NULL, 0, &rows, f);
    ok = ok && tell(d, h->name, rows_text(rows, 0, 0), f);
    rows_free(rows);
    buf_clear(&b);
    return ok;
}

/* EXPLAIN asks for the rights of what it explains. */
bool doctor_plans(struct doctor *d, struct fault *f)
{
    struct db *db = NULL;
    struct fault why = {0};
    bool ok = db_open(option_text(d->o, OPTION_DATABASE_URL), DB_HOT, "tenon doctor", &db, &why);
    for (size_t i = 0; ok && i < sizeof hot / sizeof *hot; i++) {
        ok = explain(d, db, &hot[i], &why);
    }
    db_close(db);
    if (!ok && strcmp(why.sqlstate, "42501") == 0) {
        return doctor_cannot_see(
            d, "the plans of claim and poll",
            "run doctor as the owner of the schema, or give its role --grant-worker too", f);
    }
    return ok || fault_set(f, why.code, "%s", why.text);
}
