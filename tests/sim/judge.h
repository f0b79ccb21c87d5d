/* The cleaner's verdict on workers, behind a name of its own: the worker's decider has another
 * verdict. */
#ifndef TENON_TESTS_SIM_JUDGE_H
#define TENON_TESTS_SIM_JUDGE_H

#include <stdint.h>

struct judge;

struct judge *judge_new(void);
void judge_free(struct judge *j);
void judge_start(struct judge *j, int64_t now_ms);
void judge_forget(struct judge *j);
void judge_lock_is_free(struct judge *j, int worker, int64_t now_ms);
/* ret: how many are dead; their numbers go to `workers` */
int judge_end(struct judge *j, int64_t now_ms, int *workers);
/* ret: when to check again, INT64_MAX = nobody is a suspect */
int64_t judge_next_ms(const struct judge *j, int64_t now_ms);

#endif
