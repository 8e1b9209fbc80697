/* layout.h - which rank is on which node.  Pure.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_LAYOUT_H
#define LOCKSTEP_BASE_LAYOUT_H

#include <stdint.h>

#define LAYOUT_RANKS_MAX 65536

struct layout {
    uint32_t ranks; /* 0: one command that is no rank */
    uint32_t nodes; /* at least 1; more than one are pretended, on this machine */
    char host[64];  /* the name of the only node */
};

/* Ranks in contiguous blocks; the first blocks are larger by one where it does not divide. */
uint32_t layout_first(const struct layout *layout, uint32_t node);
uint32_t layout_count(const struct layout *layout, uint32_t node);
uint32_t layout_node(const struct layout *layout, uint32_t rank);
/* "n0", "n1", …; of a single node the host's name. */
void layout_name(const struct layout *layout, uint32_t node, char ret[static 64]);

#endif
