/* Handlers that behave badly, one way each: bad exec WHAT [N], bad pool WHAT [N].
 *
 * What each does stands beside its name. Some leave a process behind, which becomes the test's
 * child (support/process.c) and ends with it. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long long number; /* the argument N */

static void put(int fd, const void *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        ssize_t n = write(fd, (const char *)data + sent, bytes - sent);
        if (n <= 0) {
            _exit(9); /* nobody reads any more */
        }
        sent += (size_t)n;
    }
}

static void say(const char *text)
{
    put(1, text, strlen(text));
}

/* `bytes` of one character; < 0 = for ever. */
static void flood(int fd, char c, long long bytes)
{
    char block[65536];
    memset(block, c, sizeof block);
    while (bytes != 0) {
        size_t n = bytes < 0 || bytes > (long long)sizeof block ? sizeof block : (size_t)bytes;
        put(fd, block, n);
        bytes -= bytes > 0 ? (long long)n : 0;
    }
}

static void garbage(long long bytes)
{
    unsigned state = 1;
    for (long long i = 0; i < bytes; i++) {
        state = state * 1103515245u + 12345u;
        char c = (char)(state >> 16);
        put(1, &c, 1);
    }
}

static void hang(void)
{
    for (;;) {
        (void)pause();
    }
}

/* A process in a session of its own that keeps our stdout and stderr; it may flood stdout. */
static void leave_daemon(bool writes)
{
    if (fork() == 0) {
        char block[4096];
        (void)setsid();
        (void)signal(SIGPIPE, SIG_IGN);
        memset(block, 'd', sizeof block);
        while (writes && write(1, block, sizeof block) > 0) {
        }
        hang();
    }
}

static void ignore_term(void)
{
    (void)signal(SIGTERM, SIG_IGN);
}

/* Out of the group that the worker signals, into the worker's own. */
static void leave_group(void)
{
    if (setpgid(0, getpgid(getppid())) != 0) {
        perror("setpgid");
        _exit(9);
    }
}

/* --- exec: the payload is on stdin, and most of them do not care --- */

static int exec_bad(const char *what)
{
    if (strcmp(what, "flood") == 0) { /* N bytes without a newline, then done */
        flood(1, 'x', number);
    } else if (strcmp(what, "flood_stderr") == 0) { /* N bytes, then failed */
        flood(2, 'e', number);
        return 1;
    } else if (strcmp(what, "flood_for_ever") == 0) {
        flood(1, 'y', -1);
    } else if (strcmp(what, "garbage") == 0) { /* N bytes of it, then done */
        garbage(number);
    } else if (strcmp(what, "say_nothing") == 0) { /* nor read anything */
        hang();
    } else if (strcmp(what, "close") == 0) { /* stdin, stdout and stderr, and go on */
        (void)close(0);
        (void)close(1);
        (void)close(2);
        hang();
    } else if (strcmp(what, "ignore_term") == 0) {
        ignore_term();
        hang();
    } else if (strcmp(what, "daemon") == 0) { /* done, but its stdout stays open */
        leave_daemon(false);
    } else if (strcmp(what, "writing_daemon") == 0) {
        leave_daemon(true);
    } else if (strcmp(what, "leave_group") == 0) {
        leave_group();
        hang();
    } else if (strcmp(what, "stop") == 0) {
        (void)raise(SIGSTOP);
        hang();
    } else if (strcmp(what, "kill_group") == 0) {
        (void)kill(0, SIGKILL);
    } else if (strcmp(what, "crowd") == 0) { /* N processes in the background, none obeys TERM */
        for (long long i = 0; i < number; i++) {
            if (fork() == 0) {
                ignore_term();
                hang();
            }
        }
        hang();
    } else {
        return 64;
    }
    return 0;
}

/* --- pool: says hello for N tasks in flight, then gets tasks --- */

static volatile sig_atomic_t term;

static void on_term(int sig)
{
    (void)sig;
    term = 1;
}

static void reply(long long id, const char *rest)
{
    char line[256];
    (void)snprintf(line, sizeof line, "{\"id\":%lld,%s}\n", id, rest);
    say(line);
}

/* A line of exactly `bytes` before its newline: done, with a long result. */
static void long_line(long long id, long long bytes)
{
    char head[128];
    int n = snprintf(head, sizeof head, "{\"id\":%lld,\"outcome\":\"done\",\"result\":\"", id);
    say(head);
    flood(1, 'r', bytes - n - 2);
    say("\"}\n");
}

static void nested(long long id, int depth)
{
    char head[64];
    (void)snprintf(head, sizeof head, "{\"id\":%lld,\"outcome\":\"done\",\"result\":", id);
    say(head);
    flood(1, '[', depth);
    flood(1, ']', depth);
    say("}\n");
}

