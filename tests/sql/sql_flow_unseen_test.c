/* label: sql */
/* Parents of which nobody has seen yet how they ended. */
#include "tests/support/held.h"

#include "worker/statements.h"

static void settle(struct fixture *fx)
{
    test_await(fx, 10000, "SELECT tenon.settle() = 0");
}

static int64_t add(struct fixture *fx, const char *after)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('a', flow => 1, depends_on => '%s')", after);
}

static void die(struct fixture *fx, int64_t id)
{
    struct held c;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    assert_true(held_take(fx, worker, id, &c));
    free(held_requeue(fx, &c, "dead", "oops", NULL));
}

/* They cannot be deleted until then: their child would take them for done. */
static void test_deleted(void **state)
{
    struct fixture *fx = *state;
    static const char delete[] = "SELECT tenon.delete_where('{\"ids\": [1, 2]}')";
    test_sql(fx, "SELECT tenon.flow('one')");
    int64_t dead = add(fx, "{}"), cancelled = add(fx, "{}"), child = add(fx, "{1,2}");
    die(fx, dead);
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)cancelled);
    assert_int_equal(test_sql_int(fx, delete), 0);
    settle(fx);
    assert_int_equal(test_sql_int(fx, delete), 2);
    settle(fx);
    assert_state(fx, child, "blocked");
}

/* Retried and done before anybody looks, and without a history: the child goes on. */
static void test_done_without_a_history(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.flow('one')");
    int64_t parent = add(fx, "{}"), child = add(fx, "{1}");
    die(fx, parent);
    settle(fx);
    test_sql(fx, "SELECT tenon.retry_where('{\"ids\": 1}')");
    assert_true(held_take(fx, worker, parent, &c));
    assert_true(held_finish(fx, &sql_finish_forget, &c, "{}"));
    settle(fx);
    assert_state(fx, child, "ready");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_deleted),
        WITH_DATABASE(test_done_without_a_history),
    };
    return RUN_GROUP(tests);
}
