#include "worker/replay.h"

#include "core/option.h"
#include "worker/record.h"
#include "worker/record_state.h"
#include "worker/replay_say.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ID_MAX_FIELDS = 1 << 20 }; /* ids of one event */

struct replaying {
    FILE *file, *out;
    char *line;
    size_t line_room;
    int64_t line_number;
    uint32_t seal; /* of the lines so far */
    struct decider *d;
    char *kinds[HANDLERS_MAX];
    int64_t now_ms, base_ms, unix_ms;
    struct claim *claimed[ROUND_CLAIMS_MAX]; /* of the answer that follows */
    size_t n_claimed;
    struct claim **owned;
    size_t n_owned;
    int64_t *ids;
    struct replay *sum;
};

/* --- fields of a line --- */

struct fields {
    char *at;
    bool bad;
};

static const char *take_word(struct fields *x)
{
    char *word = x->at ? strsep(&x->at, " ") : NULL;
    x->bad = x->bad || !word || !*word;
    return word ? word : "";
}

static int64_t take_number(struct fields *x)
{
    char *end;
    const char *word = take_word(x);
    int64_t n = strtoll(word, &end, 10);
    x->bad = x->bad || *end;
    return n;
}

static int take_int(struct fields *x, int min, int max)
{
    int64_t n = take_number(x);
    x->bad = x->bad || n < min || n > max;
    return x->bad ? min : (int)n;
}

/* So many digits, each below `limit`; "-" for none. NULL: they are others. */
static const char *take_digits(struct fields *x, size_t n, int limit)
{
    const char *digits = take_word(x);
    bool none = strcmp(digits, "-") == 0;
    x->bad = x->bad || (none ? n > 0 : strlen(digits) != n);
    for (size_t i = 0; !x->bad && i < n; i++) {
        x->bad = digits[i] < '0' || digits[i] >= '0' + limit;
    }
    return x->bad ? NULL : digits;
}

/* A text of so many bytes, for one that was not recorded; NULL for -1. */
static char *stand_in(struct fields *x, int64_t bytes)
{
    if (bytes < 0 || bytes > HELD_BYTES_MAX || x->bad) {
        return NULL;
    }
    char *text = malloc((size_t)bytes + 1);
    x->bad = x->bad || !text;
    if (text) {
        memset(text, 'x', (size_t)bytes);
        text[bytes] = '\0';
    }
    return text;
}

/* --- what goes before an answer --- */

static void take_claim(struct replaying *p, struct fields *x)
{
    struct claim head = {.handler = -1};
    head.id = take_number(x);
    head.claims = (int32_t)take_number(x);
    head.key = take_number(x);
    head.timeout_ms = take_number(x);
    head.attempt = (int32_t)take_number(x);
    head.failures = (int32_t)take_number(x);
    head.max_attempts = (int32_t)take_number(x);
    head.priority = (int32_t)take_number(x);
    head.handler = take_int(x, -1, p->d->n_handlers - 1);
    head.payload_bytes = (size_t)take_number(x);
    head.steps_bytes = (size_t)take_number(x);
    const char *queue = take_word(x), *kind = take_word(x);
    bool fits = !x->bad && p->n_claimed < ROUND_CLAIMS_MAX;
    struct claim *c = fits ? claim_new(head.id, queue, kind, NULL, NULL, 0) : NULL;
    x->bad = !c;
    if (c) {
        c->claims = head.claims;
        c->key = head.key;
        c->timeout_ms = head.timeout_ms;
        c->attempt = head.attempt;
        c->failures = head.failures;
        c->max_attempts = head.max_attempts;
        c->priority = head.priority;
        c->handler = head.handler;
        c->payload_bytes = head.payload_bytes;
        c->steps_bytes = head.steps_bytes;
        p->claimed[p->n_claimed++] = c;
    }
}

static void take_owned(struct replaying *p, struct fields *x)
{
    int64_t id = take_number(x), claims = take_number(x), key = take_number(x);
    struct claim **owned = realloc(p->owned, (p->n_owned + 1) * sizeof *owned);
    p->owned = owned ? owned : p->owned;
    struct claim *c = owned && !x->bad ? claim_new(id, "", "", NULL, NULL, 0) : NULL;
    if (!c) {
        x->bad = true;
        return;
    }
    c->claims = (int32_t)claims;
    c->key = key;
    p->owned[p->n_owned++] = c;
}

