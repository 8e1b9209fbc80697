/* finding_counts.h - how many findings of each kind a node ever sent, for metrics.
 *
 * A finding that grows is sent again with the same id, so a frame counts only if its id is none of the newest ones of its
 * row.  Lines that programs wrote are not counted.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_NODES_FINDING_COUNTS_H
#define LOCKSTEP_CONTROL_NODES_FINDING_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "wire/finding.h"

#define FINDING_COUNTS_MAX 16384 /* rows; what comes after that is not counted */
#define FINDING_COUNTS_IDS 16    /* that may grow at a time: the GPUs of a node */

struct finding_count {
    char node[FACT_NAME];
    uint8_t kind;
    uint32_t xid; /* 0: all of the kind */
    uint64_t total;
    uint64_t newest[FINDING_COUNTS_IDS]; /* hashes of ids */
};

struct finding_counts {
    struct finding_count *row;
    size_t rows, room;
};

void finding_counts_fini(struct finding_counts *counts);
size_t finding_counts_bytes(const struct finding_counts *counts);
void finding_counts_add(struct finding_counts *counts, const struct finding *finding);

#endif
