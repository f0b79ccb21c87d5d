/* Up to which id all notes for tenon.settle() are known to be settled (tenon.note_id in
 * sql/tables.sql), so that no statement reads the notes that were deleted below it.
 *
 * An id is handed out before its row is committed, so a lower one may appear later. A mark is the
 * last id handed out at some moment. At the next statement all transactions that may still commit
 * a note up to the mark have begun: they are below the next one to begin. When none of those is in
 * progress any more, the mark is reached, except for notes that are left. (A transaction whose
 * first write is a note takes the id just before it begins. For that, and in case of a fault here,
 * everything is read once in SETTLED_ALL_MS all the same.) */
#ifndef TENON_CLEANER_DECIDE_SETTLED_H
#define TENON_CLEANER_DECIDE_SETTLED_H

#include <stdint.h>

enum { SETTLED_ALL_MS = 60000 };

/* What a settle saw. */
struct settled_answer {
    int64_t from;  /* it read notes above this id */
    int64_t first; /* the first note that it left; 0 = none */
    int64_t last;  /* the last id handed out */
    int64_t xmin;  /* transactions below had ended when it began */
    int64_t next;  /* the next transaction to begin */
};

struct settled {
    int64_t id;     /* all notes up to this id are settled */
    int64_t mark;   /* 0 = none is waited for */
    int64_t until;  /* transactions below may commit notes up to the mark; 0 = not known yet */
    int64_t all_ms; /* when everything was read last */
};

/* From where to read now: notes above this id. */
int64_t settled_from(const struct settled *s, int64_t now_ms);

/* A settle ended well. */
void settled_answered(struct settled *s, const struct settled_answer *answer, int64_t now_ms);

#endif
