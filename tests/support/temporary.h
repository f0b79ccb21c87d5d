/* Files and directories of a test, under $TMPDIR. They fail the test when they cannot be made. */
#ifndef TENON_TESTS_SUPPORT_TEMPORARY_H
#define TENON_TESTS_SUPPORT_TEMPORARY_H

#include <stddef.h>

enum { TEMPORARY_BYTES = 256 };

/* A file that holds `text`; the caller unlinks it. */
void temporary_file(const char *text, char ret_path[TEMPORARY_BYTES]);

/* An empty directory, whose name begins with `name`; the caller removes it. */
void temporary_directory(const char *name, char *ret_path, size_t size);

#endif
