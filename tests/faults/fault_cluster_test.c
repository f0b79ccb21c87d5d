/* label: fault */
/* long: 300 */
/* only: all */
/* What becomes of tasks when a node of a RabbitMQ cluster is killed. Three nodes; every program has
 * the three hosts in its URL. Two workers, a cleaner and two producers go on through all of it.
 * Three nodes take a minute of two processors, so this runs with TEST_LONG alone. */
#include "tests/support/cluster.h"
#include "tests/support/fleet.h"

static struct fleet all;

static int start_all(void **state)
{
    void *fixture = NULL;
    if (fixture_setup_database(&fixture) != 0) {
        return -1;
    }
    struct fixture *fx = all.fx = fixture;
    cluster_open(fx);
    (void)snprintf(fx->vhost, sizeof fx->vhost, "/");
    free(TENON_RUN(fx, 0, "setup"));
    fleet_start(&all, fx);
    *state = &all;
    return 0;
}

/* The virtual host goes with the cluster: there is nothing in it to empty. */
static int end_all(void **state)
{
    (void)state;
    void *fixture = all.fx;
    all.fx->vhost[0] = '\0';
    return fixture_teardown(&fixture);
}

/* Everybody is connected to the first node that runs, in the order of the URL, and so the queue is
 * on the first: while that is down there is none, and tasks are found by polls. */
static void test_the_queue_s_node_killed(void **state)
{
    (void)state;
    load_await_running(all.fx, 2);
    cluster_kill(0);
    fleet_do_without(&all, 3000);
    fleet_check(&all, "the node with the queue is killed");
    cluster_start(0);
    fleet_await_woken(&all, "it is back");
    fleet_check(&all, "it is back");
}

static void test_another_node_killed(void **state)
{
    (void)state;
    load_await_running(all.fx, 2);
    cluster_kill(2);
    fleet_await_woken(&all, "another node is killed");
    fleet_check(&all, "another node is killed");
    cluster_start(2);
    fleet_await_woken(&all, "it is back");
    fleet_check(&all, "it is back");
}

static void test_two_nodes_killed(void **state)
{
    (void)state;
    load_await_running(all.fx, 2);
    cluster_kill(0);
    cluster_kill(2);
    fleet_do_without(&all, 3000);
    fleet_check(&all, "two of three nodes are killed");
    cluster_start(2);
    cluster_start(0);
    fleet_await_woken(&all, "all are back");
    fleet_check(&all, "all are back");
}

static void test_all_ends_well(void **state)
{
    (void)state;
    load_stop(&all.load);
    fleet_check(&all, "in the end");
    fleet_end(&all);
}

int main(void)
{
    if (!load_is_long()) {
        print_message("skipped: runs with TEST_LONG=1, as in script/nightly\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_queue_s_node_killed),
        cmocka_unit_test(test_another_node_killed),
        cmocka_unit_test(test_two_nodes_killed),
        cmocka_unit_test(test_all_ends_well),
    };
    return cmocka_run_group_tests(tests, start_all, end_all);
}
