/* `tenon scaler`: asks how many slots are wanted, and runs what starts or ends workers. */
#include "cli/command.h"
#include "cli/fleet/scale.h"
#include "cli/statements.h"
#include "core/base/array.h"
#include "core/base/buf.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/db/db.h"
#include "core/db/schema.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    EVERY_MS = 5000,
    COMMAND_LIMIT_S = 60, /* then it is ended, and tried again */
    COMMAND_BYTES_MAX = 8192,
    QUEUES_BYTES_MAX = 65536,
    LATENCY_BYTES = 24,
};

struct scaler {
    const struct options *o;
    struct buf queues;
    char latency[LATENCY_BYTES];
    int64_t slots; /* of one worker */
    struct scale scale;
    bool begun;   /* the scale knows how many there are */
    int64_t told; /* the number for which the command last succeeded; -1 = it did not */
    struct scale_gap gap;
    bool away; /* and that was logged */
    sigset_t signals;
};

/* --- the database --------------------------------------------------------------------------- */

/* Slots wanted, and workers that are there. A session for each question, so that none is held. */
static bool ask(struct scaler *s, int64_t *ret_slots, int64_t *ret_workers, struct fault *f)
{
    const char *const params[] = {buf_text(&s->queues), s->latency};
    struct rows *rows = NULL;
    struct db *db = NULL;
    bool ok = db_open(option_text(s->o, OPTION_DATABASE_URL), DB_READ, "tenon scaler", &db, f) &&
              schema_check(db, f) && db_exec(db, &sql_scaler, params, 2, &rows, f);
    if (ok) {
        *ret_slots = rows_int(rows, 0, 0);
        *ret_workers = rows_int(rows, 0, 1);
    }
    rows_free(rows);
    db_close(db);
    return ok || fault_add(f, "could not read the demand");
}

/* --- the command ---------------------------------------------------------------------------- */

static bool write_command(const char *format, int64_t n, struct buf *b)
{
    buf_init(b, COMMAND_BYTES_MAX);
    for (const char *place; (place = strstr(format, "{n}")); format = place + strlen("{n}")) {
        buf_printf(b, "%.*s%lld", (int)(place - format), format, (long long)n);
    }
    buf_put_text(b, format);
    return !b->failed;
}

