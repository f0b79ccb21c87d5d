#include "worker/children.h"

#include "core/base/point.h"
#include "core/base/text.h"
#include "worker/kinds.h"
#include "worker/line.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RSS_EVERY_ANSWERS = 16 };

bool children_init(struct children *cs, int n_slots, const struct handlers *handlers,
                   struct fault *f)
{
    *cs = (struct children){.n = n_slots, .handlers = handlers};
    cs->slots = calloc((size_t)n_slots, sizeof *cs->slots);
    return cs->slots || fault_memory(f);
}

void children_clear(struct children *cs)
{
    for (int i = 0; cs->slots && i < cs->n; i++) {
        if (cs->slots[i].handler) {
            char text[128];
            child_signal(&cs->slots[i], SIGKILL);
            (void)child_reap(&cs->slots[i], text, sizeof text);
            child_clear(&cs->slots[i]);
        }
    }
    free(cs->slots);
    *cs = (struct children){0}; /* a second call, after a start that failed, finds nothing */
}

void children_spawn(struct children *cs, int slot, int handler, const struct claim *task)
{
    const struct handler *h = &cs->handlers->items[handler];
    struct child *c = &cs->slots[slot];
    struct fault f = {0};
    char **env = line_environment(h->environment, task);
    bool ok = env ? child_start(c, h, env, task ? task->payload : NULL,
                                task ? task->payload_bytes : 0,
                                h->pool ? LINE_BYTES_MAX + 1 : RESULT_BYTES_MAX, &f)
                  : fault_memory(&f);
    free(env);
    if (!ok) {
        c->handler = NULL;
        cs->emit(cs->owner, &(struct event){.type = EVENT_CHILD_GONE,
                                            .slot = slot,
                                            .failed_start = true,
                                            .text = f.text});
        return;
    }
    if (task) {
        c->task = task->id;
        c->close_input = true; /* nothing more comes */
    }
}

static void break_off(struct child *c, const char *how)
{
    text_shorten(c->broke, sizeof c->broke, how);
    child_signal(c, SIGKILL);
}

static void break_protocol(struct child *c, const char *how)
{
    char text[FAULT_TEXT_BYTES_MAX + 32];
    (void)snprintf(text, sizeof text, "protocol error: %s", how);
    break_off(c, text);
}

/* It does not read, and there is no room for more: nothing good comes of waiting. */
static void check_input(struct child *c)
{
    if (c->input.failed) {
        break_off(c, "it does not read its tasks");
    }
}

void children_give(struct children *cs, int slot, const struct claim *task, int n, bool alone)
{
    struct child *c = &cs->slots[slot];
    if (alone) {
        child_read_error(c);
    }
    c->task_bytes = alone ? c->err_bytes : -1;
    if (c->handler->chunk_size > 0) {
        line_put_number(&c->input, n);
    }
    for (; n > 0; n--, task = task->next) {
        line_put_task(&c->input, task);
    }
    check_input(c);
}

void children_tell_stop(struct children *cs, int slot, int64_t task, const char *why)
{
    struct child *c = &cs->slots[slot];
    line_put_stop(&c->input, task, why);
    check_input(c);
}

void children_tell_step(struct children *cs, int slot, int64_t task, const char *name,
                        bool recorded)
{
    struct child *c = &cs->slots[slot];
    line_put_step(&c->input, task, name, recorded);
    check_input(c);
}

void children_close(struct children *cs, int slot)
{
    cs->slots[slot].close_input = true;
}

void children_signal(struct children *cs, int slot, int signal)
{
    child_signal(&cs->slots[slot], signal);
}

void children_doing(const struct children *cs, int slot, char *text, size_t size)
{
    const struct child *c = &cs->slots[slot];
    char lines[sizeof c->tail];
    memcpy(lines, c->tail, sizeof lines);
    lines[c->tail_bytes] = '\0';
    for (size_t n = c->tail_bytes; n > 0 && lines[n - 1] == '\n'; n--) {
        lines[n - 1] = '\0';
    }
    const char *last = strrchr(lines, '\n');
    char *clean = line_clean_text(last ? last + 1 : lines, strlen(last ? last + 1 : lines));
    text_shorten(text, size, *c->starting ? c->starting : clean ? clean : "");
    free(clean);
}

