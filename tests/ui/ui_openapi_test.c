/* label: e2e */
/* timeout: 120 */
/* only: all */
/* What `tenon ui` answers is what ui/openapi.json says: tests/support/openapi.py asks for each path
 * that it describes. (script/check-openapi compares these with the paths that there are.) */
#include "tests/support/clients.h"
#include "tests/support/held.h"
#include "tests/support/web.h"

#include <stdio.h>

enum { LIMIT_MS = 60000 };

/* Of everything one, so that no list is empty. */
static void fill(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 2, max_starts => 10, per => '1 min'),"
                 " tenon.enqueue('a', queue => 'default', limit_keys => '{t}', tags => '{x}',"
                 " unique_key => 'k', payload => '{\"to\": \"ann@example.org\"}'),"
                 " tenon.flow('{\"name\": \"f\", \"tasks\": [{\"name\": \"p\", \"kind\": \"c\"},"
                 " {\"name\": \"l\", \"kind\": \"c\", \"depends_on\": [\"p\"]}]}'),"
                 " tenon.set_schedule('nightly', cron => '0 3 * * *', kind => 'report'),"
                 " tenon.pause(queue => 'other', why => 'it burns'),"
                 " tenon.publish('events', 'user.created', '{}')");
    test_sql(fx, "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims,"
                 " failures, crashes, max_attempts, priority, reason, queue, kind, payload,"
                 " last_error, error_class) SELECT now(), nextval('tenon.task_id_seq'), now(),"
                 " now(), 1000, 1, 1, 0, 1, 4, 'failures', 'default', 'mail', '{}', 'Boom: it',"
                 " 'Boom' FROM generate_series(1, 3)");
    test_sql(fx, "INSERT INTO tenon.minute (minute, queue, kind, worker_id, started, done, failed,"
                 " dead, wait_us) SELECT date_trunc('minute', now()), 'default', 'a',"
                 " gen_random_uuid(), 4, 3, 1, 1, 1500000");
    test_sql(fx, "SELECT tenon.settle()");
    test_sql(fx, "INSERT INTO tenon.worker (id, host, pid, slots, queues, kinds)"
                 " VALUES ('0b4bd6b4-5a55-4e0b-8f0e-0a7f1d6c1f53', 'h', 1, 1, '{default}', '{a}')");
}

static void test_what_is_described(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    struct held held;
    char env[300], python[330], script[300], port[16];
    clients_environment(fx, "script/tests-env", env, sizeof env);
    fill(fx);
    held_new(fx, &held); /* a worker that runs a task */
    WEB_OPEN(fx, &w, NULL);
    (void)snprintf(python, sizeof python, "%s/bin/python", env);
    (void)snprintf(script, sizeof script, "%s/tests/support/openapi.py", repository);
    (void)snprintf(port, sizeof port, "%d", w.port);
    const char *const args[] = {python, script, port, w.token, NULL};
    struct process *p = process_spawn(fx, args, NULL);
    int code = process_wait(p, LIMIT_MS);
    char *log = file_text(p->log);
    if (code != 0) {
        (void)fputs(log, stderr);
        fail_msg("openapi.py ended with %d", code);
    }
    free(log);
    web_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_DATABASE(test_what_is_described)};
    return RUN_GROUP(tests);
}