/* In a shell, without the signals that we hold back; the alarm ends it. */
static pid_t start_command(const struct scaler *s, const char *text)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)sigprocmask(SIG_UNBLOCK, &s->signals, NULL);
        (void)signal(SIGPIPE, SIG_DFL);
        (void)alarm(COMMAND_LIMIT_S);
        (void)execl("/bin/sh", "sh", "-c", text, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static bool run_command(struct scaler *s, int64_t n, struct fault *f)
{
    struct buf text;
    int status = 0;
    const char *command = option_text(s->o, OPTION_EXEC);
    if (!command) {
        return true;
    }
    bool ok = write_command(command, n, &text) || fault_memory(f);
    pid_t pid = ok ? start_command(s, buf_text(&text)) : -1;
    if (ok && (pid < 0 || waitpid(pid, &status, 0) != pid)) {
        ok = fault_set(f, FAULT_RETRY, "could not run the command: %s", strerror(errno));
    } else if (ok && WIFSIGNALED(status)) {
        ok = fault_set(f, FAULT_RETRY, "the command was ended by signal %d%s", WTERMSIG(status),
                       WTERMSIG(status) == SIGALRM ? ": it took longer than 60 s" : "");
    } else if (ok && WEXITSTATUS(status) != 0) {
        ok = fault_set(f, FAULT_RETRY, "the command exited with %d", WEXITSTATUS(status));
    }
    buf_clear(&text);
    return ok;
}

/* --- one round ------------------------------------------------------------------------------ */

/* Who knows nothing of what was wanted before goes down by one. */
static int64_t decide(struct scaler *s, int64_t wanted, int64_t there)
{
    bool once = option_flag(s->o, OPTION_ONCE);
    if (!s->begun) {
        s->scale = scale_start(option_int(s->o, OPTION_MIN), option_int(s->o, OPTION_MAX),
                               option_int(s->o, OPTION_DOWN_AFTER), there);
        s->told = there;
        s->begun = true;
    }
    int64_t least = there - 1;
    return scale_next(&s->scale, once && wanted < least ? least : wanted, now_ms());
}

/* The command ended well, and yet they are not there: lost with a host, or ended by hand. It may be
 * wanted once more. */
static void notice_lack(struct scaler *s, int64_t there)
{
    if (s->told >= 0 && scale_lacks(&s->gap, s->told, there, now_ms())) {
        log_event(LOG_WARNING, LOG_EVENT("workers_missing"), LOG_NUM("workers", there),
                  LOG_NUM("told", s->told));
        s->told = -1;
    }
}

static bool scale_to(struct scaler *s, int64_t n, int64_t there, int64_t slots, struct fault *f)
{
    if (n == s->told) {
        return true;
    }
    if (!run_command(s, n, f)) {
        s->told = -1;
        log_fault(LOG_ERROR, "scale_failed", f);
        return false;
    }
    log_event(LOG_INFO, LOG_EVENT("scaled"), LOG_NUM("workers", n),
              LOG_NUM("before", s->told >= 0 ? s->told : there), LOG_NUM("slots_wanted", slots));
    s->told = n;
    s->gap.open = false; /* they have the time to start from now on */
    return true;
}

/* Without the database the number stays. */
static bool step(struct scaler *s, struct fault *f)
{
    int64_t slots = 0, there = 0;
    if (!ask(s, &slots, &there, f)) {
        if (!s->away) {
            log_fault(LOG_WARNING, "demand_unknown", f);
        }
        s->away = true;
        return false;
    }
    if (s->away) {
        log_event(LOG_INFO, LOG_EVENT("demand_known"));
    }
    s->away = false;
    int64_t n = decide(s, (slots + s->slots - 1) / s->slots, there);
    notice_lack(s, there);
    return scale_to(s, n, there, slots, f);
}

/* A fault that a person must mend ends it. */
static int loop(struct scaler *s)
{
    struct timespec pause = {.tv_sec = EVERY_MS / 1000};
    for (;;) {
        struct fault f = {.code = FAULT_NONE};
        bool ok = step(s, &f);
        if (!ok && (!fault_passes(&f) || option_flag(s->o, OPTION_ONCE))) {
            return fault_exit_code(&f);
        }
        if (option_flag(s->o, OPTION_ONCE) || sigtimedwait(&s->signals, NULL, &pause) > 0) {
            return 0;
        }
    }
}

static bool scaler_open(struct scaler *s, struct fault *f)
{
    const struct options *o = s->o;
    s->slots = option_int(o, OPTION_SLOTS);
    (void)snprintf(s->latency, sizeof s->latency, "%lld", (long long)option_int(o, OPTION_LATENCY));
    (void)sigemptyset(&s->signals);
    (void)sigaddset(&s->signals, SIGTERM);
    (void)sigaddset(&s->signals, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &s->signals, NULL);
    (void)signal(SIGCHLD, SIG_DFL);
    if (option_int(o, OPTION_MAX) < option_int(o, OPTION_MIN)) {
        return fault_set(f, FAULT_CONFIG, "--max %lld is less than --min %lld",
                         (long long)option_int(o, OPTION_MAX),
                         (long long)option_int(o, OPTION_MIN));
    }
    buf_init(&s->queues, QUEUES_BYTES_MAX);
    array_begin(&s->queues);
    for (size_t i = 0; i < option_items(o, OPTION_QUEUES); i++) {
        array_put_text(&s->queues, option_item(o, OPTION_QUEUES, i));
    }
    return array_end(&s->queues) || fault_memory(f);
}

int scaler_main(const struct options *o)
{
    struct scaler s = {.o = o};
    struct fault f = {.code = FAULT_NONE};
    if (!scaler_open(&s, &f)) {
        log_fault(LOG_ERROR, "scaler_failed", &f);
        return fault_exit_code(&f);
    }
    log_event(LOG_INFO, LOG_EVENT("scaler_started"), LOG_TEXT("version", TENON_VERSION),
              LOG_NUM("min", option_int(o, OPTION_MIN)), LOG_NUM("max", option_int(o, OPTION_MAX)),
              LOG_NUM("slots", s.slots));
    int code = loop(&s);
    log_event(LOG_INFO, LOG_EVENT("scaler_stopped"), LOG_NUM("code", code));
    buf_clear(&s.queues);
    return code;
}
