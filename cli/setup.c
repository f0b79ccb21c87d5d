/* `tenon setup`: the schema in the database, the exchange in RabbitMQ, rights for producers. */
#include "cli/command.h"
#include "cli/migrate.h"
#include "cli/print.h"
#include "cli/rabbitmqctl.h"
#include "cli/statements.h"
#include "core/amqp_topology.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { WHERE_BYTES = 256, LINE_BYTES_MAX = 4096 };

struct setup {
    bool dry_run;
    const char *role;     /* NULL = none */
    const char *amqp_url; /* NULL = RabbitMQ is left alone */
    struct amqp_url url;  /* the same, taken apart */
    struct db *db;
    struct migration_plan plan;
    char exchange[TOPOLOGY_EXCHANGE_BYTES];
    bool declared;
    char broker[WHERE_BYTES];
    struct fault broker_fault;
};

/* --- doing it ------------------------------------------------------------------------------- */

static bool grant(struct setup *s, struct fault *f)
{
    const char *const params[] = {s->role};
    struct rows *rows = NULL;
    if (!s->role) {
        return true;
    }
    if (!db_exec(s->db, &sql_setup_role, params, 1, &rows, f)) {
        return fault_add(f, "could not find out about the role");
    }
    bool exists = rows_bool(rows, 0, 0);
    rows_free(rows);
    if (!exists) {
        return fault_set(f, FAULT_CONFIG, "--grant-producer \"%.100s\": there is no such role",
                         s->role);
    }
    return s->dry_run || db_exec(s->db, &sql_setup_grant, params, 1, NULL, f) ||
           fault_add(f, "could not grant rights to %.100s", s->role);
}

/* Its name is a setting; without a schema yet it will be the default. */
static bool exchange_find(struct setup *s, struct fault *f)
{
    struct rows *rows = NULL;
    (void)snprintf(s->exchange, sizeof s->exchange, "tenon");
    if (s->dry_run && s->plan.version == 0) {
        return true;
    }
    if (!db_exec(s->db, &sql_setup_exchange, NULL, 0, &rows, f)) {
        return fault_add(f, "could not read the exchange's name");
    }
    (void)snprintf(s->exchange, sizeof s->exchange, "%s", rows_text(rows, 0, 0));
    rows_free(rows);
    return true;
}

/* A URL that cannot be read is a mistake to find before anything is changed. */
static bool url_read(struct setup *s, struct fault *f)
{
    if (!s->amqp_url) {
        return true;
    }
    amqp_url_mask(s->amqp_url, s->broker, sizeof s->broker);
    return amqp_url_parse(s->amqp_url, &s->url, f);
}

static bool set_up_database(struct setup *s, const struct options *o, struct fault *f)
{
    return db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN, "tenon setup", &s->db, f) &&
           migrate_begin(s->db, s->dry_run, f) && migrate_read(s->db, &s->plan, f) &&
           (s->dry_run || s->plan.first == schema_migrations_n ||
            migrate_apply(s->db, &s->plan, f)) &&
           grant(s, f) && exchange_find(s, f) &&
           db_script(s->db, s->dry_run ? "ROLLBACK" : "COMMIT", f);
}

/* The database is done and stays so, whatever RabbitMQ says; its fault is kept apart. */
static void set_up_broker(struct setup *s)
{
    if (s->amqp_url && !s->dry_run) {
        s->declared = amqp_declare(s->amqp_url, s->exchange, &s->broker_fault);
    }
}

/* --- the report ----------------------------------------------------------------------------- */

static void print_schema(const struct setup *s)
{
    const char *would = s->dry_run ? "would have " : "";
    if (s->plan.first == schema_migrations_n) {
        (void)printf("schema tenon is at version %d, nothing to do\n", s->plan.version);
        return;
    }
    if (!s->plan.has_schema) {
        (void)printf("%smade schema tenon\n", would);
    }
    for (size_t i = s->plan.first; i < schema_migrations_n; i++) {
        (void)printf("%sapplied %s\n", would, schema_migrations[i].name);
    }
}

static void print_broker(const struct setup *s)
{
    if (!s->amqp_url) {
        (void)puts("left RabbitMQ alone: --amqp-url is not given, or none");
        return;
    }
    if (s->dry_run || s->declared) {
        (void)printf("%sdeclared the exchange %s (%s)\n", s->dry_run ? "would have " : "",
                     s->exchange, s->broker);
    }
}

