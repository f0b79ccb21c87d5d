#include "core/tasks/task.h"

static const struct {
    const char *word, *text;
} states[TASK_STATE_COUNT + 1] = {
    [TASK_BLOCKED] = {"blocked", "in `tenon.task`: it waits for a parent, a limit or a signal, "
                                 "after which `wanted_at` becomes its `run_at`; or it waits to run "
                                 "alone"},
    [TASK_SCHEDULED] = {"scheduled",
                        "in `tenon.task`: it never failed, and `run_at` is in the future"},
    [TASK_READY] = {"ready", "in `tenon.task`: `run_at` has passed, and `start_time` is NULL"},
    [TASK_RUNNING] = {"running", "in `tenon.task`: a worker claimed it at `start_time`"},
    [TASK_RETRYING] =
        {"retrying", "in `tenon.task`: it failed or crashed before, and `run_at` is in the future"},
    [TASK_DONE] = {"done", "in `tenon.history`: it succeeded"},
    [TASK_CANCELLED] = {"cancelled", "in `tenon.history`: it was cancelled"},
    [TASK_EXPIRED] = {"expired", "in `tenon.history`: it did not start before `start_before`"},
    [TASK_DEAD] = {"dead", "in `tenon.dead`: it failed for good; `reason` gives the cause"},
    [TASK_NONE] = {"", ""},
};

const char *task_state_word(enum task_state state)
{
    return states[state].word;
}

const char *task_state_text(enum task_state state)
{
    return states[state].text;
}

