#include "tests/support/subject.h"

#include "core/base/now.h"
#include "include/tenon/tenon.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

void subject_open(struct fixture *fx, struct subject *s)
{
    static int count;
    *s = (struct subject){.slots = 1};
    (void)snprintf(s->queue, sizeof s->queue, "q%d", ++count);
    proxy_open(&s->database, fx->database_url);
    proxy_open(&s->broker, fx->amqp_url);
    struct broker *b = broker_open(fx->amqp_url);
    (void)snprintf(s->key, sizeof s->key, "%s/a", s->queue);
    broker_declare(b, s->key);
    broker_close(b);
}

void subject_close(struct subject *s)
{
    proxy_close(&s->database);
    proxy_close(&s->broker);
}

static void subject_spawn(struct fixture *fx, struct subject *s, const char *const *args)
{
    char database[600], broker[600];
    (void)snprintf(database, sizeof database, "DATABASE_URL=%s", s->database.url);
    (void)snprintf(broker, sizeof broker, "AMQP_URL=%s", s->broker.url);
    s->process = tenon_spawn(fx, args, (const char *const[]){database, broker, NULL});
}

void subject_work(struct fixture *fx, struct subject *s)
{
    char h[256], slots[12];
    (void)snprintf(slots, sizeof slots, "%d", s->slots);
    subject_spawn(fx, s,
                  (const char *const[]){"worker", "--slots", slots, "--queues", s->queue,
                                        "--handler", handler(h, "a=pool:exec %s 1", "pool"),
                                        "--drain-limit", "2s", "--log-level", "debug", NULL});
}

void subject_clean(struct fixture *fx, struct subject *s)
{
    subject_spawn(fx, s, (const char *const[]){"cleaner", NULL});
}

int64_t subject_give(struct fixture *fx, const struct subject *s, const char *payload)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('a', '%s', queue => '%s', announced => true)",
                        payload, s->queue);
}

void await_task(struct fixture *fx, int64_t id, int64_t limit_ms)
{
    test_await(fx, limit_ms, "SELECT state = 'done', state FROM tenon.tasks WHERE id = %lld",
               (long long)id);
}

void subject_run(struct fixture *fx, const struct subject *s, int64_t limit_ms)
{
    await_task(fx, subject_give(fx, s, "{}"), limit_ms);
}

void assert_nobody_died(struct fixture *fx)
{
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.worker WHERE state = 'dead'"), 0);
}

void assert_all_ran_once(struct fixture *fx)
{
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
    assert_each_ran_once(fx, (size_t)test_sql_int(fx, "SELECT count(*) FROM tenon.history"));
}

void subject_await_lines(struct subject *s, const char *text, size_t n, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    while (process_lines(s->process, text) < n) {
        if (now_ms() > deadline_ms) {
            process_await_line(s->process, "\n", 0); /* fails, and shows the log */
        }
        (void)poll(NULL, 0, 5);
    }
}

void subjects_up(struct fixture *fx, struct subject *s, int n)
{
    for (int i = 0; i < n; i++) {
        subject_open(fx, &s[i]);
        subject_work(fx, &s[i]);
    }
    for (int i = 0; i < n; i++) {
        process_await_line(s[i].process, "event=broker_up", START_MS);
        subject_run(fx, &s[i], START_MS);
    }
}

void subjects_down(struct subject *s, int n)
{
    for (int i = 0; i < n; i++) {
        process_signal(s[i].process, SIGTERM);
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(process_wait(s[i].process, START_MS), 0);
        subject_close(&s[i]);
    }
}

void produce(struct fixture *fx, const char *amqp_url, const char *queue)
{
    int64_t start_ms = now_ms(), id = 0;
    tenon *t = tenon_new(amqp_url);
    tenon_task task = TENON_TASK_INIT;
    task.kind = "a";
    task.queue = queue;
    for (int i = 0; i < 3; i++) {
        test_sql(fx, "BEGIN");
        assert_int_equal(tenon_enqueue(t, fx->conn, &task, &id), TENON_OK);
        assert_int_equal(tenon_commit(t, fx->conn), TENON_OK);
        assert_took(start_ms, AT_ONCE_MS);
        start_ms = now_ms();
    }
    (void)tenon_flush(t, 200);
    tenon_free(t);
    assert_took(start_ms, 200 + TENON_FREE_LIMIT_MS + AT_ONCE_MS);
}
