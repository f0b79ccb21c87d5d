#include "worker/record_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { WORD_BYTES = 8 };

/* --- writing --- */

static void put_words(struct buf *b, const void *data, size_t bytes)
{
    for (size_t at = 0; at + WORD_BYTES <= bytes; at += WORD_BYTES) {
        uint64_t word;
        memcpy(&word, (const char *)data + at, sizeof word);
        if (word != 0) {
            buf_printf(b, " %zu=%" PRIx64, at / WORD_BYTES, word);
        }
    }
    buf_put_char(b, '\n');
}

static void forget_pointers(struct decider *d)
{
    for (int i = 0; i < HANDLERS_MAX; i++) {
        d->handlers[i].kinds = NULL;
        d->handlers[i].waiting = NULL;
        memset(d->handlers[i].why, 0, sizeof d->handlers[i].why);
    }
    for (int i = 0; i < SLOTS_MAX; i++) {
        d->slots[i].given = NULL;
    }
    d->tally = NULL;
    d->held = d->saying = d->to_finish = d->to_requeue = d->doubtful = NULL;
    d->steps = NULL;
    d->paused = d->told_paused = NULL;
    memset(&d->round, 0, sizeof d->round);
    memset(&d->actions, 0, sizeof d->actions);
}

static void put_pauses(struct buf *b, const struct decider *d)
{
    buf_put_text(b, "k ");
    for (size_t i = 0; i < d->n_kinds; i++) {
        buf_put_char(b, d->paused[i] ? '1' : '0');
    }
    buf_put_char(b, ' ');
    for (size_t i = 0; i < d->n_kinds; i++) {
        buf_put_char(b, d->told_paused[i] ? '1' : '0');
    }
    buf_put_char(b, '\n');
}

static void forget_claim_pointers(struct claim *c)
{
    c->queue = c->kind = c->trace = c->payload = NULL;
    c->progress = c->steps = c->said = c->reply = c->error = c->signal = NULL;
    memset(c->error_class, 0, sizeof c->error_class);
    c->prev = c->next = NULL;
    memset(&c->hh, 0, sizeof c->hh);
}

int64_t record_state_key(int64_t key)
{
    return (int64_t)((uint64_t)key * 0x9e3779b97f4a7c15ULL >> 32);
}

static void put_claim(struct buf *b, const struct claim *c)
{
    struct claim copy = *c;
    forget_claim_pointers(&copy);
    copy.key = record_state_key(c->key);
    buf_printf(b, "q %s %s %d", *c->queue ? c->queue : "-", *c->kind ? c->kind : "-",
               c->said != NULL);
    put_words(b, &copy, sizeof copy);
}

static void put_claims(struct buf *b, const struct claim *list)
{
    const struct claim *c;
    DL_FOREACH(list, c)
    {
        put_claim(b, c);
    }
}

static void put_all_claims(struct buf *b, const struct decider *d)
{
    for (int i = 0; i < d->n_handlers; i++) {
        put_claims(b, d->handlers[i].waiting);
    }
    for (int i = 0; i < d->n_slots; i++) {
        put_claims(b, d->slots[i].given);
    }
    put_claims(b, d->saying);
    put_claims(b, d->to_finish);
    put_claims(b, d->to_requeue);
    put_claims(b, d->doubtful);
}

static void put_steps(struct buf *b, const struct decider *d)
{
    const struct step *s;
    DL_FOREACH(d->steps, s)
    {
        buf_printf(b, "z %lld %lld %lld %lld\n", (long long)s->id,
                   (long long)record_state_key(s->key), (long long)s->handler, (long long)s->bytes);
    }
}

bool record_state_put(struct buf *b, const struct decider *d)
{
    struct decider *copy = malloc(sizeof *copy);
    if (!copy) {
        return false;
    }
    *copy = *d;
    forget_pointers(copy);
    buf_put_char(b, 'x');
    put_words(b, copy, sizeof *copy);
    free(copy);
    put_pauses(b, d);
    put_all_claims(b, d);
    put_steps(b, d);
    buf_put_text(b, "e\n");
    return true;
}

static size_t count(const struct claim *list)
{
    const struct claim *c;
    size_t n;
    DL_COUNT(list, c, n);
    return n;
}

bool record_state_is_whole(const struct decider *d)
{
    size_t n = count(d->saying) + count(d->to_finish) + count(d->to_requeue) + count(d->doubtful);
    return !d->rounds.in_flight && n + (size_t)(d->n_waiting + d->n_given) == (size_t)d->n_held;
}

/* --- reading --- */

static bool refuse(struct fault *f)
{
    return fault_set(f, FAULT_REFUSED, "a line of the state cannot be read");
}

/* "at=word at=word" */
static bool take_words(char *text, void *data, size_t bytes)
{
    for (char *pair; (pair = strsep(&text, " "));) {
        char *end;
        size_t at = strtoul(pair, &end, 10);
        if (!*pair) {
            continue;
        }
        if (*end != '=' || at >= bytes / WORD_BYTES) {
            return false;
        }
        uint64_t word = strtoull(end + 1, &end, 16);
        if (*end) {
            return false;
        }
        memcpy((char *)data + at * WORD_BYTES, &word, sizeof word);
    }
    return true;
}

