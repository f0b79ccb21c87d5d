/* `tenon doctor`: what is wrong, and what to do. Each statement returns findings; the rest is asked
 * of the connection itself and of RabbitMQ. */
#include "cli/doctor/doctor.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/base/insecure.h"
#include "core/db/schema.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TRANSACTION_S "300"    /* a transaction that is older is a finding */
#define SILENCE_S "30"         /* a cleaner that is silent for longer, and a task that is overdue */
#define INTAKE_SILENCE_S "60"  /* it reports every 10 s */
#define ROWS_READ_MAX "100000" /* as tenon status: shared by the queues */
#define NAMES_MAX "1000"       /* queues, and kinds of dead tasks */
#define SNAPSHOT_TRANSACTIONS "1000000" /* a standby's snapshot that is older */
#define POSTGRESQL_OLDEST "140000"
enum { CLOCK_MS_MAX = 1000 };

enum { LEVEL, SUBJECT, FINDING, ADVICE, ABOUT };

static int64_t wall_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool find_about(struct doctor *d, const char *level, const char *subject,
                       const char *finding, const char *advice, json_t *about, struct fault *f)
{
    json_t *one = json_pack("{s:s, s:s, s:s, s:s, s:o*}", "level", level, "subject", subject,
                            "finding", finding, "advice", advice, "about", about);
    return (one && json_array_append_new(d->findings, one) == 0) || fault_memory(f);
}

bool doctor_find(struct doctor *d, const char *level, const char *subject, const char *finding,
                 const char *advice, struct fault *f)
{
    return find_about(d, level, subject, finding, advice, NULL, f);
}

bool doctor_cannot_see(struct doctor *d, const char *what, const char *advice, struct fault *f)
{
    json_t *one = json_pack("{s:s, s:s}", "what", what, "advice", advice);
    return (one && json_array_append_new(d->unseen, one) == 0) || fault_memory(f);
}

static bool see_sessions(struct doctor *d, struct db *db, struct fault *f)
{
    struct rows *rows = NULL;
    bool ok = db_exec(db, &sql_doctor_sees, NULL, 0, &rows, f);
    if (ok && !rows_bool(rows, 0, 0)) {
        struct buf b;
        buf_init(&b, PRINT_BYTES_MAX);
        buf_put_text(&b, "GRANT pg_read_all_stats TO ");
        put_safe(&b, rows_text(rows, 0, 1));
        ok = doctor_cannot_see(d, "old transactions, standbys without a slot, a cleaner that hangs",
                               buf_text(&b), f);
        buf_clear(&b);
    }
    rows_free(rows);
    return ok;
}

/* What a finding is about: names, as a JSON object; not all statements tell it. */
static json_t *about_of(const struct rows *r, size_t i)
{
    bool told = rows_columns(r) > ABOUT && !rows_is_null(r, i, ABOUT);
    return told ? json_loads(rows_text(r, i, ABOUT), 0, NULL) : NULL;
}

static bool ask(struct doctor *d, struct db *db, const struct statement *statement,
                const char *const *params, int n_params, struct fault *f)
{
    struct rows *rows = NULL;
    bool ok = db_exec(db, statement, params, n_params, &rows, f);
    for (size_t i = 0; ok && i < rows_count(rows); i++) {
        ok = find_about(d, rows_text(rows, i, LEVEL), rows_text(rows, i, SUBJECT),
                        rows_text(rows, i, FINDING), rows_text(rows, i, ADVICE), about_of(rows, i),
                        f);
    }
    rows_free(rows);
    return ok;
}

static bool ask_database(struct doctor *d, struct db *db, struct fault *f)
{
    static const char *const server[] = {TRANSACTION_S, SNAPSHOT_TRANSACTIONS, POSTGRESQL_OLDEST};
    static const char *const fleet[] = {SILENCE_S, ROWS_READ_MAX, NAMES_MAX};
    static const char *const intake[] = {SILENCE_S, INTAKE_SILENCE_S, NAMES_MAX};
    return ask(d, db, &sql_doctor_server, server, 3, f) &&
           ask(d, db, &sql_doctor_tables, NULL, 0, f) &&
           ask(d, db, &sql_doctor_rights, NULL, 0, f) &&
           ask(d, db, &sql_doctor_fleet, fleet, 3, f) &&
           ask(d, db, &sql_doctor_outbox, fleet, 3, f) &&
           ask(d, db, &sql_doctor_intake, intake, 3, f);
}

/* The schema may be newer than this program, unless it says that it breaks older ones. */
static bool compare_versions(struct doctor *d, struct db *db, struct fault *f)
{
    int schema, ours = schema_migrations[schema_migrations_n - 1].version;
    char text[128];
    if (!schema_read(db, &schema, f)) {
        return false;
    }
    (void)snprintf(text, sizeof text, "the schema has version %d, but this program knows only %d",
                   schema, ours);
    return schema <= ours || doctor_find(d, "warning", "versions", text,
                                         "install the tenon that set it up on every host", f);
}

