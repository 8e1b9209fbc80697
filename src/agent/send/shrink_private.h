/* shrink_private.h - shared by the two files of shrinking: the frames of the spool, and what happens to each.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_SEND_SHRINK_PRIVATE_H
#define LOCKSTEP_AGENT_SEND_SHRINK_PRIVATE_H

#include <stddef.h>

#include "agent/send/shrink.h"
#include "core/map.h"
#include "wire/facts.h"
#include "wire/frame.h"

#define SHRINK_NONE UINT32_MAX

enum shrink_fate {
    SHRINK_STAYS,
    SHRINK_KNOWN, /* goes, the controller has it */
    SHRINK_GOES,  /* into its block; a beat: without a trace */
    SHRINK_BARE,  /* its ops go, its numbers stay */
};

struct shrink_item { /* a frame that may go */
    uint64_t place;  /* in the file */
    uint64_t ring;   /* of a step or a beat */
    uint64_t step;
    uint32_t bytes, attempt, rank, rank_end;
    uint32_t block;
    uint16_t type;
    bool acknowledged, still;
    bool numbers;        /* a step with a loss, a norm or a digest */
    bool odd;            /* one of them is not finite */
    bool may_go;         /* what it would have become, had numbers been no reason to stay */
    uint32_t bare_bytes; /* when its ops are gone */
    bool mark;           /* merged, of no steps */
    bool closes;         /* the merged frame takes its place */
    enum shrink_fate fate;
};

struct shrink_block {
    struct fact_merged merged;
};

struct shrink {
    const struct shrink_settings *settings;
    struct shrink_item *item;
    size_t items, room;
    uint64_t frames;   /* in the file */
    uint64_t sent_end; /* those before this place may be with the controller */
    struct shrink_block *block;
    uint32_t blocks;
    struct map shape; /* hash → place */
    struct fact_shape *shapes;
    size_t shape_count, shape_room;
    int64_t clock_ns; /* real minus monotonic, by the newest hello */
    uint64_t dropped; /* frames that went since the last merged one */
    struct shrink_counts counts;
};

void shrink_fini(struct shrink *shrink);
int shrink_plan(struct shrink *shrink); /* sets fates and blocks; -ENOMEM */

struct shrink_part { /* of a rank */
    uint32_t rank, steps;
    int64_t local_ns, most_ns; /* mean, and of the longest */
};
/* `span`: the steps that it is of, their begin and the longest one's duration. */
int shrink_fold(struct shrink_block *block, const struct fact_merged *span,
                const struct shrink_part *part, uint32_t parts);

#endif