/* The answer of the round that the decider has in flight. */
static void take_answer(struct replaying *p, struct fields *x)
{
    struct round *r = &p->d->round;
    int end = take_int(x, 0, POLL_BOUNDED), has_turn = take_int(x, 0, 1);
    const char *finished = take_digits(x, r->n_finish, 2);
    const char *requeued = take_digits(x, r->n_requeue, REQUEUE_DEAD + 1);
    const char *verdicts = take_digits(x, r->n_verify, VERDICT_CANCELLED + 1);
    const char *progress = take_digits(x, r->n_progress, PROGRESS_WRITTEN + 1);
    const char *steps = take_digits(x, r->n_steps, STEP_RECORDED + 1);
    x->bad = x->bad || !p->d->rounds.in_flight || (p->owned && !r->own);
    if (x->bad) {
        return;
    }
    r->end = (enum poll_end)end;
    r->has_turn = has_turn == 1;
    for (size_t i = 0; i < r->n_finish; i++) {
        r->finished[i] = finished[i] == '1';
    }
    for (size_t i = 0; i < r->n_requeue; i++) {
        r->requeue_state[i] = (enum requeue_state)(requeued[i] - '0');
    }
    for (size_t i = 0; i < r->n_verify; i++) {
        r->verdicts[i] = (enum verdict)(verdicts[i] - '0');
        r->timeouts_ms[i] = take_number(x);
    }
    for (size_t i = 0; i < r->n_progress; i++) {
        r->progress[i].state = (enum progress_state)(progress[i] - '0');
    }
    for (size_t i = 0; i < r->n_steps; i++) {
        r->steps[i]->state = (enum step_state)(steps[i] - '0');
    }
    memcpy(r->claimed, p->claimed, p->n_claimed * sizeof *p->claimed);
    r->n_claimed = p->n_claimed;
    r->owned = p->owned;
    r->n_owned = p->n_owned;
    p->owned = NULL;
    p->n_claimed = p->n_owned = 0;
}

/* --- events --- */

static void take_ids(struct replaying *p, struct fields *x, struct event *e, int64_t below)
{
    int64_t n = take_number(x);
    x->bad = x->bad || n < 0 || n > ID_MAX_FIELDS;
    int64_t *ids = x->bad ? NULL : realloc(p->ids, ((size_t)n + 1) * sizeof *ids);
    if (!ids) {
        x->bad = true;
        return;
    }
    p->ids = ids;
    for (int64_t i = 0; i < n; i++) {
        ids[i] = take_number(x);
        x->bad = x->bad || ids[i] < 0 || ids[i] >= below;
    }
    e->ids = ids;
    e->n = (size_t)n;
}

/* What the child in a slot did, which has one. */
static void take_child(struct replaying *p, struct fields *x, char letter, struct event *e)
{
    e->slot = take_int(x, 0, p->d->n_slots - 1);
    x->bad = x->bad || p->d->slots[e->slot].state == SLOT_EMPTY;
    e->id = strchr("RGS", letter) ? take_number(x) : 0;
    switch (letter) {
    case 'H':
        e->room = take_int(x, 1, IN_FLIGHT_MAX);
        e->hears_stop = take_int(x, 0, 1);
        break;
    case 'R':
        e->outcome = (enum claim_outcome)take_int(x, OUTCOME_DONE, OUTCOME_RELEASED);
        e->reply = stand_in(x, take_number(x));
        e->delay_ms = take_number(x);
        break;
    case 'G':
        e->progress = stand_in(x, take_number(x));
        e->extend_ms = take_number(x);
        break;
    case 'S':
        e->step = stand_in(x, take_number(x));
        x->bad = x->bad || !e->step;
        break;
    case 'X':
        e->failed_start = take_int(x, 0, 1);
        e->exited_well = take_int(x, 0, 1);
        break;
    default:
        break;
    }
}

