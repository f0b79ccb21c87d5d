/* What the tests of the clients stand on, for tests that run handlers in Python and Node. */
#ifndef TENON_TESTS_SUPPORT_CLIENTS_H
#define TENON_TESTS_SUPPORT_CLIENTS_H

#include "tests/support/process.h"

/* The folder that script/python-env or script/node-env makes. A language that is missing fails the
 * test. */
void clients_environment(struct fixture *fx, const char *script, char *ret, size_t size);

#endif
