/* The first process of a container, or a subreaper, inherits every process whose parent has died.
 * It must reap it, or the process stays as a zombie and keeps its number. */
#ifndef TENON_CLI_REAPER_H
#define TENON_CLI_REAPER_H

/* If this process is one: continue in a child, while the parent reaps all that ends, hands
 * signals on, and ends as the child does. Elsewhere nothing happens. Before any thread, and before
 * anything is opened. */
void reaper_start(void);

#endif
