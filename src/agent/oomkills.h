/* oomkills.h - how often the kernel ended somebody in a process's memory group. */
#ifndef LOCKSTEP_AGENT_OOMKILLS_H
#define LOCKSTEP_AGENT_OOMKILLS_H

#include <stdint.h>
#include <sys/types.h>

struct oomkills;

/* Below `root`, which must stay, lie /proc and /sys; NULL: where they are.  Returns NULL: no memory. */
struct oomkills *oomkills_create(const char *root);
void oomkills_destroy(struct oomkills *kills);
/* Once a second: the process may have been moved to another group. */
void oomkills_follow(struct oomkills *kills, pid_t pid);
/* Since it is followed; the process itself may have ended. */
uint32_t oomkills_count(struct oomkills *kills);

#endif