void children_flush(struct children *cs)
{
    for (int i = 0; i < cs->n; i++) {
        struct child *c = &cs->slots[i];
        if (c->handler && (child_unwritten(c) > 0 || c->close_input)) {
            child_write(c);
            POINT(task_written);
        }
    }
}

/* --- pool: lines --- */

static int room_of(const struct handler *h, int in_flight)
{
    int limit = h->in_flight > 0 ? h->in_flight : IN_FLIGHT_MAX;
    return h->chunk_size > 0 ? h->chunk_size : limit < in_flight ? limit : in_flight;
}

/* A child of the handler "*" names its kinds, and later ones the same: the worker serves those
 * until its end. `ret`: the kinds; the caller frees it. */
static bool check_kinds(struct child *c, const struct scanned *kinds, char **ret)
{
    struct fault f = {0};
    if (!kinds_read(kinds, ret, &f)) {
        break_protocol(c, f.text);
        return false;
    }
    size_t less = 0, more = 0;
    const char *named = c->handler->named ? c->handler->named : *ret;
    const char *gone = kinds_other(named, *ret, &less), *new = kinds_other(*ret, named, &more);
    if (!gone && !new) {
        return true;
    }
    char how[512];
    (void)snprintf(how, sizeof how,
                   "its hello names other kinds than the first child's:%s%.*s%s%s%.*s: restart the "
                   "worker to serve them",
                   gone ? " not " : "", gone ? (int)less : 0, gone ? gone : "",
                   gone && new ? "," : "", new ? " also " : "", new ? (int)more : 0,
                   new ? new : "");
    break_protocol(c, how);
    return false;
}

static void take_hello(struct children *cs, int slot, const char *line, size_t bytes)
{
    struct child *c = &cs->slots[slot];
    struct fault f = {0};
    struct hello hello;
    if (!line_parse_hello(line, bytes, &hello, &f)) {
        break_protocol(c, f.text);
        return;
    }
    if (*hello.starting) {
        memcpy(c->starting, hello.starting, sizeof c->starting);
        return;
    }
    if (c->handler->chunk_size > 0 && !hello.chunks) {
        break_protocol(c, "the handlers file says chunk_size, and its hello not \"chunks\": true");
        return;
    }
    char *kinds = NULL;
    if (!c->handler->any || check_kinds(c, &hello.kinds, &kinds)) {
        c->said_hello = true;
        cs->emit(cs->owner, &(struct event){.type = EVENT_CHILD_READY,
                                            .slot = slot,
                                            .room = room_of(c->handler, hello.in_flight),
                                            .hears_stop = hello.stop,
                                            .text = kinds});
    }
    free(kinds);
}

/* A child that has answered enough, or has grown too large, gets no more tasks, and ends when it
 * has answered those that it has. Memory is checked once in this many answers: that costs 10 us. */
static void recycle(struct children *cs, int slot, enum event_type type)
{
    struct child *c = &cs->slots[slot];
    const struct handler *h = c->handler;
    if (type != EVENT_REPLY || c->recycled) {
        return;
    }
    c->answers++;
    c->recycled = (h->tasks_max > 0 && c->answers >= h->tasks_max) ||
                  (h->rss_mib_max > 0 && c->answers % RSS_EVERY_ANSWERS == 1 &&
                   child_rss_mib(c) > h->rss_mib_max);
    if (c->recycled) {
        cs->emit(cs->owner, &(struct event){.type = EVENT_CHILD_RETIRES, .slot = slot});
    }
}

/* --- what it writes to stderr --- */

static void emit_printed(struct children *cs, int slot, const char *line, size_t bytes)
{
    char *text = line_clean_text(line, bytes);
    if (text) {
        cs->emit(cs->owner, &(struct event){.type = EVENT_PRINTED, .slot = slot, .text = text});
    }
    free(text);
}

