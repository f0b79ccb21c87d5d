/* The same pool handler in C, one mail at a time.
 *
 *     mailer MAILDIR JOURNAL
 *
 * See mailer.py for what it writes to the journal. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 300, HEADER_BYTES = 1024, LINE_BYTES = 512 };

struct task {
    long long id, attempt, user;
    const char *email, *name;
};

static pid_t worker_pid;

static struct timespec now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_REALTIME, &at);
    return at;
}

/* One line is one write, so that lines of different processes never mix. */
static void note(int journal, const struct task *t, const char *what)
{
    struct timespec at = now();
    char line[LINE_BYTES];
    int n = snprintf(line, sizeof line, "%lld %lld %d %s %lld%09ld %d %s\n", t->id, t->attempt,
                     (int)getpid(), what, (long long)at.tv_sec, at.tv_nsec, (int)worker_pid,
                     t->email);
    if (n < 0 || n >= (int)sizeof line || write(journal, line, (size_t)n) != n) {
        perror("mailer: could not write the journal");
        exit(1);
    }
}

/* RFC 2047: a header may hold ASCII only, so a name goes into it as base64 of its UTF-8. */
static void encode_word(const char *text, char *word, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = strlen(text), n = (size_t)snprintf(word, size, "=?utf-8?b?");
    for (size_t i = 0; i < len && n + 8 < size; i += 3) {
        const unsigned char *in = (const unsigned char *)text + i;
        unsigned b = i + 1 < len ? in[1] : 0, c = i + 1 < len && i + 2 < len ? in[2] : 0;
        uint32_t bits = (uint32_t)in[0] << 16 | (uint32_t)b << 8 | c;
        word[n++] = digits[bits >> 18];
        word[n++] = digits[bits >> 12 & 63];
        word[n++] = i + 1 < len ? digits[bits >> 6 & 63] : '=';
        word[n++] = i + 2 < len ? digits[bits & 63] : '=';
    }
    (void)snprintf(word + n, size - n, "?=");
}

static void write_mail(FILE *file, const struct task *t, const char *unique)
{
    char date[64], to[HEADER_BYTES];
    time_t seconds = time(NULL);
    struct tm local;
    (void)strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S %z", localtime_r(&seconds, &local));
    encode_word(t->name, to, sizeof to);
    (void)fprintf(file,
                  "From: The Sign-up Desk <desk@example.org>\nTo: %s <%s>\nSubject: Welcome\n"
                  "Date: %s\nMessage-ID: <%s@example.org>\nMIME-Version: 1.0\n"
                  "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n",
                  to, t->email, date, unique);
    (void)fprintf(file, "Dear %s,\n\nyou are user number %lld.\n", t->name, t->user);
}

/* A Maildir's rules: a name that nobody else takes, written in tmp/, then moved to new/ at once. */
static bool deliver(const char *maildir, const struct task *t, char unique[NAME_BYTES])
{
    static unsigned count;
    struct timespec at = now();
    char host[256] = "localhost", tmp[4096], new[4096];
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(unique, NAME_BYTES, "%lld.M%06ldP%dQ%u.%.200s", (long long)at.tv_sec,
                   at.tv_nsec / 1000, (int)getpid(), ++count, host);
    (void)snprintf(tmp, sizeof tmp, "%.3000s/tmp/%s", maildir, unique);
    (void)snprintf(new, sizeof new, "%.3000s/new/%s", maildir, unique);
    FILE *file = fopen(tmp, "wxe");
    if (!file) {
        return false;
    }
    write_mail(file, t, unique);
    bool ok = fflush(file) == 0 && fsync(fileno(file)) == 0;
    return fclose(file) == 0 && ok && rename(tmp, new) == 0;
}

static void run(const char *maildir, int journal, const struct task *t)
{
    char unique[NAME_BYTES];
    note(journal, t, "start");
    /* as long as a mail server somewhere else takes */
    (void)nanosleep(&(struct timespec){.tv_nsec = (20 + t->id % 31) * 1000000}, NULL);
    if (deliver(maildir, t, unique)) {
        note(journal, t, "end");
        (void)printf("{\"id\":%lld,\"outcome\":\"done\",\"result\":{\"mail\":\"%s\"}}\n", t->id,
                     unique);
    } else {
        (void)printf("{\"id\":%lld,\"outcome\":\"failed\",\"error\":\"%s\"}\n", t->id,
                     strerror(errno));
    }
    (void)fflush(stdout);
}

static void take_line(const char *maildir, int journal, const char *line)
{
    struct task t;
    json_t *task = json_loads(line, 0, NULL);
    if (sscanf(line, "{\"id\":%lld,", &t.id) != 1) {
        (void)fprintf(stderr, "mailer: not a task line: %.200s\n", line);
        exit(1);
    }
    if (json_unpack(task, "{s:I, s:{s:I, s:s, s:s}}", "attempt", &t.attempt, "payload", "user",
                    &t.user, "email", &t.email, "name", &t.name) == 0) {
        run(maildir, journal, &t);
    } else {
        (void)printf("{\"id\":%lld,\"outcome\":\"dead\","
                     "\"error\":\"not the payload of a welcome mail\"}\n",
                     t.id);
        (void)fflush(stdout);
    }
    json_decref(task);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fputs("usage: mailer MAILDIR JOURNAL\n", stderr);
        return 64;
    }
    char *line = NULL;
    size_t size = 0;
    int journal = open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    worker_pid = getppid();
    if (journal < 0) {
        perror("mailer: could not open the journal");
        return 1;
    }
    (void)puts("{\"hello\":\"tenon\"}");
    (void)fflush(stdout);
    while (getline(&line, &size, stdin) > 0) {
        take_line(argv[1], journal, line);
    }
    free(line);
    return 0;
}