static bool handlers_are_there(const struct decider *d)
{
    for (int i = 0; i < d->n_slots; i++) {
        if (d->slots[i].handler < -1 || d->slots[i].handler >= d->n_handlers) {
            return false;
        }
    }
    return true;
}

/* What the new decider points to stays. */
static bool take_decider(struct decider *d, char *text, struct fault *f)
{
    struct decider *copy = calloc(1, sizeof *copy);
    if (!copy) {
        return fault_memory(f);
    }
    bool ok = take_words(text, copy, sizeof *copy) && copy->n_slots == d->n_slots &&
              copy->n_handlers == d->n_handlers && copy->n_kinds == d->n_kinds &&
              handlers_are_there(copy);
    if (ok) {
        forget_pointers(copy); /* whatever the file says */
        for (int i = 0; i < HANDLERS_MAX; i++) {
            copy->handlers[i].kinds = d->handlers[i].kinds;
        }
        copy->paused = d->paused;
        copy->told_paused = d->told_paused;
        copy->actions = d->actions;
        *d = *copy;
    }
    free(copy);
    return ok || refuse(f);
}

static bool take_pauses(struct decider *d, char *text, struct fault *f)
{
    char *paused = strsep(&text, " ");
    if (!text || strlen(paused) != d->n_kinds || strlen(text) != d->n_kinds) {
        return refuse(f);
    }
    for (size_t i = 0; i < d->n_kinds; i++) {
        d->paused[i] = paused[i] == '1';
        d->told_paused[i] = text[i] == '1';
    }
    return true;
}

static struct claim **list_of(struct decider *d, const struct claim *c)
{
    if (c->handler < -1 || c->handler >= d->n_handlers) {
        return NULL;
    }
    switch (c->state) {
    case CLAIM_WAITING:
        return c->handler >= 0 && c->handler < d->n_handlers ? &d->handlers[c->handler].waiting
                                                             : NULL;
    case CLAIM_GIVEN:
        return c->slot >= 0 && c->slot < d->n_slots ? &d->slots[c->slot].given : NULL;
    case CLAIM_SAYING:
        return &d->saying;
    case CLAIM_ENDED:
        return c->outcome == OUTCOME_DONE ? &d->to_finish : &d->to_requeue;
    case CLAIM_DOUBTFUL:
        return &d->doubtful;
    case CLAIM_IN_ROUND:
        break;
    }
    return NULL;
}

enum { STAND_IN_BYTES_MAX = 64 << 20 }; /* more than a line has */

/* A text of so many bytes, for one that was not recorded. */
static char *stand_in(size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (text) {
        memset(text, 'x', bytes);
        text[bytes] = '\0';
    }
    return text;
}

/* Its words, but not its pointers. */
static bool fill_claim(struct claim *c, char *words, bool said)
{
    struct claim copy;
    memset(&copy, 0, sizeof copy);
    if (!take_words(words, &copy, sizeof copy) || copy.said_bytes > STAND_IN_BYTES_MAX) {
        return false;
    }
    forget_claim_pointers(&copy);
    copy.queue = c->queue;
    copy.kind = c->kind;
    copy.payload = c->payload;
    *c = copy;
    c->said = said ? stand_in(c->said_bytes) : NULL;
    return !said || c->said;
}

static bool take_claim(struct decider *d, char *text, struct fault *f)
{
    char *queue = strsep(&text, " "), *kind = strsep(&text, " "), *said = strsep(&text, " ");
    if (!text) {
        return refuse(f);
    }
    struct claim *c = claim_new(0, queue, kind, NULL, NULL, 0);
    if (!c) {
        return fault_memory(f);
    }
    struct claim **list = fill_claim(c, text, *said == '1') ? list_of(d, c) : NULL;
    if (!list) {
        claim_free(c);
        return refuse(f);
    }
    DL_APPEND(*list, c);
    if (c->hashed) {
        HASH_ADD(hh, d->held, id, sizeof c->id, c);
    }
    return true;
}

static bool take_step(struct decider *d, const char *text, struct fault *f)
{
    long long id, key, handler, bytes;
    if (sscanf(text, "%lld %lld %lld %lld", &id, &key, &handler, &bytes) != 4 || handler < 0 ||
        handler >= d->n_handlers || bytes < 0 || bytes > STAND_IN_BYTES_MAX) {
        return refuse(f);
    }
    struct step *s = calloc(1, sizeof *s);
    if (!s || !(s->line = stand_in((size_t)bytes))) {
        free(s);
        return fault_memory(f);
    }
    s->id = id;
    s->key = key;
    s->handler = (int)handler;
    s->bytes = (size_t)bytes;
    DL_APPEND(d->steps, s);
    return true;
}

bool record_state_take(struct decider *d, char *line, bool *ret_end, struct fault *f)
{
    char letter = line[0];
    char *text = line[0] && line[1] ? line + 2 : line + strlen(line);
    *ret_end = letter == 'e';
    switch (letter) {
    case 'x':
        return take_decider(d, text, f);
    case 'k':
        return take_pauses(d, text, f);
    case 'q':
        return take_claim(d, text, f);
    case 'z':
        return take_step(d, text, f);
    case 'e':
        return true;
    default:
        return refuse(f);
    }
}