const struct task_act task_acts[] = {
    {"enqueue", TASK_NONE, TASK_READY, "application", "tenon.enqueue", "it may run at once"},
    {"enqueue", TASK_NONE, TASK_SCHEDULED, "application", "tenon.enqueue",
     "run_at is in the future, or a delay is given"},
    {"enqueue", TASK_NONE, TASK_BLOCKED, "application", "tenon.enqueue",
     "it has parents that are not done, or limits"},
    {"unblock", TASK_BLOCKED, TASK_READY, "cleaner", "tenon.settle, tenon.unblock",
     "its parents, limits or signal no longer hold it back"},
    {"unblock", TASK_BLOCKED, TASK_SCHEDULED, "cleaner", "tenon.settle, tenon.unblock",
     "the same, and its run_at is in the future"},
    {"due", TASK_SCHEDULED, TASK_READY, "time", "no statement", "run_at has passed"},
    {"due", TASK_RETRYING, TASK_READY, "time", "no statement", "run_at has passed"},
    {"claim", TASK_READY, TASK_RUNNING, "worker", "worker/claim.sql, worker/poll.sql",
     "a worker with a free slot serves its queue and kind"},
    {"finish", TASK_RUNNING, TASK_DONE, "worker, or the handler itself",
     "worker/finish.sql, tenon.finish, tenon.finish_many", "the handler reports success"},
    {"fail", TASK_RUNNING, TASK_RETRYING, "worker", "tenon.requeue, failed",
     "the handler failed, and max_attempts is not reached"},
    {"fail", TASK_RUNNING, TASK_DEAD, "worker", "tenon.requeue, failed",
     "the handler failed for the max_attempts-th time"},
    {"snooze", TASK_RUNNING, TASK_SCHEDULED, "worker", "tenon.requeue, snooze",
     "the handler asks for a later run, and the task never failed"},
    {"snooze", TASK_RUNNING, TASK_RETRYING, "worker", "tenon.requeue, snooze",
     "the handler asks for a later run, and the task failed before"},
    {"wait_signal", TASK_RUNNING, TASK_BLOCKED, "worker", "tenon.requeue, wait_signal",
     "the handler waits for a signal"},
    {"wait_in_transaction", TASK_RUNNING, TASK_BLOCKED, "the handler itself", "tenon.wait_signal",
     "the handler waits for a signal, in a transaction of its own"},
    {"release", TASK_RUNNING, TASK_READY, "worker", "tenon.requeue, released",
     "the worker could not run it, or stopped before it ended"},
    {"block", TASK_RUNNING, TASK_BLOCKED, "worker, cleaner", "tenon.requeue",
     "it has limits, which must release its next attempt too"},
    {"crash", TASK_RUNNING, TASK_READY, "cleaner, worker", "tenon.requeue, crashed",
     "its worker died, or its child died while it had other tasks"},
    {"suspect", TASK_RUNNING, TASK_BLOCKED, "cleaner, worker", "tenon.requeue",
     "the same, and its next crash may be its last (max_crashes): it runs alone next"},
    {"claim_alone", TASK_BLOCKED, TASK_RUNNING, "worker", "worker/claim_alone.sql",
     "it is a suspect, and a worker that has the turn runs nothing else"},
    {"crash", TASK_RUNNING, TASK_DEAD, "cleaner, worker", "tenon.requeue, crashed",
     "the same, and it ran alone"},
    {"time_out", TASK_RUNNING, TASK_RETRYING, "worker, else the cleaner",
     "tenon.requeue, timed_out", "it ran past its timeout, which counts as a failure"},
    {"time_out", TASK_RUNNING, TASK_DEAD, "worker, else the cleaner", "tenon.requeue, timed_out",
     "it ran past its timeout: the max_attempts-th failure, or on_timeout of its kind is dead"},
    {"give_up", TASK_RUNNING, TASK_DEAD, "worker", "tenon.requeue, dead",
     "the handler reports that the task can never succeed"},
    {"cancel", TASK_BLOCKED, TASK_CANCELLED, "application, operator",
     "tenon.cancel, tenon.cancel_where", "the application or an operator cancels it"},
    {"cancel", TASK_SCHEDULED, TASK_CANCELLED, "application, operator",
     "tenon.cancel, tenon.cancel_where", "the application or an operator cancels it"},
    {"cancel", TASK_READY, TASK_CANCELLED, "application, operator",
     "tenon.cancel, tenon.cancel_where", "the application or an operator cancels it"},
    {"cancel", TASK_RETRYING, TASK_CANCELLED, "application, operator",
     "tenon.cancel, tenon.cancel_where", "the application or an operator cancels it"},
    {"cancel", TASK_RUNNING, TASK_CANCELLED, "application, operator",
     "tenon.cancel, tenon.cancel_where",
     "the same; its worker loses the claim and stops the handler"},
    {"expire", TASK_BLOCKED, TASK_EXPIRED, "cleaner", "tenon.settle", "start_before has passed"},
    {"expire", TASK_SCHEDULED, TASK_EXPIRED, "cleaner", "tenon.settle", "start_before has passed"},
    {"expire", TASK_READY, TASK_EXPIRED, "cleaner", "tenon.settle", "start_before has passed"},
    {"expire", TASK_RETRYING, TASK_EXPIRED, "cleaner", "tenon.settle", "start_before has passed"},
    {"retry", TASK_DEAD, TASK_READY, "operator", "tenon.retry, tenon.retry_where",
     "an operator retries it, and its failures no longer count; refused while another task "
     "holds its unique key"},
    {"retry", TASK_CANCELLED, TASK_READY, "operator", "tenon.retry, tenon.retry_where", "the same"},
    {"retry", TASK_EXPIRED, TASK_READY, "operator", "tenon.retry, tenon.retry_where",
     "the same, without its start_before"},
    {"retry", TASK_DEAD, TASK_BLOCKED, "operator", "tenon.retry, tenon.retry_where",
     "the same, and it has limits, which must release it"},
    {"retry", TASK_CANCELLED, TASK_BLOCKED, "operator", "tenon.retry, tenon.retry_where",
     "the same"},
    {"retry", TASK_EXPIRED, TASK_BLOCKED, "operator", "tenon.retry, tenon.retry_where", "the same"},
    {"run_now", TASK_SCHEDULED, TASK_READY, "operator", "tenon.run_now_where, tenon.set_where",
     "an operator runs it before its `run_at`"},
    {"run_now", TASK_RETRYING, TASK_READY, "operator", "tenon.run_now_where, tenon.set_where",
     "the same"},
    {"put_off", TASK_READY, TASK_SCHEDULED, "operator", "tenon.set_where",
     "an operator sets a `run_at` in the future"},
    {"put_off", TASK_READY, TASK_BLOCKED, "operator", "tenon.set_where",
     "the same, and it has limits, which must release it at that time"},
    {"delete", TASK_DEAD, TASK_NONE, "operator", "tenon.delete, tenon.delete_where",
     "an operator deletes it"},
    {"delete", TASK_DONE, TASK_NONE, "operator", "tenon.delete, tenon.delete_where",
     "an operator deletes it"},
    {"delete", TASK_EXPIRED, TASK_NONE, "operator", "tenon.delete, tenon.delete_where",
     "an operator deletes it"},
    {"delete", TASK_CANCELLED, TASK_NONE, "operator", "tenon.delete, tenon.delete_where",
     "an operator deletes it"},
    {"forget", TASK_DONE, TASK_NONE, "cleaner", "dropping a partition of tenon.history",
     "it is older than history_keep, or there are history_rows_max newer tasks"},
    {"forget", TASK_CANCELLED, TASK_NONE, "cleaner", "dropping a partition of tenon.history",
     "it is older than history_keep, or there are history_rows_max newer tasks"},
    {"forget", TASK_EXPIRED, TASK_NONE, "cleaner", "dropping a partition of tenon.history",
     "it is older than history_keep, or there are history_rows_max newer tasks"},
    {"purge", TASK_DEAD, TASK_NONE, "cleaner", "tenon.purge", "it died longer ago than dead_keep"},
};

const size_t task_acts_n = sizeof task_acts / sizeof *task_acts;
