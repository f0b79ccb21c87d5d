/* The parts of `tenon dev`. */
#ifndef TENON_CLI_DEV_H
#define TENON_CLI_DEV_H

#include "core/base/buf.h"
#include "core/options/option.h"

#include <stdint.h>
#include <sys/types.h>

/* --- a process whose lines go into the one log --- */

struct part {
    const char *name;
    int colour; /* of the terminal, 31..36 */
    pid_t pid;  /* 0: it does not run */
    int fd;     /* what it prints; -1 */
    int status; /* how it ended: exit code, or 128 + signal */
    struct buf line;
    bool is_quiet;                                /* its lines are not for the log */
    void (*heard)(void *owner, const char *line); /* NULL = nobody listens */
    void *owner;
};

enum { PART_LINE_BYTES_MAX = 64 << 10 };

/* Start a program, in a process group of its own, that ends when this one does. */
MUST_CHECK bool part_start(struct part *p, const char *const *argv, struct fault *f);
bool part_read(struct part *p); /* false: there is nothing just now */
void part_reap(struct part *p); /* when it has ended, with its last words */
void part_signal(const struct part *p, int signal);

/* A line of the log, as of a part with this name. */
void part_say(const struct part *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- files that may change --- */

struct watched {
    uint64_t files; /* what they are now, in short */
    char newest[512];
    int64_t newest_ns;
};

/* Read what the files are that the options name: the handlers file, the programs and scripts of its
 * commands, and the arguments, with all that is in folders. */
void watched_read(const struct options *o, struct watched *ret);

/* --- the folder with servers of its own --- */

#define DEV_FOLDER ".tenon" /* where `tenon dev` was started */

extern const char dev_services[]; /* script/services */

/* Make the folder with what its servers need, and lock it. CONFIG: it cannot be made, or another
 * `tenon dev` has it. */
MUST_CHECK bool folder_open(int *ret, struct fault *f);

/* Replace a file of it. */
MUST_CHECK bool folder_write(const char *path, const char *text, struct fault *f);

#endif
