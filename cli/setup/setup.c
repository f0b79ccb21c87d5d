/* `tenon setup`: the schema in the database, the exchange in RabbitMQ, rights of roles. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/setup/migrate.h"
#include "cli/setup/rabbitmqctl.h"
#include "cli/statements.h"
#include "core/amqp/amqp_topology.h"
#include "core/base/array.h"
#include "core/base/insecure.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { WHERE_BYTES = 256, LINE_BYTES_MAX = 4096, NAMES_BYTES_MAX = 256 * 1024 };

struct setup {
    bool dry_run;
    const struct options *options;
    const char *amqp_url; /* NULL = RabbitMQ is left alone */
    struct amqp_url url;  /* the same, taken apart */
    struct db *db;
    struct migration_plan plan;
    char mended[MIGRATE_EMPTY_BYTES]; /* tables whose row was missing; "" = none */
    char exchange[TOPOLOGY_EXCHANGE_BYTES];
    bool declared;
    char broker[WHERE_BYTES];
    struct fault broker_fault;
};

/* --- doing it ------------------------------------------------------------------------------- */

/* The parts that a role may play; setup_grant.sql knows them as well. */
static const struct part {
    enum option_id option;
    const char *name;
} parts[] = {
    {OPTION_GRANT_PRODUCER, "producer"}, {OPTION_GRANT_READER, "reader"},
    {OPTION_GRANT_OPERATOR, "operator"}, {OPTION_GRANT_WORKER, "worker"},
    {OPTION_GRANT_CLEANER, "cleaner"},   {OPTION_GRANT_PUBLISHER, "publisher"},
    {OPTION_GRANT_INTAKE, "intake"},
};
enum { PARTS = sizeof parts / sizeof *parts };

static const char *role_of(const struct setup *s, const struct part *part)
{
    return option_text(s->options, part->option);
}

static bool role_check(struct setup *s, const struct part *part, struct fault *f)
{
    const char *const params[] = {role_of(s, part)};
    struct rows *rows = NULL;
    if (!db_exec(s->db, &sql_setup_role, params, 1, &rows, f)) {
        return fault_add(f, "could not look up the role");
    }
    bool exists = rows_bool(rows, 0, 0);
    rows_free(rows);
    return exists || fault_set(f, FAULT_CONFIG, "--grant-%s \"%.100s\": there is no such role",
                               part->name, params[0]);
}

/* The names of a list as an array; NULL when the list is not given, or has no room. */
static const char *names_of(const struct setup *s, enum option_id id, bool given, struct buf *b)
{
    buf_init(b, NAMES_BYTES_MAX);
    if (!given) {
        return NULL;
    }
    array_begin(b);
    for (size_t i = 0; i < option_items(s->options, id); i++) {
        array_put_text(b, option_item(s->options, id, i));
    }
    return array_end(b);
}

/* A config file and TENON_QUEUES speak of the queues of workers. */
static bool grant(struct setup *s, const struct part *part, struct fault *f)
{
    const struct options *o = s->options;
    struct buf queues, kinds, exchanges;
    const char *const params[] = {
        part->name, role_of(s, part),
        names_of(s, OPTION_QUEUES, option_is_typed(o, OPTION_QUEUES), &queues),
        names_of(s, OPTION_KINDS, option_is_given(o, OPTION_KINDS), &kinds),
        names_of(s, OPTION_EXCHANGES, option_is_given(o, OPTION_EXCHANGES), &exchanges)};
    bool ok = queues.failed || kinds.failed || exchanges.failed
                  ? fault_memory(f)
                  : db_exec(s->db, &sql_setup_grant, params, 5, NULL, f);
    buf_clear(&queues);
    buf_clear(&kinds);
    buf_clear(&exchanges);
    return ok || fault_add(f, "could not grant the rights of a %s to %.100s", part->name,
                           role_of(s, part));
}

static bool grant_all(struct setup *s, struct fault *f)
{
    bool ok = true;
    for (const struct part *part = parts; ok && part < parts + PARTS; part++) {
        ok = !role_of(s, part) || (role_check(s, part, f) && (s->dry_run || grant(s, part, f)));
    }
    return ok;
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
    if (rows_count(rows) > 0) { /* else a dry run of what mends it */
        (void)snprintf(s->exchange, sizeof s->exchange, "%s", rows_text(rows, 0, 0));
    }
    rows_free(rows);
    return true;
}

/* Texts of tasks may hold any character. */
static bool encoding_check(struct setup *s, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(s->db, &sql_setup_encoding, NULL, 0, &rows, f)) {
        return fault_add(f, "could not read the database's encoding");
    }
    const char *encoding = rows_text(rows, 0, 0);
    bool ok = strcmp(encoding, "UTF8") == 0 ||
              fault_set(f, FAULT_CONFIG,
                        "the encoding of %s is %s, but tenon needs UTF8: move the data with "
                        "pg_dump to a database that was made with CREATE DATABASE ... ENCODING "
                        "'UTF8' TEMPLATE template0",
                        db_where(s->db), encoding);
    rows_free(rows);
    return ok;
}