static struct buf operator_line(const struct setup *s, size_t i)
{
    struct buf line;
    buf_init(&line, LINE_BYTES_MAX);
    rabbitmqctl_line(&line, i, s->url.vhost, s->exchange);
    return line;
}

static void print_lines(const struct setup *s)
{
    (void)puts("\nfor the operator of RabbitMQ (docs/operations.md):");
    for (size_t i = 0; i < RABBITMQCTL_LINES; i++) {
        struct buf line = operator_line(s, i);
        (void)printf("  %s\n", buf_text(&line));
        buf_clear(&line);
    }
}

static bool print_missing(const struct migration_plan *plan, struct fault *f)
{
    struct buf sql;
    buf_init(&sql, PRINT_BYTES_MAX);
    migrate_put(&sql, plan);
    bool ok = !sql.failed || fault_memory(f);
    (void)printf("\n-- the SQL that was not run\n%s", buf_text(&sql));
    buf_clear(&sql);
    return ok;
}

static bool print_text(const struct setup *s, struct fault *f)
{
    (void)printf("connected to %s\n", db_where(s->db));
    print_schema(s);
    if (s->role) {
        (void)printf("%sgranted producer rights to %s\n", s->dry_run ? "would have " : "", s->role);
    }
    print_broker(s);
    if (s->amqp_url) {
        print_lines(s);
    }
    return !s->dry_run || s->plan.first == schema_migrations_n || print_missing(&s->plan, f);
}

static json_t *json_migrations(const struct setup *s)
{
    json_t *list = json_array();
    for (size_t i = s->plan.first; i < schema_migrations_n; i++) {
        (void)json_array_append_new(list, json_string(schema_migrations[i].name));
    }
    return list;
}

static json_t *json_broker(const struct setup *s)
{
    if (!s->amqp_url) {
        return json_null();
    }
    json_t *lines = json_array();
    for (size_t i = 0; i < RABBITMQCTL_LINES; i++) {
        struct buf line = operator_line(s, i);
        (void)json_array_append_new(lines, json_string(buf_text(&line)));
        buf_clear(&line);
    }
    return json_pack("{s:s, s:b, s:s?, s:s, s:o}", "broker", s->broker, "declared", s->declared,
                     "error", s->broker_fault.code ? s->broker_fault.text : NULL, "exchange",
                     s->exchange, "rabbitmqctl", lines);
}

static json_t *json_report(const struct setup *s)
{
    int ours = schema_migrations[schema_migrations_n - 1].version;
    bool all = !s->dry_run && s->plan.first < schema_migrations_n;
    return json_pack("{s:s, s:b, s:i, s:o, s:s?, s:o}", "database", db_where(s->db), "dry_run",
                     s->dry_run, "schema_version", all ? ours : s->plan.version,
                     s->dry_run ? "missing" : "applied", json_migrations(s), "granted_to",
                     s->dry_run ? NULL : s->role, "rabbitmq", json_broker(s));
}

static bool print_json(const struct setup *s, struct fault *f)
{
    json_t *report = json_report(s);
    bool ok = report && json_dumpf(report, stdout, JSON_INDENT(2)) == 0;
    (void)putchar('\n');
    json_decref(report);
    return ok || fault_memory(f);
}

bool setup_run(const struct options *o, struct fault *f)
{
    const char *url = option_text(o, OPTION_AMQP_URL);
    struct setup s = {.dry_run = option_flag(o, OPTION_DRY_RUN),
                      .role = option_text(o, OPTION_GRANT_PRODUCER),
                      .amqp_url = url && strcmp(url, "none") != 0 ? url : NULL};
    bool ok = url_read(&s, f) && set_up_database(&s, o, f);
    if (ok) {
        set_up_broker(&s);
        ok = option_flag(o, OPTION_JSON) ? print_json(&s, f) : print_text(&s, f);
    }
    if (ok && s.broker_fault.code != FAULT_NONE) {
        *f = s.broker_fault;
        ok = fault_add(f, "could not set up RabbitMQ");
    }
    amqp_url_clear(&s.url);
    db_close(s.db);
    return ok;
}