/* Line by line; `ended`: also what has no newline. */
static void take_printed(struct children *cs, int slot, bool ended)
{
    struct child *c = &cs->slots[slot];
    while (c->printed.len > 0) {
        const char *line = c->printed.data, *end = memchr(line, '\n', c->printed.len);
        size_t bytes = end ? (size_t)(end - line) : c->printed.len;
        if (!end && !ended && bytes < CHILD_PRINTED_BYTES_MAX) {
            break;
        }
        bytes = bytes < CHILD_PRINTED_BYTES_MAX ? bytes : CHILD_PRINTED_BYTES_MAX;
        emit_printed(cs, slot, line, bytes);
        buf_drop(&c->printed, end == line + bytes ? bytes + 1 : bytes);
    }
}

static void read_error(struct children *cs, int slot)
{
    child_read_error(&cs->slots[slot]);
    take_printed(cs, slot, false);
}

void children_printed(struct children *cs, int slot, struct buf *ret)
{
    struct child *c = &cs->slots[slot];
    read_error(cs, slot); /* what it wrote before its reply */
    int64_t bytes = c->task_bytes < 0 ? 0 : c->err_bytes - c->task_bytes;
    bool cut = bytes > (int64_t)c->tail_bytes;
    size_t n = cut ? c->tail_bytes : (size_t)bytes;
    const char *from = c->tail + c->tail_bytes - n;
    const char *next = cut ? memchr(from, '\n', n) : NULL;
    from = next ? next + 1 : from; /* its first line is not whole */
    buf_put(ret, from, (size_t)(c->tail + c->tail_bytes - from));
}

static void take_line(struct children *cs, int slot, const char *line, size_t bytes)
{
    struct child *c = &cs->slots[slot];
    struct fault f = {0};
    struct event event = {.slot = slot};
    if (!c->said_hello) {
        take_hello(cs, slot, line, bytes);
        return;
    }
    POINT(reply_received);
    if (!line_parse(line, bytes, &event, &f)) {
        break_protocol(c, f.text);
    } else if (event.type == EVENT_CHILD_RETIRES) {
        cs->emit(cs->owner, &event);
    } else if (event.type == EVENT_CHILD_READY) {
        event.room = room_of(c->handler, event.room);
        cs->emit(cs->owner, &event);
    } else if (event.type == EVENT_LOG) { /* of a task that it has answered: dropped */
        if (cs->is_given(cs->owner, slot, event.id)) {
            cs->emit(cs->owner, &event);
        }
    } else if (!cs->is_given(cs->owner, slot, event.id)) {
        free(event.reply);
        free(event.error);
        free(event.progress);
        free(event.step);
        free(event.signal);
        break_protocol(c, "a reply to a task it does not have");
    } else {
        if (event.type == EVENT_REPLY && c->handler->log_stderr) {
            read_error(cs, slot); /* what it printed before is the task's */
        }
        cs->emit(cs->owner, &event);
        recycle(cs, slot, event.type);
    }
    free(event.message);
    free(event.fields);
}

/* What is left of a line that was too long. False: it continues. */
static bool skip_line(struct child *c)
{
    const char *end = c->output.len > 0 ? memchr(c->output.data, '\n', c->output.len) : NULL;
    size_t bytes = end ? (size_t)(end - c->output.data) + 1 : c->output.len;
    c->skipped += bytes;
    if (c->skipped > LINE_SKIPPED_BYTES_MAX) {
        break_protocol(c, "a line is longer than 64 MiB");
    }
    buf_drop(&c->output, bytes);
    c->searched = 0;
    c->skipped = end ? 0 : c->skipped;
    return end && !*c->broke;
}

/* Its task may be told by how it begins. */
static void take_long_line(struct children *cs, int slot)
{
    struct child *c = &cs->slots[slot];
    take_line(cs, slot, c->output.data, c->output.len);
    c->skipped = c->output.len;
    buf_empty(&c->output);
    c->searched = 0;
}

