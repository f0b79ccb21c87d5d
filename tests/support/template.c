#include "tests/support/template.h"

#include "core/db/schema.h"
#include "tests/support/fixture.h"

#include <stdio.h>

/* FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/ */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (const char *c = text; *c; c++) {
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
    }
    return hash;
}

static uint64_t schema_hash(void)
{
    uint64_t hash = hash_text(0xcbf29ce484222325, schema_before.text);
    for (size_t i = 0; i < schema_migrations_n; i++) {
        hash = hash_text(hash, schema_migrations[i].text);
    }
    for (const struct script *script = schema_after; script->name; script++) {
        hash = hash_text(hash, script->text);
    }
    return hash;
}

void template_migrate(PGconn *conn)
{
    sql_run(
        conn,
        "BEGIN; CREATE SCHEMA tenon;"
        "CREATE TABLE tenon.migration (version integer PRIMARY KEY, name text NOT NULL,"
        " breaking boolean NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp());"
        "SET LOCAL search_path = pg_catalog");
    sql_run(conn, "%s", schema_before.text);
    for (size_t i = 0; i < schema_migrations_n; i++) {
        const struct migration *m = &schema_migrations[i];
        sql_run(conn,
                "%s; INSERT INTO tenon.migration (version, name, breaking) VALUES (%d, '%s', %s)",
                m->text, m->version, m->name, m->breaking ? "true" : "false");
    }
    for (const struct script *script = schema_after; script->name; script++) {
        sql_run(conn, "%s", script->text);
    }
    sql_run(conn, "COMMIT");
}

static void make(PGconn *maintenance, const char *url, const char *name)
{
    char own_url[512];
    sql_run(maintenance, "DROP DATABASE IF EXISTS %s WITH (FORCE)", name);
    sql_run(maintenance, "CREATE DATABASE %s TEMPLATE template0", name);
    url_with_path(url, name, own_url, sizeof own_url);
    PGconn *conn = sql_connect(own_url);
    template_migrate(conn);
    PQfinish(conn);
    /* this says that it is complete, and keeps everybody out, so that it can always be copied */
    sql_run(maintenance, "ALTER DATABASE %s WITH IS_TEMPLATE true ALLOW_CONNECTIONS false", name);
}

void template_make(PGconn *maintenance, const char *url, char name[TEMPLATE_NAME_BYTES])
{
    (void)snprintf(name, TEMPLATE_NAME_BYTES, "tenon_template_bare_%016llx",
                   (unsigned long long)schema_hash());
    /* a limit, as a set-up that has failed in this program may still hold it */
    sql_run(maintenance, "SET lock_timeout = '2 min'");
    sql_run(maintenance, "SELECT pg_advisory_lock(hashtext('tenon tests'), 0)");
    sql_run(maintenance, "SET lock_timeout = 0");
    if (!sql_bool(maintenance, "SELECT datistemplate FROM pg_database WHERE datname = '%s'",
                  name)) {
        /* a half-made one is no template yet, and can be dropped */
        make(maintenance, url, name);
    }
    sql_run(maintenance, "SELECT pg_advisory_unlock(hashtext('tenon tests'), 0)");
}
