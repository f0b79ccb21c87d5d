/* Addresses and networks, and which address is in which network. */
#include "core/base/network.h"
#include "tests/support/test.h"

static void test_what_is_a_network(void **state)
{
    static const char *const right[] = {"10.0.0.7", "10.0.0.0/8", "0.0.0.0/0",
                                        "::1",      "fd00::/8",   "::ffff:10.0.0.7"};
    static const char *const wrong[] = {"",
                                        "proxy.example",
                                        "10.0.0",
                                        "10.0.0.0/33",
                                        "10.0.0.0/",
                                        "10.0.0.0/-1",
                                        "10.0.0.0/8x",
                                        "::1/129",
                                        "10.0.0.0/8/",
                                        "/8",
                                        "::1%lo",
                                        "10.0.0.0/0008"};
    struct network network;
    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_true(network_read(right[i], &network));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(network_read(wrong[i], &network));
    }
}

static void test_what_is_in_it(void **state)
{
    static const struct {
        const char *network, *address;
        bool has;
    } cases[] = {
        {"10.0.0.7", "10.0.0.7", true},
        {"10.0.0.7", "10.0.0.8", false},
        {"10.0.0.0/8", "10.255.1.2", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/9", "10.127.0.1", true},
        {"10.0.0.0/9", "10.128.0.1", false},
        {"0.0.0.0/0", "192.0.2.1", true},
        {"0.0.0.0/0", "::1", false},
        {"10.0.0.7", "::ffff:10.0.0.7", true},
        {"::1", "::1", true},
        {"fd00::/8", "fd12::1", true},
        {"fd00::/8", "fe80::1", false},
        {"fe80::/10", "febf::1", true},
        {"fe80::/10", "fec0::1", false},
        {"::/0", "10.0.0.7", true},
        {"10.0.0.0/8", "", false},
        {"10.0.0.0/8", "10.0.0.0/8", false},
    };
    struct network network;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(network_read(cases[i].network, &network));
        assert_int_equal(network_has(&network, cases[i].address), cases[i].has);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_a_network),
        cmocka_unit_test(test_what_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