static void take_lines(struct children *cs, int slot)
{
    struct child *c = &cs->slots[slot];
    if (c->skipped > 0 && !skip_line(c)) {
        return;
    }
    size_t used = 0, from = c->searched;
    char *end;
    while (!*c->broke && from < c->output.len &&
           (end = memchr(c->output.data + from, '\n', c->output.len - from))) {
        size_t bytes = (size_t)(end - (c->output.data + used));
        *end = '\0';
        take_line(cs, slot, c->output.data + used, bytes);
        used = from = used + bytes + 1;
    }
    buf_drop(&c->output, used);
    c->searched = c->output.len;
    if (!*c->broke && c->output.len > LINE_BYTES_MAX) {
        take_long_line(cs, slot);
    }
    if (*c->broke) {
        buf_empty(&c->output);
        c->searched = 0;
    }
}

/* Without its stdin or stdout it cannot answer any more; its end may be why, and follow at once. */
static void check_pipes(struct children *cs, int slot)
{
    struct child *c = &cs->slots[slot];
    if (!c->close_input && !c->pipe_closed && (c->in < 0 || c->out < 0)) {
        c->pipe_closed = true;
        cs->emit(cs->owner, &(struct event){.type = EVENT_CHILD_PIPE_CLOSED, .slot = slot});
    }
}

/* --- the end of a child --- */

static void tell_exec_outcome(struct children *cs, int slot, int status, const char *text)
{
    POINT(reply_received);
    struct child *c = &cs->slots[slot];
    struct event event = {.type = EVENT_REPLY, .slot = slot, .id = c->task, .delay_ms = -1};
    line_exec_outcome(c, status, text, &event);
    cs->emit(cs->owner, &event);
}

static void reap(struct children *cs, int slot)
{
    struct child *c = &cs->slots[slot];
    char text[128];
    int status = child_reap(c, text, sizeof text);
    take_printed(cs, slot, true);
    if (c->handler->pool) {
        take_lines(cs, slot);
    } else if (status != -2) {
        tell_exec_outcome(cs, slot, status, text);
    }
    char *error = line_child_error(c, *c->broke ? c->broke : text);
    bool exited_well = status == 0 && !*c->broke;
    cs->emit(cs->owner, &(struct event){.type = EVENT_CHILD_GONE,
                                        .slot = slot,
                                        .failed_start = status == -2,
                                        .exited_well = exited_well,
                                        .text = error ? error : text});
    child_clear(c);
    free(error);
}

/* --- polling --- */

static void poll_slot(const struct children *cs, int slot, struct pollfd *fds)
{
    const struct child *c = &cs->slots[slot];
    bool reads = c->handler && !(cs->is_full && cs->is_full(cs->owner, slot));
    fds[0] = (struct pollfd){.fd = c->handler ? c->pidfd : -1, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = reads ? c->out : -1, .events = POLLIN};
    fds[2] = (struct pollfd){.fd = c->handler ? c->err : -1, .events = POLLIN};
    fds[3] = (struct pollfd){.fd = c->handler && child_unwritten(c) > 0 ? c->in : -1,
                             .events = POLLOUT};
}

void children_poll(const struct children *cs, struct pollfd *fds)
{
    for (int i = 0; i < cs->n; i++) {
        poll_slot(cs, i, &fds[i * CHILDREN_FDS_PER_SLOT]);
    }
}

static void dispatch_slot(struct children *cs, int slot,
                          const struct pollfd fds[CHILDREN_FDS_PER_SLOT])
{
    struct child *c = &cs->slots[slot];
    if (fds[1].revents) {
        child_read_output(c);
        if (c->handler->pool) {
            take_lines(cs, slot);
        }
    }
    if (fds[2].revents) {
        read_error(cs, slot);
    }
    if (fds[3].revents) {
        child_write(c);
    }
    if (fds[0].revents) {
        reap(cs, slot);
    } else if (c->handler->pool) {
        check_pipes(cs, slot);
    }
}

void children_dispatch(struct children *cs, const struct pollfd *fds)
{
    for (int i = 0; i < cs->n; i++) {
        if (cs->slots[i].handler) {
            dispatch_slot(cs, i, &fds[i * CHILDREN_FDS_PER_SLOT]);
        }
    }
}
