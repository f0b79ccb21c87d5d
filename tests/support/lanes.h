/* A test program of many tests that mostly wait, run as several processes of itself. */
#ifndef TENON_TESTS_SUPPORT_LANES_H
#define TENON_TESTS_SUPPORT_LANES_H

/* Which of those processes this is, 0..n-1; -1 = the first one, that starts them. */
int lanes_number(void);

/* Start `n` of them, and print what each said when it has ended. ret: how many failed. */
int lanes_run(int n);

#endif
