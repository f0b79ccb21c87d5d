#include "tests/support/producer.h"

tenon *make(struct fixture *fx, struct broker **ret)
{
    tenon *t = tenon_new(fx->amqp_url);
    if (!t) {
        fail_msg("%s", tenon_errmsg());
    }
    *ret = broker_open(fx->amqp_url);
    broker_spy(*ret, "default/mail", "default/mail");
    return t;
}

tenon_task task_of(const char *kind)
{
    tenon_task task = TENON_TASK_INIT;
    task.kind = kind;
    return task;
}

int64_t enqueue(tenon *t, PGconn *conn)
{
    tenon_task task = task_of("mail");
    int64_t id = 0;
    assert_code(tenon_enqueue(t, conn, &task, &id), TENON_OK);
    assert_true(id > 0);
    assert_string_equal(tenon_errmsg(), "");
    return id;
}

void assert_arrived(tenon *t, struct broker *b, int64_t n)
{
    assert_code(tenon_flush(t, LIMIT_MS * PATIENCE), TENON_OK);
    assert_int_equal(broker_depth(b, "default/mail"), n);
}

int64_t tasks(struct fixture *fx)
{
    return test_sql_int(fx, "SELECT count(*) FROM tenon.task");
}
