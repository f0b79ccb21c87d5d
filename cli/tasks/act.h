/* One act of many tasks, piece by piece: each piece is a transaction of its own, so that no lock is
 * held for long, and an interrupted command keeps what it has done. */
#ifndef TENON_CLI_ACT_H
#define TENON_CLI_ACT_H

#include "core/base/buf.h"
#include "core/db/db.h"
#include "core/options/option.h"

enum {
    ACT_PIECE_TASKS = 1000,
    ACT_PIECES_PER_S = 5, /* with a rate: each wakes the workers once */
    ACT_TRIES = 50,       /* of a piece that met a lock */
    ACT_TRY_MS = 200,
};

struct act {
    enum command command;
    const char *name;   /* as tenon.change has it */
    const char *done;   /* "retried" */
    const char *states; /* which it changes */
};

/* What it is about, and how far it has come. */
struct acting {
    const struct act *act;
    struct buf filter, changes;
    const char *why;
    int64_t rate;       /* tasks a second; 0 = as fast as it goes */
    int64_t total;      /* how many match beforehand; */
    bool at_least;      /* or more */
    bool any_runs;      /* of those that the preview shows */
    int64_t n, skipped; /* changed; found, and left as they were */
    char next[24];      /* "" = from the beginning */
    char audit[24];     /* "" = it has no row yet */
    int64_t started_ms, told_ms;
};

/* Go through all that fit. false: what failed; what was done before stays done. */
MUST_CHECK bool acting_run(struct acting *a, struct db *db, struct fault *f);

#endif