static const char letters[] = "WBPDFHRGSCYXULZT";
static const enum event_type types[] = {EVENT_WAKEUPS,       EVENT_BROKER,
                                        EVENT_PRESENCE,      EVENT_ROUND_DONE,
                                        EVENT_ROUND_FAILED,  EVENT_CHILD_READY,
                                        EVENT_REPLY,         EVENT_PROGRESS,
                                        EVENT_STEP,          EVENT_CHILD_PIPE_CLOSED,
                                        EVENT_CHILD_RETIRES, EVENT_CHILD_GONE,
                                        EVENT_PAUSED,        EVENT_POLL,
                                        EVENT_FROZEN,        EVENT_STOP};

static void take_fields(struct replaying *p, struct fields *x, char letter, struct event *e)
{
    switch (letter) {
    case 'W':
        e->epoch = take_number(x);
        e->last_tag = (uint64_t)take_number(x);
        take_ids(p, x, e, INT64_MAX);
        break;
    case 'B':
        e->up = take_int(x, 0, 1);
        e->epoch = take_number(x);
        break;
    case 'P':
        e->up = take_int(x, 0, 1);
        e->renewed = take_int(x, 0, 1);
        e->since_ms = take_number(x);
        break;
    case 'D':
        take_answer(p, x);
        break;
    case 'F':
        e->failure = (enum round_failure)take_int(x, 0, FAILURE_ROW);
        x->bad = x->bad || !p->d->rounds.in_flight;
        break;
    case 'U':
        take_ids(p, x, e, (int64_t)p->d->n_kinds);
        break;
    case 'L':
    case 'Z':
    case 'T':
        break;
    default:
        take_child(p, x, letter, e);
        break;
    }
}

static int64_t unix_now(const struct replaying *p)
{
    return p->unix_ms + p->now_ms - p->base_ms;
}

static bool take_event(struct replaying *p, const char *letter, struct fields *x)
{
    struct event e = {.type = types[letter - letters], .delay_ms = -1, .text = ""};
    p->now_ms += take_number(x);
    take_fields(p, x, *letter, &e);
    if (x->bad) {
        free(e.reply);
        free(e.progress);
        free(e.step);
        return false;
    }
    replay_say_event(p->out, unix_now(p), p->d, &e);
    decider_event(p->d, &e, p->now_ms);
    p->sum->events++;
    return true;
}

/* --- decisions --- */

/* All that came out must be what came out then. */
static bool compare(struct replaying *p, struct fields *x, struct fault *f)
{
    struct actions *l = &p->d->actions;
    size_t n = 0;
    for (; x->at && n < l->n; n++) {
        const struct action *a = &l->items[n];
        replay_say_action(p->out, p->d, a);
        uint32_t digest = (uint32_t)strtoul(take_word(x), NULL, 16);
        if (digest != record_digest(p->d, a)) {
            return fault_set(f, FAULT_BUG, "action %zu is not what the worker did then", n + 1);
        }
    }
    p->sum->actions += (int64_t)n;
    if (x->at || n < l->n) {
        return fault_set(f, FAULT_BUG, "the worker did %s then",
                         x->at ? "more than now" : "less than now");
    }
    l->n = 0;
    return true;
}

static bool take_decision(struct replaying *p, struct fields *x, struct fault *f)
{
    p->now_ms += take_number(x);
    int64_t then_ms = take_number(x);
    if (x->bad) {
        return fault_set(f, FAULT_REFUSED, "the line cannot be read");
    }
    int64_t due_ms = decider_decide(p->d, p->now_ms);
    due_ms = due_ms == INT64_MAX ? -1 : due_ms - p->now_ms;
    p->sum->decisions++;
    replay_say_due(p->out, unix_now(p), due_ms);
    if (due_ms != then_ms) {
        return fault_set(f, FAULT_BUG,
                         "the next decision is due in %" PRId64 " ms, and was then in %" PRId64
                         " ms",
                         due_ms, then_ms);
    }
    return compare(p, x, f);
}

/* --- the file --- */

/* The next whole line without its newline; NULL at the end, or where the file is cut. */
static char *sealed_line(struct replaying *p, size_t *ret_bytes)
{
    ssize_t n = getline(&p->line, &p->line_room, p->file);
    if (n <= 0 || p->line[n - 1] != '\n') {
        return NULL;
    }
    p->line[n - 1] = '\0';
    p->line_number++;
    *ret_bytes = (size_t)n - 1;
    return p->line;
}

