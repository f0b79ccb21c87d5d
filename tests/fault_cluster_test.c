/* label: fault */
/* long: 300 */
/* What becomes of tasks when a node of a RabbitMQ cluster is killed. Three nodes and a quorum
 * queue; every program has the three hosts in its URL. Two workers, a cleaner and two producers go
 * on through all of it. Three nodes take a minute of two processors, so this runs with TEST_LONG
 * alone. */
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
    free(TENON_RUN(fx, 0, "setup", "--queue-type", "quorum"));
    fleet_start(&all, fx, "quorum");
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

/* Everybody is connected to the first node that runs, in the order of the URL. */
static void kill_leader(const char *fault, int leader)
{
    cluster_lead(leader);
    load_await_running(all.fx, 2);
    cluster_kill(leader);
    fleet_await_woken(&all, fault);
    fleet_check(&all, fault);
    int heir = cluster_leader((leader + 1) % CLUSTER_NODES);
    print_message("%s: node %d leads instead of %d\n", fault, heir, leader);
    assert_int_not_equal(heir, leader);
}

static void come_back(const char *event, int node)
{
    cluster_start(node);
    fleet_await_woken(&all, event);
    fleet_check(&all, event);
    assert_int_equal(cluster_consumers(node), FLEET_WORKERS);
}

static void test_leader_killed(void **state)
{
    (void)state;
    size_t ups = fleet_lines(&all, "event=broker_up");
    kill_leader("leader killed, everybody connected to it", 0);
    fleet_await_lines(&all, "event=broker_up", ups + FLEET_WORKERS);
    come_back("it is back", 0);
}

static void test_another_leader_killed(void **state)
{
    (void)state;
    size_t downs = fleet_lines(&all, "event=broker_down");
    kill_leader("leader killed, nobody connected to it", 2);
    assert_int_equal(fleet_lines(&all, "event=broker_down"), downs);
    come_back("it is back", 2);
}

/* Without a majority a quorum queue takes and gives nothing. */
static void test_majority_killed(void **state)
{
    (void)state;
    load_await_running(all.fx, 2);
    cluster_kill(0);
    cluster_kill(2);
    fleet_do_without(&all, 3000);
    fleet_check(&all, "no majority");
    come_back("a majority again", 2);
    come_back("all are back", 0);
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
        cmocka_unit_test(test_leader_killed),
        cmocka_unit_test(test_another_leader_killed),
        cmocka_unit_test(test_majority_killed),
        cmocka_unit_test(test_all_ends_well),
    };
    return cmocka_run_group_tests(tests, start_all, end_all);
}
