/* Texts of limited length. */
#ifndef TENON_CORE_TEXT_H
#define TENON_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Copy `text` into `to`, which has room for `size` bytes, at least 16. One that does not fit loses
 * its middle to " ... ": the beginning says what failed, and the end of a Python traceback, as of
 * most programs' last words, says why. No UTF-8 character is cut. */
void text_shorten(char *to, size_t size, const char *text);

/* The first byte of `text` that begins a character. */
const char *text_whole(const char *text);

/* The length of the UTF-8 sequence at `s`, of which `len` bytes are there; 0 when it is none
 * (overlong forms, surrogates and values above U+10FFFF are none). */
size_t text_sequence(const unsigned char *s, size_t len);

bool text_is_utf8(const char *text);

/* The code point of the sequence of `n` bytes at `s`, if a terminal or a browser acts upon it
 * instead of showing it: C1 controls, the line and paragraph separators, and Unicode's marks,
 * embeddings, overrides and isolates of direction (UAX 9). Else 0; also of ASCII. */
unsigned text_unshown(const unsigned char *s, size_t n);

#endif
