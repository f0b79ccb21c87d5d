#include "core/point.h"

#ifdef TENON_POINTS

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum action { ACTION_KILL, ACTION_FREEZE, ACTION_EXIT, ACTION_ERROR, ACTION_SLEEP };
enum { EXIT_CODE = 70 };

/* Read once; POINTS = none is armed. */
static enum point armed = POINTS;
static enum action action;
static long nth = 1, sleep_ms;
static const char *log_file;
static atomic_long reached;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define POINT_NAME(name, what) #name,
static const char *const names[] = {POINT_LIST(POINT_NAME)};
#undef POINT_NAME

static _Noreturn void refuse(const char *what, const char *text)
{
    (void)fprintf(stderr, "TENON_POINT: %s: %s\n", what, text);
    abort();
}

static void read_action(const char *text)
{
    static const char *const words[] = {"kill", "freeze", "exit", "error", "sleep="};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t len = strlen(words[i]);
        if (strncmp(text, words[i], len) == 0 && (i == ACTION_SLEEP || !text[len])) {
            action = (enum action)i;
            sleep_ms = i == ACTION_SLEEP ? strtol(text + len, NULL, 10) : 0;
            return;
        }
    }
    refuse("no such action", text);
}

static enum point read_name(const char *text, size_t len)
{
    for (size_t i = 0; i < POINTS; i++) {
        if (strlen(names[i]) == len && strncmp(names[i], text, len) == 0) {
            return (enum point)i;
        }
    }
    refuse("no such point", text);
}

static void read_environment(void)
{
    const char *text = getenv("TENON_POINT");
    log_file = getenv("TENON_POINT_LOG");
    if (!text || !*text) {
        return;
    }
    const char *colon = strchr(text, ':');
    if (!colon) {
        refuse("no action", text);
    }
    enum point point = read_name(text, (size_t)(colon - text));
    char *end;
    long number = strtol(colon + 1, &end, 10);
    if (end > colon + 1 && *end == ':') {
        nth = number;
        colon = end;
    }
    read_action(colon + 1);
    armed = point;
}

/* False: another process has struck already. */
static bool leave_word(void)
{
    if (!log_file) {
        return true;
    }
    int fd = open(log_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        if (errno != EEXIST) {
            refuse(strerror(errno), log_file);
        }
        return false;
    }
    dprintf(fd, "%s\n", names[armed]);
    (void)close(fd);
    return true;
}

static bool strike(struct fault *f)
{
    switch (action) {
    case ACTION_KILL:
        (void)raise(SIGKILL);
        break;
    case ACTION_FREEZE:
        (void)raise(SIGSTOP); /* returns when somebody continues us */
        break;
    case ACTION_EXIT:
        _exit(EXIT_CODE);
    case ACTION_SLEEP:
        (void)poll(NULL, 0, (int)sleep_ms);
        break;
    case ACTION_ERROR:
        if (!f) {
            refuse("this point cannot fail", names[armed]);
        }
        (void)fault_set(f, FAULT_RETRY, "the point %s was armed", names[armed]);
        return true;
    }
    return false;
}

bool point_reached(enum point point, struct fault *f)
{
    (void)pthread_once(&once, read_environment);
    return point == armed && atomic_fetch_add(&reached, 1) + 1 == nth && leave_word() && strike(f);
}

#else

/* A file of a translation unit has to declare something. */
typedef int point_none;

#endif
