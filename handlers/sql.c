/* tenon-sql: a pool handler that calls a PostgreSQL function for each task, in the transaction that
 * finishes it. */
#include "handlers/sql_session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct sql {
    struct sql_settings settings;
    struct pool pool;
    struct sql_session sessions[CONNECTIONS_MAX];
    int open;
    bool retires; /* a connection is lost: another child makes new ones */
};

static bool open_all(struct sql *q, struct fault *f)
{
    while (q->open < q->settings.connections) {
        if (!sql_session_open(&q->sessions[q->open++], &q->settings, f)) {
            return false;
        }
    }
    return true;
}

static bool is_busy(const struct sql *q)
{
    for (int i = 0; i < q->open; i++) {
        if (q->sessions[i].busy) {
            return true;
        }
    }
    return false;
}

static void lose(struct sql *q, int i)
{
    if (!q->retires) {
        pool_bye(&q->pool);
    }
    q->retires = true;
    sql_session_close(&q->sessions[i]);
    q->sessions[i] = q->sessions[--q->open];
}

static void refuse(struct sql *q, struct pool_task *task, const char *outcome, const char *error)
{
    pool_answer(&q->pool, task->id, &(struct pool_answer){.outcome = outcome, .error = error});
    pool_task_clear(task);
}

static void take_task(struct sql *q, struct pool_task *task)
{
    int function = sql_settings_function(&q->settings, task->kind), i = 0;
    while (i < q->open && q->sessions[i].busy) {
        i++;
    }
    if (function < 0) {
        refuse(q, task, "failed", "tenon-sql has no --function for this kind");
    } else if (i == q->open) { /* it came after a connection was lost */
        refuse(q, task, "interrupted", NULL);
    } else if (!sql_session_begin(&q->sessions[i], task, function, &q->pool)) {
        lose(q, i);
    }
}

/* Its claim is not valid any more, so it cannot commit; the server need not go on with it. */
static void stop_task(struct sql *q, int64_t id)
{
    for (int i = 0; i < q->open; i++) {
        if (q->sessions[i].busy && q->sessions[i].task.id == id) {
            sql_session_cancel(&q->sessions[i]);
        }
    }
}

static bool take_lines(struct sql *q, struct fault *f)
{
    struct pool_message m;
    if (!pool_read(&q->pool, f)) {
        return false;
    }
    do {
        if (!pool_take(&q->pool, &m, f)) {
            return false;
        }
        if (m.type == POOL_TASK) {
            take_task(q, &m.task);
        } else if (m.type == POOL_STOP) {
            stop_task(q, m.stop);
        }
    } while (m.type != POOL_NOTHING);
    return true;
}

static bool go_on(struct sql *q, const struct pollfd *ready, struct fault *f)
{
    for (int i = q->open - 1; i >= 0; i--) { /* from the end: a lost one is taken out */
        if (ready[i].revents && !sql_session_go_on(&q->sessions[i], &q->pool)) {
            lose(q, i);
        }
    }
    return !ready[CONNECTIONS_MAX].revents || take_lines(q, f);
}

static bool run(struct sql *q, struct fault *f)
{
    while (is_busy(q) || !(q->pool.ended || q->retires)) {
        struct pollfd ready[CONNECTIONS_MAX + 1] = {{.fd = -1}};
        for (int i = 0; i <= CONNECTIONS_MAX; i++) {
            bool is_open = i < q->open;
            ready[i].fd = is_open ? sql_session_fd(&q->sessions[i]) : -1;
            ready[i].events = (short)(POLLIN | (is_open && q->sessions[i].sending ? POLLOUT : 0));
        }
        ready[CONNECTIONS_MAX].fd = q->pool.ended || q->retires ? -1 : STDIN_FILENO;
        ready[CONNECTIONS_MAX].events = POLLIN;
        if (!pool_flush(&q->pool, f)) {
            return false;
        }
        if (poll(ready, CONNECTIONS_MAX + 1, -1) < 0 && errno != EINTR) {
            return fault_set(f, FAULT_BUG, "could not poll: %s", strerror(errno));
        }
        if (!go_on(q, ready, f)) {
            return false;
        }
    }
    return pool_flush(&q->pool, f);
}

static void close_all(struct sql *q)
{
    for (int i = 0; i < q->open; i++) {
        sql_session_close(&q->sessions[i]);
    }
    pool_close(&q->pool);
}

int main(int argc, char **argv)
{
    static struct sql q;
    struct fault f = {.code = FAULT_NONE};
    (void)signal(SIGPIPE, SIG_IGN);
    bool ok = sql_settings_read(&q.settings, argc, argv, &f);
    if (ok && q.settings.help) {
        sql_settings_help();
    } else if (ok && open_all(&q, &f)) {
        pool_open(&q.pool, q.settings.connections);
        ok = run(&q, &f);
    }
    close_all(&q);
    if (f.code != FAULT_NONE) {
        (void)fprintf(stderr, "tenon-sql: %s\n", f.text);
    }
    return f.code == FAULT_NONE && ok ? 0 : fault_exit_code(&f);
}
