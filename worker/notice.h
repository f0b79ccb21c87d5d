/* What a NOTIFY on tenon_wakeup says (cleaner/wake.sql), and the list of paused kinds. */
#ifndef TENON_WORKER_NOTICE_H
#define TENON_WORKER_NOTICE_H

#include "worker/handler.h"

/* For how many tasks it is; 0 = it does not say. */
size_t notice_tasks(const char *words);

/* Does the worker serve one of "N queue/kind queue/kind ..."? None means all. */
bool notice_concerns(const struct served *s, const char *words);

/* Is the kind in a list such as "mail,sms"? "*" means all kinds. */
bool notice_lists(const char *list, const char *kind);

#endif
