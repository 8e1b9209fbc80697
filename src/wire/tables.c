/* tables.c - the neutral tables between the readers of dead jobs and their judges: rows are added, tables freed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "wire/dump.h"
#include "wire/lanes.h"
#include "wire/log_event.h"
#include "wire/optrace.h"
#include "wire/tool_report.h"

/* ---- lanes.h ---- */

int lanes_add(struct lanes *lanes, const struct lane_op *op)
{
    if (!ARRAY_FIT(lanes->op, lanes->room, lanes->count + 1))
        return -ENOMEM;
    lanes->op[lanes->count++] = *op;
    return 0;
}

int lanes_add_span(struct lanes *lanes, const struct lane_span *span)
{
    if (!ARRAY_FIT(lanes->span, lanes->span_room, lanes->spans + 1))
        return -ENOMEM;
    lanes->span[lanes->spans++] = *span;
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
    free(lanes->span);
    *lanes = (struct lanes){ 0 };
}

/* ---- optrace.h ---- */

static const char *const optrace_kinds[OPTRACE_KIND_COUNT] = {
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
    return kind < OPTRACE_KIND_COUNT ? optrace_kinds[kind] : "unknown";
}

int optrace_kind_of(const char *name, size_t bytes)
{
    for (int i = 0; i < OPTRACE_KIND_COUNT; i++) {
        if (strlen(optrace_kinds[i]) == bytes && memcmp(optrace_kinds[i], name, bytes) == 0)
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

/* ---- dump.h, log_event.h, tool_report.h: readers fill these themselves ---- */

void dumps_fini(struct dumps *dumps)
{
    for (size_t i = 0; i < dumps->ranks; i++) {
        free(dumps->rank[i].op);
        free(dumps->rank[i].status);
    }
    for (size_t i = 0; i < dumps->groups; i++)
        free(dumps->group[i].member);
    free(dumps->rank);
    free(dumps->group);
    free(dumps->what);
    *dumps = (struct dumps){ 0 };
}

void logs_fini(struct logs *logs)
{
    free(logs->event);
    free(logs->rank);
    *logs = (struct logs){ 0 };
}

void reports_fini(struct reports *reports)
{
    free(reports->list);
    *reports = (struct reports){ 0 };
}
