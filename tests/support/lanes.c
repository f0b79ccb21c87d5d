#include "tests/support/lanes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LANES_MAX = 16 };

int lanes_number(void)
{
    const char *text = getenv("TEST_LANE");
    return text ? (int)strtol(text, NULL, 10) : -1;
}

static pid_t start(int number, int out)
{
    char text[12];
    (void)snprintf(text, sizeof text, "%d", number);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(out, STDERR_FILENO);
        (void)setenv("TEST_LANE", text, 1);
        (void)execl("/proc/self/exe", program_invocation_name, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void print(int out)
{
    char text[4096];
    ssize_t n;
    (void)lseek(out, 0, SEEK_SET);
    while ((n = read(out, text, sizeof text)) > 0) {
        (void)fwrite(text, 1, (size_t)n, stdout);
    }
    (void)close(out);
}

int lanes_run(int n)
{
    pid_t pids[LANES_MAX];
    int outs[LANES_MAX], failed = 0;
    n = n < LANES_MAX ? n : LANES_MAX;
    for (int i = 0; i < n; i++) {
        outs[i] = memfd_create("lane", MFD_CLOEXEC);
        pids[i] = start(i, outs[i]);
    }
    for (int i = 0; i < n; i++) {
        int status = 1;
        if (pids[i] < 0 || waitpid(pids[i], &status, 0) != pids[i] || status != 0) {
            failed++;
        }
        print(outs[i]);
    }
    return failed;
}
