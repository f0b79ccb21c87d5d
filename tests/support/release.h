/* Databases as releases left them (tests/releases), and programs of two versions. */
#ifndef TENON_TESTS_SUPPORT_RELEASE_H
#define TENON_TESTS_SUPPORT_RELEASE_H

#include "tests/support/process.h"

enum { RELEASES_MAX = 100, RELEASE_PATH_BYTES = 64 };

/* The kept databases, tests/releases/VERSION.sql, the oldest first; returns how many. */
size_t releases_find(char ret[RELEASES_MAX][RELEASE_PATH_BYTES]);

/* The schema of the fixture's database becomes that of a kept one, with all its data, as a copy
 * that was adopted. */
void release_restore(struct fixture *fx, const char *path);

/* As TENON() and TENON_RUN(), with a program of another version. */
#define PROGRAM(fx, program, ...)                                                                  \
    process_spawn((fx), (const char *const[]){(program), __VA_ARGS__, NULL}, NULL)

/* Wait for its end, and compare its exit code and a part of what it says, on stdout or stderr. */
void program_says(struct process *p, int code, const char *part);

#endif
