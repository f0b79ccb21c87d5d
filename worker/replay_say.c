#include "worker/replay_say.h"

#include "worker/note.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

static const char *outcome_word(enum claim_outcome outcome)
{
    return outcome == OUTCOME_DONE ? "done" : claim_reason(outcome);
}

static void say_time(FILE *out, int64_t unix_ms)
{
    struct tm tm;
    char text[32];
    time_t s = (time_t)(unix_ms / 1000);
    (void)gmtime_r(&s, &tm);
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)fprintf(out, "%s.%03dZ ", text, (int)(unix_ms % 1000));
}

/* --- events --- */

static void say_ids(FILE *out, const int64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(out, " %" PRId64, ids[i]);
    }
}

static void say_claimed(FILE *out, const struct round *x)
{
    for (size_t i = 0; i < x->n_claimed; i++) {
        const struct claim *c = x->claimed[i];
        (void)fprintf(out,
                      "\n    claimed task %" PRId64 " %s/%s priority %d attempt %d claim %d "
                      "payload %zu bytes timeout %" PRId64 " ms",
                      c->id, c->queue, c->kind, c->priority, c->attempt, c->claims,
                      c->payload_bytes, c->timeout_ms);
    }
    for (size_t i = 0; i < x->n_owned; i++) {
        (void)fprintf(out, "\n    task %" PRId64 " is ours, claim %d", x->owned[i]->id,
                      x->owned[i]->claims);
    }
}

static void say_outcomes(FILE *out, const struct round *x)
{
    static const char *const states[] = {[REQUEUE_MISSED] = "not taken",
                                         [REQUEUE_READY] = "ready",
                                         [REQUEUE_WAITS] = "waits",
                                         [REQUEUE_BLOCKED] = "blocked",
                                         [REQUEUE_DEAD] = "dead"};
    for (size_t i = 0; i < x->n_finish; i++) {
        (void)fprintf(out, "\n    task %" PRId64 " done%s", x->finish[i]->id,
                      x->finished[i] ? "" : ", not taken");
    }
    for (size_t i = 0; i < x->n_requeue; i++) {
        (void)fprintf(out, "\n    task %" PRId64 " %s: %s", x->requeue[i]->id,
                      outcome_word(x->requeue[i]->outcome), states[x->requeue_state[i]]);
    }
}

static void say_verdicts(FILE *out, const struct round *x)
{
    static const char *const words[] = {[VERDICT_LOST] = "lost",
                                        [VERDICT_MINE] = "still ours",
                                        [VERDICT_ENDED] = "ended",
                                        [VERDICT_CANCELLED] = "cancelled"};
    for (size_t i = 0; i < x->n_verify; i++) {
        (void)fprintf(out, "\n    task %" PRId64 " claim %d is %s", x->verify[i].id,
                      x->verify[i].claims, words[x->verdicts[i]]);
    }
}

static void say_round_done(FILE *out, const struct round *x)
{
    (void)fputs("the round has committed", out);
    say_claimed(out, x);
    say_outcomes(out, x);
    say_verdicts(out, x);
}

static void say_child(FILE *out, const struct event *e)
{
    (void)fprintf(out, "slot %d: ", e->slot);
    switch ((int)e->type) {
    case EVENT_CHILD_READY:
        (void)fprintf(out, "its child is ready, takes %d at once", e->room);
        break;
    case EVENT_REPLY:
        (void)fprintf(out, "task %" PRId64 " %s", e->id, outcome_word(e->outcome));
        break;
    case EVENT_PROGRESS:
        (void)fprintf(out, "task %" PRId64 " says how far it is", e->id);
        break;
    case EVENT_STEP:
        (void)fprintf(out, "task %" PRId64 " records a step", e->id);
        break;
    case EVENT_CHILD_PIPE_CLOSED:
        (void)fputs("its child closed a pipe", out);
        break;
    case EVENT_CHILD_RETIRES:
        (void)fputs("its child says bye", out);
        break;
    default:
        (void)fprintf(out, "its child is gone%s",
                      e->failed_start  ? ", it did not start"
                      : e->exited_well ? ", with exit status 0"
                                       : "");
        break;
    }
}

static const char *failure_word(enum round_failure failure)
{
    static const char *const words[] = {[FAILURE_UNKNOWN] = "nobody knows whether it committed",
                                        [FAILURE_UNSENT] = "nothing was sent",
                                        [FAILURE_AGAIN] = "rolled back: a lock or a limit",
                                        [FAILURE_ROW] = "rolled back: a value is bad"};
    return words[failure];
}

