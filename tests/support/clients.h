/* What the tests of the clients need, and tests that run handlers in Python and Node. */
#ifndef TENON_TESTS_SUPPORT_CLIENTS_H
#define TENON_TESTS_SUPPORT_CLIENTS_H

#include "tests/support/process.h"

/* The folder that script/python-env or script/node-env makes. A language that is missing fails the
 * test. */
void clients_environment(struct fixture *fx, const char *script, char *ret, size_t size);

enum { CLIENTS_MISSING = 69 }; /* how a script ends that does not find its language */

/* Run shell commands in the repository, with the program in TENON. Returns their exit status, 0 or
 * CLIENTS_MISSING; any other one fails the test with what they printed.
 *   ret_said  what they printed to stdout; free(); NULL = it is not needed */
int clients_run(struct fixture *fx, int64_t limit_ms, char **ret_said, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

#endif