/* What confines nobody is a mistake as well. */
static bool confines_check(const struct options *o, struct fault *f)
{
    bool queues = option_is_typed(o, OPTION_QUEUES), kinds = option_is_given(o, OPTION_KINDS);
    if (option_is_given(o, OPTION_EXCHANGES) && !option_text(o, OPTION_GRANT_PUBLISHER)) {
        return fault_set(f, FAULT_CONFIG, "--exchanges requires --grant-publisher");
    }
    return (!queues && !kinds) || option_text(o, OPTION_GRANT_PRODUCER) ||
           fault_set(f, FAULT_CONFIG, "--%s requires --grant-producer",
                     queues ? "queues" : "kinds");
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

/* A schema that is yet to be made will have all its rows. */
static bool find_empty(struct setup *s, struct fault *f)
{
    return s->plan.version == 0 || s->plan.newer || migrate_find_empty(s->db, s->mended, f);
}

static bool set_up_database(struct setup *s, struct fault *f)
{
    const char *url = option_text(s->options, OPTION_DATABASE_URL);
    return db_open(url, DB_SETUP, "tenon setup", &s->db, f) && encoding_check(s, f) &&
           migrate_begin(s->db, s->dry_run, f) && migrate_read(s->db, &s->plan, f) &&
           find_empty(s, f) && (s->dry_run || migrate_apply(s->db, &s->plan, f)) &&
           grant_all(s, f) && exchange_find(s, f) &&
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
    if (s->plan.newer) {
        (void)printf("schema tenon is at version %d, newer than this program's %d: its tables, "
                     "functions and views were not changed\n",
                     s->plan.version, schema_migrations[schema_migrations_n - 1].version);
        return;
    }
    if (s->plan.lost || *s->mended) {
        (void)printf("%srestored the rows of %s%s%s, which were missing\n", would,
                     s->plan.lost ? "tenon.migration" : "", s->plan.lost && *s->mended ? ", " : "",
                     s->mended);
    } else if (s->plan.first == schema_migrations_n) {
        (void)printf("schema tenon is at version %d, nothing to migrate\n", s->plan.version);
    }
    if (!s->plan.has_schema) {
        (void)printf("%smade schema tenon\n", would);
    }
    for (size_t i = s->plan.first; i < schema_migrations_n; i++) {
        (void)printf("%sapplied %s\n", would, schema_migrations[i].name);
    }
    (void)printf("%supdated functions, views and rights\n", would);
}

static void print_grants(const struct setup *s)
{
    for (const struct part *part = parts; part < parts + PARTS; part++) {
        if (role_of(s, part)) {
            (void)printf("%sgranted %s rights to %s\n", s->dry_run ? "would have " : "", part->name,
                         role_of(s, part));
        }
    }
}

static void print_broker(const struct setup *s)
{
    if (!s->amqp_url) {
        (void)puts("RabbitMQ was not changed: --amqp-url is not given, or none");
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
    (void)puts("\nto give RabbitMQ's users no more rights than they need:");
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
    (void)printf("\n-- this SQL would run\n%s", buf_text(&sql));
    buf_clear(&sql);
    return ok;
}

static bool print_text(const struct setup *s, struct fault *f)
{
    char insecure[INSECURE_BYTES];
    (void)printf("connected to %s\n", db_where(s->db));
    if (insecure_text(db_insecure(s->db), s->amqp_url, NULL, insecure)) {
        (void)printf("insecure connections: %s (SECURITY.md, \"Connections\")\n", insecure);
    }
    print_schema(s);
    print_grants(s);
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

static json_t *json_grants(const struct setup *s)
{
    json_t *granted = json_object();
    for (const struct part *part = parts; !s->dry_run && part < parts + PARTS; part++) {
        if (role_of(s, part)) {
            (void)json_object_set_new(granted, part->name, json_string(role_of(s, part)));
        }
    }
    return granted;
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
    char insecure[INSECURE_BYTES];
    int ours = schema_migrations[schema_migrations_n - 1].version;
    bool all = !s->dry_run && s->plan.first < schema_migrations_n;
    return json_pack("{s:s, s:s?, s:b, s:i, s:s, s:o, s:o, s:o}", "database", db_where(s->db),
                     "insecure", insecure_text(db_insecure(s->db), s->amqp_url, NULL, insecure),
                     "dry_run", s->dry_run, "schema_version", all ? ours : s->plan.version,
                     "mended", s->mended, s->dry_run ? "missing" : "applied", json_migrations(s),
                     "granted", json_grants(s), "rabbitmq", json_broker(s));
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
                      .options = o,
                      .amqp_url = url && strcmp(url, "none") != 0 ? url : NULL};
    bool ok = url_read(&s, f) && confines_check(o, f) && set_up_database(&s, f);
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