static void tiny_number(long long id)
{
    char head[80];
    (void)snprintf(head, sizeof head, "{\"id\":%lld,\"outcome\":\"done\",\"result\":0.", id);
    say(head);
    flood(1, '0', 20000);
    say("1}\n");
}

static void drip(void)
{
    for (;;) {
        put(1, "z", 1);
    }
}

/* Bad lines; false when it is none of these. */
static bool bad_line(const char *what, long long id)
{
    if (strcmp(what, "no_newline") == 0) { /* one line without an end */
        flood(1, 'x', -1);
    } else if (strcmp(what, "drip") == 0) { /* the same, byte by byte */
        drip();
    } else if (strcmp(what, "newlines") == 0) {
        flood(1, '\n', -1);
    } else if (strcmp(what, "garbage") == 0) {
        garbage(1 << 20);
        hang();
    } else if (strcmp(what, "wrong_id") == 0) {
        reply(id + 1000000, "\"outcome\":\"done\"");
        hang();
    } else if (strcmp(what, "huge_id") == 0) {
        say("{\"id\":1e300,\"outcome\":\"done\"}\n");
        hang();
    } else if (strcmp(what, "huge_delay") == 0) {
        reply(id, "\"outcome\":\"failed\",\"delay_ms\":1e300");
        hang();
    } else if (strcmp(what, "twice") == 0) {
        reply(id, "\"outcome\":\"done\"");
        reply(id, "\"outcome\":\"done\"");
        hang();
    } else if (strcmp(what, "late") == 0) { /* done, when it was told to end */
        while (!term) {
            (void)pause();
        }
        reply(id, "\"outcome\":\"done\"");
        hang();
    } else if (strcmp(what, "line_fits") == 0) { /* 2 MiB, the most that is allowed */
        long_line(id, 2 << 20);
    } else if (strcmp(what, "line_too_long") == 0) {
        long_line(id, (2 << 20) + 1);
        hang();
    } else if (strcmp(what, "long_lines") == 0) { /* 1 MB each */
        long_line(id, 1000000);
    } else if (strcmp(what, "nested") == 0) { /* deeper than JSON parsers go */
        nested(id, 100000);
        hang();
    } else if (strcmp(what, "deep") == 0) { /* as deep as ours goes */
        nested(id, 2000);
    } else if (strcmp(what, "tiny_number") == 0) { /* JSON, but PostgreSQL takes no such number */
        tiny_number(id);
    } else {
        return false;
    }
    return true;
}

/* Bad lives. */
static void pool_task(const char *what, long long id)
{
    if (bad_line(what, id)) {
        return;
    }
    if (strcmp(what, "exit") == 0) {
        exit(0);
    } else if (strcmp(what, "close_out") == 0) {
        (void)close(1);
        hang();
    } else if (strcmp(what, "close_in") == 0) {
        (void)close(0);
        hang();
    } else if (strcmp(what, "close_err") == 0) { /* harmless */
        (void)close(2);
        reply(id, "\"outcome\":\"done\"");
    } else if (strcmp(what, "flood_stderr") == 0) { /* 50 MB, then done */
        flood(2, 'e', 50000000);
        reply(id, "\"outcome\":\"done\"");
    } else if (strcmp(what, "ignore_term") == 0) {
        ignore_term();
        hang();
    } else if (strcmp(what, "daemon") == 0) {
        leave_daemon(true);
        exit(0);
    } else if (strcmp(what, "leave_group") == 0) {
        leave_group();
        hang();
    } else if (strcmp(what, "stop") == 0) {
        (void)raise(SIGSTOP);
        hang();
    } else {
        (void)fprintf(stderr, "no such badness: %s\n", what);
        exit(64);
    }
}

static int pool_bad(const char *what)
{
    char hello[80];
    if (strcmp(what, "no_hello") == 0) {
        return 3; /* its children never get so far */
    }
    (void)snprintf(hello, sizeof hello, "{\"hello\":\"tenon\",\"in_flight\":%lld}\n", number);
    say(hello);
    if (strcmp(what, "hello_and_exit") == 0) {
        return 0;
    }
    if (strcmp(what, "never_read") == 0) {
        hang();
    }
    if (strcmp(what, "late") == 0) {
        (void)signal(SIGTERM, on_term);
    }
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        pool_task(what, strtoll(line + strlen("{\"id\":"), NULL, 10));
    }
    free(line);
    return 0;
}

int main(int argc, char **argv)
{
    number = argc > 3 ? strtoll(argv[3], NULL, 10) : 1;
    if (argc < 3) {
        return 64;
    }
    return strcmp(argv[1], "pool") == 0 ? pool_bad(argv[2]) : exec_bad(argv[2]);
}