/* Is it as it was written? Takes its sum off. */
static bool unseal(struct replaying *p, size_t bytes, struct fault *f)
{
    char sum[RECORD_SUM_BYTES];
    size_t left = bytes < sizeof sum ? 0 : bytes - sizeof sum;
    record_seal(&p->seal, p->line, left, sum);
    if (bytes < sizeof sum || memcmp(p->line + left, sum, sizeof sum) != 0) {
        return fault_set(f, FAULT_REFUSED, "the line, or one before it, was changed");
    }
    p->line[left] = '\0';
    return true;
}

/* false: the line was changed; NULL: there is none */
static bool next_line(struct replaying *p, char **ret, struct fault *f)
{
    size_t bytes = 0;
    *ret = sealed_line(p, &bytes);
    return !*ret || unseal(p, bytes, f);
}

static bool cut_short(struct fault *f)
{
    return fault_set(f, FAULT_REFUSED, "it is cut before its first event");
}

static bool head_line(struct replaying *p, struct fields *x, const char *letter, struct fault *f)
{
    if (!next_line(p, &x->at, f) || (!x->at && !cut_short(f))) {
        return false;
    }
    x->bad = strcmp(take_word(x), letter) != 0;
    return true;
}

static bool take_version(struct replaying *p, struct fault *f)
{
    int format = 0;
    char version[64] = "";
    size_t bytes = 0, line_bytes;
    const char *line = sealed_line(p, &line_bytes);
    if (!line) {
        return cut_short(f);
    }
    if (sscanf(line, "tenon-record %d %63s %zu", &format, version, &bytes) != 3) {
        return fault_set(f, FAULT_CONFIG, "it is no recording of tenon worker --record");
    }
    if (format != RECORD_FORMAT || bytes != sizeof(struct decider) ||
        strcmp(version, TENON_VERSION) != 0) {
        return fault_set(f, FAULT_CONFIG,
                         "it was recorded by tenon %s, and this is %s: replay it with the program "
                         "that recorded it",
                         version, TENON_VERSION);
    }
    return unseal(p, line_bytes, f);
}

struct handler_head {
    bool pool;
    int take, wait_ms, start_limit_ms;
};

static bool make_decider(struct replaying *p, int n_slots, int n, const struct handler_head *heads,
                         int64_t drain_limit_ms, bool until_empty, uint64_t random)
{
    bool pool[HANDLERS_MAX];
    for (int i = 0; i < n; i++) {
        pool[i] = heads[i].pool;
    }
    p->d = decider_new(n_slots, n, (const char *const *)p->kinds, pool, drain_limit_ms, until_empty,
                       random, p->base_ms);
    for (int i = 0; p->d && i < n; i++) {
        decider_take(p->d, i, heads[i].take, heads[i].wait_ms);
        p->d->handlers[i].start_limit_ms = heads[i].start_limit_ms;
    }
    return p->d;
}

static bool take_handlers(struct replaying *p, int n, struct handler_head *heads, struct fault *f)
{
    for (int i = 0; i < n; i++) {
        struct fields x = {0};
        if (!head_line(p, &x, "h", f)) {
            return false;
        }
        heads[i].pool = take_int(&x, 0, 1);
        heads[i].take = take_int(&x, 0, TAKE_MAX);
        heads[i].wait_ms = take_int(&x, 0, TAKE_WAIT_MAX_MS);
        heads[i].start_limit_ms = take_int(&x, 0, START_LIMIT_MAX_MS);
        const char *kinds = take_word(&x);
        if (x.bad) {
            return fault_set(f, FAULT_REFUSED, "the line is not that of a handler");
        }
        p->kinds[i] = strdup(kinds);
        if (!p->kinds[i]) {
            return fault_memory(f);
        }
    }
    return true;
}

