#include "core/base/point.h"

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
static long nth, sleep_ms;
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

static size_t index_of(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    refuse("no such point or action", word);
}

static void read_environment(void)
{
    static const char *const words[] = {"kill", "freeze", "exit", "error", "sleep"};
    const char *text = getenv("TENON_POINT");
    char name[64], word[16];
    log_file = getenv("TENON_POINT_LOG");
    if (!text || !*text) {
        return;
    }
    if (sscanf(text, "%63[^:]:%ld:%15[a-z]=%ld", name, &nth, word, &sleep_ms) < 3) {
        refuse("it is not NAME:NTH:ACTION", text);
    }
    action = (enum action)index_of(word, words, sizeof words / sizeof *words);
    armed = (enum point)index_of(name, names, POINTS);
}

/* False: another process has struck already. */
static bool make_log_file(void)
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
    return point == armed && atomic_fetch_add(&reached, 1) + 1 == nth && make_log_file() &&
           strike(f);
}

#else

/* A file of a translation unit has to declare something. */
typedef int point_none;

#endif
