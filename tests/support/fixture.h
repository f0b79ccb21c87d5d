/* What a test stands on: a database and a virtual host of its own, a directory, and processes that
 * do not outlive it.
 *
 *   static void test_x(void **state) { struct fixture *fx = *state; ... }
 *   const struct CMUnitTest tests[] = {WITH_SERVERS(test_x), WITH_DATABASE(test_y)};
 *
 * The servers are those of DATABASE_URL (a URL; a role that may create databases) and AMQP_URL. */
#ifndef TENON_TESTS_SUPPORT_FIXTURE_H
#define TENON_TESTS_SUPPORT_FIXTURE_H

#include "tests/support/sql.h"

struct process;

struct fixture {
    char database[64]; /* has tenon's schema, newest version, and nothing else */
    char database_url[512];
    char vhost[16]; /* "" when the test did not ask for one */
    char amqp_url[512];
    char dir[200];       /* empty at the start, removed at the end unless TEST_KEEP is set */
    char journal[256];   /* where handlers write, see journal.h */
    PGconn *conn;        /* on the own database, as its owner */
    PGconn *maintenance; /* on the database of DATABASE_URL; holds the lock on the virtual host */
    struct process *processes;
};

#define WITH_SERVERS(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
#define WITH_DATABASE(test)                                                                        \
    cmocka_unit_test_setup_teardown(test, fixture_setup_database, fixture_teardown)

int fixture_setup(void **state);          /* database and virtual host */
int fixture_setup_database(void **state); /* only the database; about 0.1 s cheaper */
int fixture_teardown(void **state);       /* kills what still runs, removes everything */

/* Shorthands on fx->conn, see sql.h. */
#define test_sql(fx, ...) sql_run((fx)->conn, __VA_ARGS__)
#define test_sql_file(fx, path) sql_file((fx)->conn, path)
#define test_sql_int(fx, ...) sql_int((fx)->conn, __VA_ARGS__)
#define test_sql_bool(fx, ...) sql_bool((fx)->conn, __VA_ARGS__)
#define test_sql_text(fx, ...) sql_text((fx)->conn, __VA_ARGS__) /* free() */
#define test_sql_fails(fx, state, parts, ...) sql_fails((fx)->conn, state, parts, __VA_ARGS__)
#define test_flush_statistics(fx) sql_flush_statistics((fx)->conn)
#define test_await(fx, limit_ms, ...) sql_await((fx)->conn, limit_ms, __VA_ARGS__)

/* An environment variable, or the test fails with what to do. */
const char *test_env(const char *name);

/* `url` with another database or virtual host after the last '/'. */
void url_with_path(const char *url, const char *path, char *ret, size_t size);

#endif