static bool take_options(struct replaying *p, struct fault *f)
{
    struct fields x = {0};
    struct handler_head heads[HANDLERS_MAX];
    if (!head_line(p, &x, "o", f)) {
        return false;
    }
    int n_slots = take_int(&x, 1, SLOTS_MAX), n_handlers = take_int(&x, 1, HANDLERS_MAX);
    int64_t drain_limit_ms = take_number(&x);
    bool until_empty = take_int(&x, 0, 1);
    int starts_max = take_int(&x, 1, SLOTS_MAX);
    uint64_t random = strtoull(take_word(&x), NULL, 10);
    p->now_ms = p->base_ms = take_number(&x);
    p->unix_ms = take_number(&x);
    if (x.bad) {
        return fault_set(f, FAULT_REFUSED, "the line of options cannot be read");
    }
    if (!take_handlers(p, n_handlers, heads, f)) {
        return false;
    }
    if (!make_decider(p, n_slots, n_handlers, heads, drain_limit_ms, until_empty, random)) {
        return fault_memory(f);
    }
    p->d->starts_max = starts_max;
    return true;
}

static bool take_end(struct replaying *p, const char *how)
{
    p->sum->end = strcmp(how, "end") == 0       ? REPLAY_ENDED
                  : strcmp(how, "goes on") == 0 ? REPLAY_GOES_ON
                                                : REPLAY_CUT;
    return p->sum->end != REPLAY_CUT;
}

static bool take_line(struct replaying *p, char *line, struct fault *f)
{
    struct fields x = {.at = line[0] && line[1] ? line + 2 : NULL};
    const char *letter = *line ? strchr(letters, *line) : NULL;
    bool ok = false, unused;
    if (*line && strchr("xkqze", *line)) {
        return record_state_take(p->d, line, &unused, f);
    }
    switch (*line) {
    case '>':
        return take_decision(p, &x, f);
    case '+':
        return compare(p, &x, f);
    case 'c':
        take_claim(p, &x);
        ok = !x.bad;
        break;
    case 'm':
        take_owned(p, &x);
        ok = !x.bad;
        break;
    case '.':
        ok = x.at && take_end(p, x.at);
        break;
    default:
        ok = letter && take_event(p, letter, &x);
        break;
    }
    return ok || fault_set(f, FAULT_REFUSED, "the line cannot be read");
}

static bool replay_lines(struct replaying *p, struct fault *f)
{
    char *line;
    if (!take_version(p, f) || !take_options(p, f)) {
        return false;
    }
    do {
        if (!next_line(p, &line, f) || (line && !take_line(p, line, f))) {
            return false;
        }
    } while (line && p->sum->end == REPLAY_CUT);
    return true;
}

static void clear(struct replaying *p)
{
    for (size_t i = 0; i < p->n_claimed; i++) {
        claim_free(p->claimed[i]);
    }
    for (size_t i = 0; i < p->n_owned; i++) {
        claim_free(p->owned[i]);
    }
    free(p->owned);
    free(p->ids);
    free(p->line);
    decider_free(p->d);
    for (int i = 0; i < HANDLERS_MAX; i++) {
        free(p->kinds[i]);
    }
}

bool replay_file(const char *path, FILE *out, struct replay *ret, struct fault *f)
{
    *ret = (struct replay){.end = REPLAY_CUT};
    struct replaying *p = calloc(1, sizeof *p);
    if (!p) {
        return fault_memory(f);
    }
    p->out = out;
    p->sum = ret;
    p->file = fopen(path, "re");
    bool ok = p->file ? replay_lines(p, f)
                      : fault_set(f, FAULT_CONFIG, "it cannot be opened: %s", strerror(errno));
    if (!ok) {
        (void)fault_add(f, "%s: line %" PRId64, path, p->line_number);
    }
    if (p->file) {
        (void)fclose(p->file);
    }
    ret->lines = p->line_number;
    ret->took_ms = p->now_ms - p->base_ms;
    clear(p);
    free(p);
    return ok;
}

bool replay_run(const struct options *o, struct fault *f)
{
    static const char *const ends[] = {[REPLAY_CUT] = "it is cut here, or the worker was killed",
                                       [REPLAY_ENDED] = "the worker ended here",
                                       [REPLAY_GOES_ON] = "the next file goes on from here"};
    struct replay sum;
    bool ok = replay_file(options_arg(o, 0), stdout, &sum, f);
    (void)printf("%s: %" PRId64 " events, %" PRId64 " decisions and %" PRId64 " actions in %" PRId64
                 ".%03d s%s\n",
                 ok ? ends[sum.end] : "it stops here", sum.events, sum.decisions, sum.actions,
                 sum.took_ms / 1000, (int)(sum.took_ms % 1000), ok ? ", all as then" : "");
    return ok;
}
