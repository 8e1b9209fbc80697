/* others.h - how much of this machine is taken by who does not belong to us.
 *
 * Others are processes that do not descend from this one, and a hypervisor that runs other machines.  Kernel threads
 * are left out: they work for us as for anybody.  What is taken is told for each second, in cores.
 */
#ifndef LOCKSTEP_LAB_SCORE_OTHERS_H
#define LOCKSTEP_LAB_SCORE_OTHERS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/procs.h"

struct others;

int others_create(struct others **ret); /* -ENOMEM */
void others_destroy(struct others *others);
/* Looks around if a second has passed since the last time: call it often.  NULL is fine. */
void others_look(struct others *others);
/* The most that they took in a second since then, of the last seventeen minutes; 0: nothing is known. */
double others_most(const struct others *others, int64_t since_ns);

/* Ticks of those that are neither `us`, nor below it, nor the kernel's. */
uint64_t others_sum(struct procs *procs, pid_t us);
int others_parse_stolen(const char *text, uint64_t *ticks); /* /proc/stat, ended by NUL; -EPROTO */

#endif
