#include "worker/decide/writes.h"

#include "core/base/text.h"
#include "worker/decide/held.h"
#include "worker/decide/slow.h"
#include "worker/decide/state.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* The claim that said it; NULL = it is not held any more. */
static struct claim *claim_of(const struct decider *d, const struct write *w)
{
    struct claim *c = held_find(d, w->id);
    return c && c->key == w->key ? c : NULL;
}

/* The same; NULL as well if there is no use in writing it any more. */
static struct claim *waiting_for(const struct decider *d, const struct write *w)
{
    struct claim *c = claim_of(d, w);
    return c && !c->lost && c->outcome != OUTCOME_DONE ? c : NULL;
}

static struct write *new_write(struct decider *d, struct claim *c)
{
    struct write *w = calloc(1, sizeof *w);
    if (!w) {
        d->actions.no_memory = true;
        return NULL;
    }
    *w = (struct write){.id = c->id, .key = c->key, .handler = c->handler};
    c->n_writes++;
    return w;
}

/* Takes the line over. */
static void set_line(struct decider *d, struct write *w, char *line)
{
    size_t bytes = line ? strlen(line) : 0;
    d->handlers[w->handler].said_bytes += bytes - w->bytes;
    free(w->line);
    w->line = line;
    w->bytes = bytes;
}

static void enqueue(struct decider *d, struct write *w)
{
    if (!w->queued) {
        w->queued = true;
        DL_APPEND(d->writes, w);
    }
}

static void dequeue(struct decider *d, struct write *w)
{
    if (w->queued) {
        w->queued = false;
        DL_DELETE(d->writes, w);
    }
}

static void free_write(struct decider *d, struct write *w)
{
    struct claim *c = claim_of(d, w);
    if (c) {
        c->n_writes--;
        c->said = c->said == w ? NULL : c->said;
    }
    dequeue(d, w);
    set_line(d, w, NULL);
    free(w);
}

/* --- what is said --- */

static const char not_kept[] = "it is longer than 64 KiB as text, or PostgreSQL cannot store it";

static void note_progress(struct decider *d, int64_t id, const char *why)
{
    actions_note(&d->actions, NOTE_PROGRESS_REFUSED, id, "%s", why);
}

static void refuse(struct decider *d, const struct write *w)
{
    if (!w->is_step) {
        note_progress(d, w->id, not_kept);
        return;
    }
    actions_note(&d->actions, NOTE_STEP_REFUSED, w->id,
                 "%s: PostgreSQL cannot store it, or not in time, or its name is not 1 to 100"
                 " bytes long, or the task has more than 1,000 steps or 1 MiB of them",
                 w->name);
}

void writes_progress(struct decider *d, const struct event *e, int64_t now_ms)
{
    struct claim *c = slots_find(d, e->slot, e->id);
    bool empty = e->progress && !*e->progress;
    char *line = e->progress;
    if (empty || e->extend_ms < 0) {
        note_progress(d, e->id, empty ? not_kept : "\"extend_ms\" is not 1 ms to 30 days");
    }
    if (!c || c->lost || empty) {
        free(line);
        line = NULL;
    }
    /* the row's deadline counts from the claim, which came before the child got the task */
    bool extended = c && !c->lost && e->extend_ms > 0 &&
                    slots_extend(d, c, now_ms - c->claimed_ms + e->extend_ms);
    if (!line && !extended) {
        return;
    }
    c->said = c->said ? c->said : new_write(d, c);
    if (!c->said) {
        free(line);
        return;
    }
    if (line) {
        set_line(d, c->said, line);
    }
    c->said->timeout_ms = extended ? c->timeout_ms : c->said->timeout_ms;
    d->rounds.unwritten = true;
}

void writes_step(struct decider *d, const struct event *e)
{
    struct claim *c = slots_find(d, e->slot, e->id);
    struct write *w = c && !c->lost ? new_write(d, c) : NULL;
    if (!w) {
        free(e->step);
        return;
    }
    w->is_step = true;
    text_shorten(w->name, sizeof w->name, e->name);
    set_line(d, w, e->step);
    enqueue(d, w);
}

bool writes_go_first(struct decider *d, struct claim *c)
{
    if (c->outcome == OUTCOME_DONE) {
        writes_forget(d, c);
        return false;
    }
    if (c->said && !c->said->line) {
        free_write(d, c->said); /* more time, which it does not need any more */
    }
    if (c->said) {
        enqueue(d, c->said);
    }
    return c->n_writes > 0;
}

void writes_forget(struct decider *d, struct claim *c)
{
    struct write *w = c->n_writes > 0 ? d->writes : NULL, *next;
    for (; w; w = next) {
        next = w->next;
        if (claim_of(d, w) == c) {
            free_write(d, w);
        }
    }
    if (c->said) {
        free_write(d, c->said);
    }
}

/* --- into a round --- */

/* All tasks at once, so that many that say something make one round in a second. */
static void enqueue_progress(struct decider *d, int64_t now_ms)
{
    for (struct claim *c = NULL; (c = slots_next_given(d, c));) {
        if (c->said) {
            enqueue(d, c->said);
        }
    }
    d->rounds.unwritten = false;
    d->rounds.progress_ms = now_ms + PROGRESS_EVERY_MS;
}

