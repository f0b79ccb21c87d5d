/* What goes wrong while the schedule is active, drawn every now and then from its plan. */
#ifndef TENON_TESTS_SIM_FAULTS_H
#define TENON_TESTS_SIM_FAULTS_H

struct sim;

void faults_plan(struct sim *s);
void faults_heal(struct sim *s); /* no more of them, and what is broken is mended */

#endif
