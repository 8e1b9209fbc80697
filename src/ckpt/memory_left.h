/* memory_left.h - how much memory this process may still take.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_MEMORY_LEFT_H
#define LOCKSTEP_CKPT_MEMORY_LEFT_H

#include <stdint.h>

/* Of the machine, and of the control groups of this process; bytes.  What the page cache holds counts as left: the kernel gives it
 * away, and the groups of trainings that read files are always full of it.
 */
uint64_t memory_left(void);

#endif
