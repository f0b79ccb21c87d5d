/* What reads input that we did not write, as functions of bytes. Each target takes any bytes and
 * ends the process when something does not hold; libFuzzer (script/fuzz) and tests/core/fuzz_test.c
 * call them. Returns 0. */
#ifndef TENON_TESTS_FUZZ_FUZZ_H
#define TENON_TESTS_FUZZ_FUZZ_H

#include "core/base/fault.h"

#include <stdint.h>

int fuzz_delivery(const uint8_t *data, size_t size); /* AMQP frames, bodies of messages */
int fuzz_line(const uint8_t *data, size_t size);     /* JSON lines of a pool handler */
int fuzz_exec(const uint8_t *data, size_t size);     /* stdout and stderr of an exec handler */
int fuzz_config(const uint8_t *data, size_t size);   /* the config file */
int fuzz_handlers(const uint8_t *data, size_t size); /* the handlers file, and --handler */
int fuzz_url(const uint8_t *data, size_t size);      /* URLs of both servers */
int fuzz_value(const uint8_t *data, size_t size);    /* values of all options, durations */
int fuzz_text(const uint8_t *data, size_t size); /* array literals and JSON strings of any text */

/* End the process unless it holds. */
void fuzz_that(bool holds, const char *what);

/* false goes with a fault that has a text on one line, true with none. */
void fuzz_fault(bool ok, const struct fault *f);

/* It is one JSON object whose result PostgreSQL can store. */
void fuzz_reply(const char *reply);

/* The bytes as a string, free(); a NUL ends it, as everywhere. */
char *fuzz_string(const uint8_t *data, size_t size);

/* The bytes as a file; returns its path, which is valid until fuzz_file_close(). */
const char *fuzz_file_open(const uint8_t *data, size_t size);
void fuzz_file_close(void);

#endif
