/* Applications: transactions that enqueue, commit late or roll back, cancel, and hold row locks;
 * producers that publish, too early, twice, or never; somebody who publishes rubbish. */
#ifndef TENON_TESTS_SIM_APPS_H
#define TENON_TESTS_SIM_APPS_H

#include "tests/sim/statements.h"

enum { APPS_MAX = 256, APP_ROWS_MAX = 8 };

enum app_act { APP_ENQUEUE, APP_CANCEL, APP_LOCK };

struct app {
    enum app_act act;
    int64_t session, id; /* id: the task it cancels or locks */
    int n_rows;
    int64_t rows[APP_ROWS_MAX]; /* that it enqueued */
    bool commits;
};

struct apps {
    int n, n_left; /* transactions in all, and not ended */
    struct app list[APPS_MAX];
};

void apps_plan(struct sim *s); /* all of the schedule's */

#endif
