#include "tests/support/rows.h"

void rows_dead(struct fixture *fx, const char *kind, int n, const char *error)
{
    test_sql(
        fx,
        "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims, failures,"
        " crashes, max_attempts, priority, reason, queue, kind, payload, last_error,"
        " error_class)"
        " SELECT now(), nextval('tenon.task_id_seq'), now(), now(), 1000, 1, 1, 0, 1, 4,"
        " 'failures', 'default', '%s', jsonb_build_object('n', i), '%s',"
        " split_part('%s', ':', 1) FROM generate_series(1, %d) i",
        kind, error, error, n);
}

char *rows_named(struct fixture *fx, const char *filter)
{
    return test_sql_text(
        fx,
        "SELECT coalesce(string_agg(payload ->> 'n', '' ORDER BY payload ->> 'n'), '')"
        " FROM tenon.list('%s')",
        filter);
}