static void say_what(FILE *out, const struct decider *d, const struct event *e)
{
    switch (e->type) {
    case EVENT_WAKEUPS:
        (void)fprintf(out, "%zu wake-ups:", e->n);
        say_ids(out, e->ids, e->n);
        break;
    case EVENT_BROKER:
        (void)fprintf(out, "RabbitMQ is %s", e->up ? "there" : "away");
        break;
    case EVENT_PRESENCE:
        (void)fprintf(out, "presence %s%s", e->up ? "held" : "lost",
                      e->renewed ? ", as a new worker" : "");
        break;
    case EVENT_ROUND_DONE:
        say_round_done(out, &d->round);
        break;
    case EVENT_ROUND_FAILED:
        (void)fprintf(out, "the round failed: %s", failure_word(e->failure));
        break;
    case EVENT_PAUSED:
        (void)fprintf(out, "%zu kinds are paused:", e->n);
        say_ids(out, e->ids, e->n);
        break;
    case EVENT_POLL:
        (void)fputs("something may be ready", out);
        break;
    case EVENT_FROZEN:
        (void)fputs("it was frozen", out);
        break;
    case EVENT_STOP:
        (void)fputs("it is asked to stop", out);
        break;
    case EVENT_CHILD_READY:
    case EVENT_REPLY:
    case EVENT_PROGRESS:
    case EVENT_STEP:
    case EVENT_CHILD_PIPE_CLOSED:
    case EVENT_CHILD_RETIRES:
    case EVENT_CHILD_GONE:
        say_child(out, e);
        break;
    }
}

void replay_say_event(FILE *out, int64_t unix_ms, const struct decider *d, const struct event *e)
{
    if (out) {
        say_time(out, unix_ms);
        say_what(out, d, e);
        (void)fputc('\n', out);
    }
}

/* --- actions --- */

static void say_round(FILE *out, const struct round *x)
{
    (void)fprintf(out,
                  "round: finish %zu, requeue %zu, verify %zu, progress %zu, steps %zu, "
                  "wake-ups %zu, poll for %d%s%s",
                  x->n_finish, x->n_requeue, x->n_verify, x->n_progress, x->n_steps, x->n_ids,
                  x->n_poll, x->own ? ", ask what is ours" : "",
                  x->unlocked ? ", leave locked rows out" : "");
}

static void say_task(FILE *out, const char *what, const struct action *a)
{
    const struct claim *c = a->claim;
    (void)fprintf(out, "slot %d: %s", a->slot, what);
    if (c) {
        (void)fprintf(out, " task %" PRId64 " %s/%s attempt %d", c->id, c->queue, c->kind,
                      c->attempt);
    }
}

static void say_act(FILE *out, const struct decider *d, const struct action *a)
{
    switch (a->type) {
    case ACTION_ROUND:
        say_round(out, &d->round);
        break;
    case ACTION_ACK:
        (void)fprintf(out, "ack wake-ups up to %" PRIu64, a->tag);
        break;
    case ACTION_PREFETCH:
        (void)fprintf(out, "take %d wake-ups ahead", a->n);
        break;
    case ACTION_SPAWN:
        say_task(out, a->claim ? "start a child for" : "start a child", a);
        (void)fprintf(out, " (%s)", d->handlers[a->handler].kinds);
        break;
    case ACTION_GIVE:
        say_task(out, "give", a);
        if (a->n > 1) {
            (void)fprintf(out, " and %d more", a->n - 1);
        }
        break;
    case ACTION_CLOSE:
        (void)fprintf(out, "slot %d: close its input", a->slot);
        break;
    case ACTION_TELL_STOP:
        (void)fprintf(out, "slot %d: tell it to stop task %" PRId64 ": %s", a->slot, a->task,
                      a->text);
        break;
    case ACTION_TELL_STEP:
        (void)fprintf(out, "slot %d: tell it of a step of task %" PRId64, a->slot, a->task);
        break;
    case ACTION_SIGNAL:
        (void)fprintf(out, "slot %d: signal %d (%s)", a->slot, a->n, strsignal(a->n));
        break;
    case ACTION_NOTE:
        (void)fprintf(out, "log %s", note_word(a->note));
        if (a->task > 0) {
            (void)fprintf(out, " task %" PRId64, a->task);
        }
        break;
    case ACTION_EXIT:
        (void)fputs("exit", out);
        break;
    }
}

void replay_say_action(FILE *out, const struct decider *d, const struct action *a)
{
    if (out) {
        (void)fputs("  -> ", out);
        say_act(out, d, a);
        (void)fputc('\n', out);
    }
}

void replay_say_due(FILE *out, int64_t unix_ms, int64_t due_ms)
{
    if (!out) {
        return;
    }
    say_time(out, unix_ms);
    if (due_ms < 0) {
        (void)fputs("decides; nothing is due\n", out);
    } else {
        (void)fprintf(out, "decides; next in %" PRId64 " ms\n", due_ms);
    }
}
