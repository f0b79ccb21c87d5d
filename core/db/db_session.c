#include "core/db/db_session.h"

#include <stdio.h>

/* Of all sessions: time limits, and what a role's or a database's own settings must not change:
 * what a statement means, and when a session ends. All may be set by anybody. */
#define PINNED(S)                                                                                  \
    S(timezone, UTC)                                                                               \
    S(datestyle, ISO)                                                                              \
    S(intervalstyle, postgres)                                                                     \
    S(search_path, pg_catalog)                                                                     \
    S(client_min_messages, warning)                                                                \
    S(array_nulls, on)                                                                             \
    S(standard_conforming_strings, on)                                                             \
    S(bytea_output, hex)                                                                           \
    S(backslash_quote, safe_encoding)                                                              \
    S(transform_null_equals, off)                                                                  \
    S(extra_float_digits, 1)                                                                       \
    S(row_security, on)                                                                            \
    S(exit_on_error, off)                                                                          \
    S(default_transaction_deferrable, off)                                                         \
    S(idle_session_timeout, 0)

/* Plans of index scans only. */
#define PINNED_HOT(S)                                                                              \
    S(enable_seqscan, off)                                                                         \
    S(enable_bitmapscan, off)                                                                      \
    S(enable_hashjoin, off)                                                                        \
    S(enable_mergejoin, off)                                                                       \
    S(plan_cache_mode, force_generic_plan)                                                         \
    S(jit, off)                                                                                    \
    S(enable_indexscan, on)                                                                        \
    S(enable_indexonlyscan, on)                                                                    \
    S(enable_nestloop, on)                                                                         \
    S(enable_tidscan, on)                                                                          \
    S(enable_sort, on)                                                                             \
    S(enable_material, on)                                                                         \
    S(enable_hashagg, on)                                                                          \
    S(enable_partition_pruning, on)                                                                \
    S(join_collapse_limit, 8)                                                                      \
    S(from_collapse_limit, 8)                                                                      \
    S(max_parallel_workers_per_gather, 0)

#define AS_SET(name, value) "SET " #name " = " #value ";"
#define AS_ROW(name, value) "('" #name "', '" #value "'), "

/* The first is of PostgreSQL 17, and the server says so when the other must be set by a person. */
#define UNLESS_SET "('transaction_timeout', '0'), ('session_replication_role', 'origin')"

const char db_session_hot[] = PINNED_HOT(AS_SET);

void session_text(enum db_kind kind, char text[SESSION_TEXT_BYTES])
{
    int n = snprintf(text, SESSION_TEXT_BYTES,
                     "%s SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;"
                     "SET client_encoding = 'UTF8';" PINNED(AS_SET) //
                     "SET statement_timeout = %d; SET lock_timeout = %d;"
                     "SET idle_in_transaction_session_timeout = %d;"
                     "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;"
                     "SET tcp_keepalives_count = 3; SET tcp_user_timeout = 20000;"
                     "SELECT set_config(name, v, false) FROM (VALUES " UNLESS_SET ") p (name, v)"
                     " WHERE current_setting(name, true) <> v;",
                     kind == DB_READ ? "BEGIN ISOLATION LEVEL READ COMMITTED;" : "",
                     DB_STATEMENT_LIMIT_MS, DB_LOCK_LIMIT_MS, DB_STATEMENT_LIMIT_MS);
    if (kind == DB_HOT || kind == DB_LEADER || kind == DB_READ) {
        (void)snprintf(text + n, SESSION_TEXT_BYTES - (size_t)n, "%s", db_session_hot);
    } else if (kind == DB_PRESENCE) {
        (void)snprintf(text + n, SESSION_TEXT_BYTES - (size_t)n, "SET idle_session_timeout = %d;",
                       DB_IDLE_LIMIT_MS);
    }
}

void session_local_text(char text[SESSION_TEXT_BYTES])
{
    static const char pinned[] = PINNED(AS_ROW) PINNED_HOT(AS_ROW) UNLESS_SET;
    (void)snprintf(text, SESSION_TEXT_BYTES,
                   "SELECT pg_catalog.set_config(name, v, true) FROM (VALUES %s,"
                   " ('statement_timeout', '%d'), ('lock_timeout', '%d'),"
                   " ('idle_in_transaction_session_timeout', '%d')) p (name, v)"
                   " WHERE pg_catalog.current_setting(name, true) OPERATOR(pg_catalog.<>) v",
                   pinned, DB_STATEMENT_LIMIT_MS, DB_LOCK_LIMIT_MS, DB_STATEMENT_LIMIT_MS);
}
