/* finding_counts.c - one row for each node and kind, and for each node and Xid.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/nodes/finding_counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

void finding_counts_fini(struct finding_counts *counts)
{
    free(counts->row);
    *counts = (struct finding_counts){ 0 };
}

size_t finding_counts_bytes(const struct finding_counts *counts)
{
    return counts->room * sizeof(*counts->row);
}

static struct finding_count *finding_counts_row(struct finding_counts *counts,
                                                const struct finding *finding, uint32_t xid)
{
    struct finding_count *row;

    for (size_t i = counts->rows; i-- > 0;) { /* what comes often came lately */
        row = &counts->row[i];
        if (row->kind == finding->kind && row->xid == xid && strcmp(row->node, finding->node) == 0)
            return row;
    }
    if (counts->rows == FINDING_COUNTS_MAX ||
        !ARRAY_FIT(counts->row, counts->room, counts->rows + 1))
        return NULL;
    row = &counts->row[counts->rows++];
    *row = (struct finding_count){ .kind = finding->kind, .xid = xid };
    snprintf(row->node, sizeof(row->node), "%s", finding->node);
    return row;
}

static void finding_count_add(struct finding_count *row, uint64_t id)
{
    for (size_t i = 0; i < FINDING_COUNTS_IDS; i++) {
        if (row->newest[i] == id)
            return;
    }
    row->newest[row->total++ % FINDING_COUNTS_IDS] = id;
}

void finding_counts_add(struct finding_counts *counts, const struct finding *finding)
{
    uint64_t id = hash64(1, finding->id, strlen(finding->id));
    struct finding_count *row;

    if (finding->origin == FINDING_FROM_USER)
        return;
    row = finding_counts_row(counts, finding, 0);
    if (row)
        finding_count_add(row, id);
    row = finding->kind == FINDING_XID && finding->code
              ? finding_counts_row(counts, finding, finding->code)
              : NULL;
    if (row)
        finding_count_add(row, id);
}