/* Times of tasks are the server's; deadlines in handlers and logs are this machine's. */
static bool compare_clocks(struct doctor *d, struct db *db, struct fault *f)
{
    struct rows *rows = NULL;
    int64_t before = wall_ms();
    if (!db_exec(db, &sql_doctor_clock, NULL, 0, &rows, f)) {
        return false;
    }
    int64_t after = wall_ms(), server = rows_int(rows, 0, 0);
    rows_free(rows);
    int64_t off = server < before ? before - server : server > after ? server - after : 0;
    char text[128];
    (void)snprintf(text, sizeof text, "the clocks of this machine and the server differ by %lld ms",
                   (long long)off);
    return off <= CLOCK_MS_MAX ||
           doctor_find(d, "warning", "clock", text, "synchronize both with a time server (NTP)", f);
}

/* Workers and cleaners need a session that stays theirs; with one, their plans are seen. */
static bool try_session(struct doctor *d, struct fault *f)
{
    struct db *db = NULL;
    struct fault why = {0};
    bool ok = db_open(option_text(d->o, OPTION_DATABASE_URL), DB_PRESENCE, "tenon doctor", &db,
                      &why);
    db_close(db);
    return ok ? doctor_plans(d, f)
              : doctor_find(d, "error", "pooler", why.text,
                            "give workers and cleaners a URL that leads to the server directly", f);
}

static bool ask_insecure(struct doctor *d, struct db *db, const char *amqp_url, struct fault *f)
{
    char text[INSECURE_BYTES];
    const char *insecure = insecure_text(db_insecure(db), amqp_url, NULL, text);
    return !insecure || doctor_find(d, "warning", "encryption", insecure,
                                    "use sslmode=verify-full in the database URL, and amqps://", f);
}

enum { LEVEL_COLUMNS = 9 };

static void print_findings(const json_t *findings, bool partly)
{
    size_t i;
    json_t *one;
    json_array_foreach(findings, i, one)
    {
        const char *level, *subject, *finding, *advice;
        (void)json_unpack(one, "{s:s, s:s, s:s, s:s}", "level", &level, "subject", &subject,
                          "finding", &finding, "advice", &advice);
        print_wrapped(printf("%-7s  %s: ", level, subject), LEVEL_COLUMNS, finding);
        print_wrapped(printf("%*s", LEVEL_COLUMNS, ""), LEVEL_COLUMNS, advice);
    }
    if (json_array_size(findings) == 0) {
        (void)puts(partly ? "no problems found in what this role can see" : "no problems found");
    }
}

static bool examine(struct doctor *d, struct db *db, struct fault *f)
{
    const char *amqp_url = option_text(d->o, OPTION_AMQP_URL);
    bool broker = amqp_url && strcmp(amqp_url, "none") != 0;
    return compare_versions(d, db, f) && see_sessions(d, db, f) && ask_database(d, db, f) &&
           compare_clocks(d, db, f) && try_session(d, f) && ask_insecure(d, db, amqp_url, f) &&
           (!broker || doctor_broker(d, db, amqp_url, f));
}

bool doctor_examine(const struct options *o, json_t **findings, json_t **unseen, struct fault *f)
{
    struct doctor d = {.o = o, .findings = json_array(), .unseen = json_array()};
    struct db *db = NULL;
    bool ok = ((d.findings && d.unseen) || fault_memory(f)) &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_READ, "tenon doctor", &db, f) &&
              schema_check(db, f) && examine(&d, db, f);
    db_close(db);
    if (!ok) {
        json_decref(d.findings);
        json_decref(d.unseen);
        return false;
    }
    *findings = d.findings;
    *unseen = d.unseen;
    return true;
}

static void print_unseen(const json_t *unseen)
{
    size_t i;
    json_t *one;
    json_array_foreach(unseen, i, one)
    {
        (void)fprintf(stderr, "tenon doctor: this role cannot see %s: %s\n",
                      json_string_value(json_object_get(one, "what")),
                      json_string_value(json_object_get(one, "advice")));
    }
}

bool doctor_run(const struct options *o, struct fault *f)
{
    json_t *findings = NULL, *unseen = NULL;
    if (!doctor_examine(o, &findings, &unseen, f)) {
        return false;
    }
    print_unseen(unseen);
    if (option_flag(o, OPTION_JSON)) {
        (void)printf("{\"findings\": ");
        (void)json_dumpf(findings, stdout, JSON_INDENT(2));
        (void)puts("}");
    } else {
        print_findings(findings, json_array_size(unseen) > 0);
    }
    size_t n = json_array_size(findings);
    json_decref(findings);
    json_decref(unseen);
    return n == 0 || fault_set(f, FAULT_ABSENT, "%zu %s found", n, n == 1 ? "problem" : "problems");
}
