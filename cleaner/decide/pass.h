/* A pass over tenon.task, piece by piece, so that no statement reads the whole table.
 *
 * The pieces go round: a pass that is wanted while one is under way continues from where that one
 * is, and ends when it is there again. So workers that keep dying never keep it from the table's
 * end. */
#ifndef TENON_CLEANER_DECIDE_PASS_H
#define TENON_CLEANER_DECIDE_PASS_H

#include <stdbool.h>
#include <stdint.h>

enum { PASS_PIECE_BLOCKS = 500 /* 4 MB, some 10,000 tasks: about 10 ms */ };

struct pass {
    bool goes_on;
    int64_t block; /* where the next piece begins */
    int64_t until; /* where it began */
    bool turned;   /* it has been at the table's end since */
};

/* All blocks are to be read from now on. */
void pass_want(struct pass *p);

/* The piece cannot be read: the next one is due. */
void pass_skip(struct pass *p);

/* A piece was read, of a table of `blocks`. */
void pass_read(struct pass *p, int64_t blocks);

#endif
