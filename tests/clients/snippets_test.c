/* label: e2e */
/* timeout: 300 */
/* only: all */
/* The blocks of README.md and docs/start.md are run as a reader would, or say why not. A PostgreSQL
 * of its own, as they make roles. (Those of the clients' READMEs: clients_python_test,
 * clients_node_test.) */
#include "tests/support/process.h"
#include "tests/support/servers.h"

#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS_MS = 270000 };

static int start(void **state)
{
    server_open("postgres");
    int failed = fixture_setup_database(state);
    server_vhost(*state, "snippets");
    return failed;
}

static int end(void **state)
{
    int failed = fixture_teardown(state);
    server_close();
    return failed;
}

static void test_readme(void **state)
{
    struct fixture *fx = *state;
    char command[1000];
    int programs = (int)(strrchr(tenon_program, '/') - tenon_program);
    (void)snprintf(command, sizeof command,
                   "mkdir %s/reader && cd %s/reader &&"
                   " exec python3 -B '%s/tests/support/snippets.py' '%s' '%.*s'",
                   fx->dir, fx->dir, repository, repository, programs, tenon_program);
    struct process *p = process_spawn(fx, (const char *const[]){"sh", "-c", command, NULL}, NULL);
    int status = process_wait(p, BLOCKS_MS);
    char *out = file_text(p->out);
    if (status != 0) {
        fail_msg("exit code %d: %s%s", status, out, file_text(p->log));
    }
    print_message("%s", out);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_readme, start, end)};
    return RUN_GROUP(tests);
}