static void send_write(struct decider *d, struct round *x, struct write *w)
{
    dequeue(d, w);
    x->writes_bytes += w->bytes;
    if (w->is_step) {
        x->steps[x->n_steps++] = w;
    } else {
        x->progress[x->n_progress++] = w;
        claim_of(d, w)->said = NULL; /* what is said from now on is written after it */
    }
}

static bool is_full(const struct decider *d, const struct round *x)
{
    size_t n = x->n_steps + x->n_progress;
    return n >= d->rounds.writes_max || n >= ROUND_WRITES_MAX ||
           x->writes_bytes >= ROUND_WRITES_BYTES_MAX;
}

bool writes_plan(struct decider *d, struct round *x, int64_t now_ms)
{
    struct write *w, *next;
    if (d->rounds.unwritten && now_ms >= d->rounds.progress_ms) {
        enqueue_progress(d, now_ms);
    }
    DL_FOREACH_SAFE(d->writes, w, next)
    {
        if (is_full(d, x)) {
            break;
        }
        if (now_ms >= claim_of(d, w)->write_ms) {
            send_write(d, x, w);
        }
    }
    return x->n_steps + x->n_progress > 0;
}

int64_t writes_due(const struct decider *d)
{
    int64_t due = d->rounds.unwritten ? d->rounds.progress_ms : INT64_MAX;
    for (const struct write *w = d->writes; w && due > 0; w = w->next) {
        due = sooner(due, claim_of(d, w)->write_ms);
    }
    return due;
}

/* --- the answer --- */

static void tell_child(struct decider *d, const struct write *w, const struct claim *c)
{
    if (c->state == CLAIM_GIVEN && slots_hears(d, c->slot)) {
        struct action *a = actions_add(&d->actions, ACTION_TELL_STEP);
        a->slot = c->slot;
        a->task = w->id;
        a->n = w->state == WRITE_WRITTEN;
        text_shorten(a->text, sizeof a->text, w->name);
    }
}

/* It is written, or never will be. An outcome that waited for it may be next. */
static void end_write(struct decider *d, struct write *w)
{
    struct claim *c = waiting_for(d, w);
    if (c && w->state == WRITE_REFUSED) {
        refuse(d, w);
    }
    if (c && w->is_step) {
        tell_child(d, w, c);
    }
    free_write(d, w);
    if (c && c->state == CLAIM_WRITING && c->n_writes == 0) {
        held_end(d, c, c->outcome, NULL);
    }
}

/* It goes again, before all others; progress of a running task, when its next one would go. What
 * has been said since replaces progress. */
static void take_back(struct decider *d, struct write *w)
{
    struct claim *c = waiting_for(d, w);
    if (!c) {
        free_write(d, w);
        return;
    }
    struct write *newer = w->is_step ? NULL : c->said;
    if (newer) {
        if (newer->line) {
            set_line(d, w, newer->line);
            newer->line = NULL;
        }
        w->timeout_ms = later(w->timeout_ms, newer->timeout_ms);
        free_write(d, newer);
    }
    c->said = w->is_step ? c->said : w;
    if (w->is_step || c->state != CLAIM_GIVEN) {
        w->queued = true;
        DL_PREPEND(d->writes, w);
    } else {
        d->rounds.unwritten = true;
    }
}

/* Is the claim ours still? What goes again goes a moment later. */
static void miss(struct decider *d, struct write *w, int64_t now_ms)
{
    struct claim *c = waiting_for(d, w);
    if (c) {
        c->write_ms = now_ms + RETRY_MIN_MS;
    }
    if (c && c->state == CLAIM_GIVEN) {
        slots_verify_soon(d, c, c->write_ms);
    } else if (c && c->state == CLAIM_WRITING) {
        d->rounds.doubtful_ms = d->doubtful ? d->rounds.doubtful_ms : c->write_ms;
        held_doubt(d, c);
    }
    take_back(d, w);
}

/* Children are told in the order of the steps; what was missed is taken back from the last one, so
 * that the first is the first again. */
static void take_answers(struct decider *d, struct write **writes, size_t n, int64_t now_ms)
{
    for (size_t i = 0; i < n; i++) {
        if (writes[i]->state != WRITE_MISSED) {
            end_write(d, writes[i]);
            writes[i] = NULL;
        }
    }
    for (size_t i = n; i-- > 0;) {
        if (writes[i]) {
            miss(d, writes[i], now_ms);
        }
    }
}

void writes_done(struct decider *d, struct round *x, int64_t now_ms)
{
    take_answers(d, x->progress, x->n_progress, now_ms);
    take_answers(d, x->steps, x->n_steps, now_ms);
    x->n_progress = x->n_steps = 0;
}

/* One that was too slow by itself, again and again, is refused. */
static void take_all_back(struct decider *d, struct write **writes, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (writes[i]->slow >= ROUND_SLOW_TRIES) {
            writes[i]->state = WRITE_REFUSED;
            end_write(d, writes[i]);
        } else {
            take_back(d, writes[i]);
        }
    }
}

void writes_failed(struct decider *d, struct round *x)
{
    take_all_back(d, x->progress, x->n_progress);
    take_all_back(d, x->steps, x->n_steps);
    x->n_progress = x->n_steps = 0;
}

void writes_free(struct decider *d, struct round *x)
{
    for (size_t i = 0; i < x->n_progress; i++) {
        free_write(d, x->progress[i]);
    }
    for (size_t i = 0; i < x->n_steps; i++) {
        free_write(d, x->steps[i]);
    }
    x->n_progress = x->n_steps = 0;
}
