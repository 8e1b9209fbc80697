/* lanes.c - the table of what ranks computed and communicated.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/lanes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

int lanes_add(struct lanes *lanes, const struct lane_op *op)
{
    if (!ARRAY_FIT(lanes->op, lanes->room, lanes->count + 1))
        return -ENOMEM;
    lanes->op[lanes->count++] = *op;
    return 0;
}

uint32_t lanes_kind(struct lanes *lanes, const char *name)
{
    if (!lanes->kinds)
        snprintf(lanes->kind[lanes->kinds++], sizeof(lanes->kind[0]), "compute");
    for (uint32_t i = 0; i < lanes->kinds; i++) {
        if (strncmp(lanes->kind[i], name, sizeof(lanes->kind[0]) - 1) == 0)
            return i;
    }
    if (lanes->kinds == LANES_KINDS)
        return LANES_KINDS - 1;
    snprintf(lanes->kind[lanes->kinds], sizeof(lanes->kind[0]), "%s", name);
    return lanes->kinds++;
}

void lanes_fini(struct lanes *lanes)
{
    free(lanes->op);
    *lanes = (struct lanes){ 0 };
}
