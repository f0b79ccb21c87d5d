/* How long a JSON text is as PostgreSQL prints it. It keeps numbers without exponents: [1e-16383]
 * is stored in little and printed in 16 KB, so that 2 MiB of them make a dump that nobody can
 * read. */
#ifndef TENON_WORKER_PRINTED_H
#define TENON_WORKER_PRINTED_H

#include <stddef.h>

/* At most this long, and exact but for escapes in strings, doubled keys and zeros in front.
 *   json   valid JSON of `bytes` bytes */
size_t printed_bytes(const char *json, size_t bytes);

#endif
