/* optrace.c - the table itself, and the names of its kinds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/optrace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

static const char *const kind_names[OPTRACE_KIND_COUNT] = {
    [OPTRACE_FORWARD] = "forward-compute",
    [OPTRACE_BACKWARD] = "backward-compute",
    [OPTRACE_GC] = "gc",
    [OPTRACE_LAYERNORM] = "layernorm-grads-all-reduce",
    [OPTRACE_EMBEDDING] = "embedding-grads-all-reduce",
    [OPTRACE_PARAMS] = "params-all-gather",
    [OPTRACE_GRADS] = "grads-reduce-scatter",
    [OPTRACE_SEPARATE] = "separate-grads-all-reduce",
    [OPTRACE_CLIP] = "optimizer-clip-main-grad",
    [OPTRACE_OPTIMIZER] = "optimizer",
    [OPTRACE_FORWARD_SEND] = "forward-send",
    [OPTRACE_FORWARD_RECV] = "forward-recv",
    [OPTRACE_BACKWARD_SEND] = "backward-send",
    [OPTRACE_BACKWARD_RECV] = "backward-recv",
};

const char *optrace_kind_name(unsigned kind)
{
    return kind < OPTRACE_KIND_COUNT ? kind_names[kind] : "unknown";
}

int optrace_kind_of(const char *name, size_t bytes)
{
    for (int i = 0; i < OPTRACE_KIND_COUNT; i++) {
        if (strlen(kind_names[i]) == bytes && memcmp(kind_names[i], name, bytes) == 0)
            return i;
    }
    return -1;
}

int optrace_add(struct optrace *trace, const struct optrace_row *row)
{
    if (!ARRAY_FIT(trace->row, trace->room, trace->count + 1))
        return -ENOMEM;
    trace->row[trace->count++] = *row;
    return 0;
}

void optrace_fini(struct optrace *trace)
{
    free(trace->row);
    *trace = (struct optrace){ 0 };
}
