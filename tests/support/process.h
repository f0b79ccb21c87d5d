/* Processes of a test: the program tenon and others. They die with the test, whatever happens. */
#ifndef TENON_TESTS_SUPPORT_PROCESS_H
#define TENON_TESTS_SUPPORT_PROCESS_H

#include "tests/support/fixture.h"

#include <sys/types.h>

struct process {
    pid_t pid;
    char name[32];
    char out[256]; /* the file with its stdout */
    char log[256]; /* the file with its stderr */
    bool gone;
    int status; /* exit code, or 128 + signal; when gone */
    struct process *next;
};

/* Start a program. It gets the test's environment with DATABASE_URL, AMQP_URL ("none" without a
 * virtual host) and TEST_JOURNAL set to the fixture's, and then `env`, each "NAME=value" (a bare
 * "NAME" is unset); NULL = nothing more. `argv` ends with NULL; PATH is searched. */
struct process *process_spawn(struct fixture *fx, const char *const *argv, const char *const *env);

/* The program tenon: TENON(fx, "worker", "--slots", "2"). */
#define TENON(fx, ...) tenon_spawn((fx), (const char *const[]){__VA_ARGS__, NULL}, NULL)
struct process *tenon_spawn(struct fixture *fx, const char *const *args, const char *const *env);

extern const char tenon_program[]; /* its path, for a shell command */
extern const char repository[];    /* the path of the clone */

/* Start tenon, wait for its end, compare its exit code; returns its stdout, free(). */
#define TENON_RUN(fx, code, ...) tenon_run((fx), (code), (const char *const[]){__VA_ARGS__, NULL})
char *tenon_run(struct fixture *fx, int code, const char *const *args);

/* The same, but compare what it prints on stdout and on stderr: these parts must be in it. */
#define TENON_SAYS(fx, code, out, log, ...)                                                        \
    tenon_says((fx), (code), (out), (log), (const char *const[]){__VA_ARGS__, NULL})
void tenon_says(struct fixture *fx, int code, const char *out, const char *log,
                const char *const *args);

/* Wait until a line of its log contains `text`, e.g. "event=worker_ready"; fails, with the end of
 * the log, when the process ends before or after limit_ms. */
void process_await_line(struct process *p, const char *text, int64_t limit_ms);

/* How many lines of its log contain `text`. */
size_t process_lines(const struct process *p, const char *text);

/* Send a signal, to it alone. */
void process_signal(struct process *p, int signal);

/* kill -9, and wait until it is gone. */
void process_kill(struct process *p);

/* Its children, a worker's guard too; returns how many, `max` at most. */
int process_children(const struct process *p, pid_t *ret, int max);

/* Whether this child of a worker runs, and is not its guard. */
bool process_is_handler(pid_t pid);

/* Wait until it is gone; returns exit code, or 128 + signal. Fails after limit_ms. */
int process_wait(struct process *p, int64_t limit_ms);

/* Has it ended? Does not wait. */
bool process_is_gone(struct process *p);

/* The content of a file, free(); fails when it cannot be read. */
char *file_text(const char *path);
void file_write(const char *path, const char *text);

/* The path of a handler of tests/support/handlers: "tenon_task", "journal.sh". */
void handler_path(const char *name, char *ret, size_t size);

/* "LD_PRELOAD=..." for a library, by a path without a blank: the variable is a list. */
void preload_variable(const struct fixture *fx, const char *library, char *ret, size_t size);

/* Print the end of the log of each of them. */
void processes_print(const struct fixture *fx);

/* Kill and reap all that is left of the fixture, and every other child of the test. */
void processes_end(struct fixture *fx);

#endif
