/* optrace.h - the steps of a job as a list of named ops, from op-level traces.
 *
 * One row is one op of one worker (a data-parallel index and a pipeline stage) in one step: a micro-batch's forward,
 * one send, one collective.  Readers fill the table (read/), the judge replays it (judge/compare/whatif.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_OPTRACE_H
#define LOCKSTEP_WIRE_OPTRACE_H

#include <stddef.h>
#include <stdint.h>

enum optrace_kind {
    OPTRACE_FORWARD,
    OPTRACE_BACKWARD,
    OPTRACE_GC,        /* after the last compute */
    OPTRACE_LAYERNORM, /* all-reduce of the layer norms' gradients, inside a stage */
    OPTRACE_EMBEDDING, /* all-reduce of the embedding's gradients, first and last stage */
    OPTRACE_PARAMS,    /* all-gather of the parameters, over data parallel */
    OPTRACE_GRADS,     /* reduce-scatter of the gradients, over data parallel */
    OPTRACE_SEPARATE,  /* all-reduce of what is left, where GRADS overlaps with backward */
    OPTRACE_CLIP,      /* all workers agree on the gradients' norm */
    OPTRACE_OPTIMIZER,
    OPTRACE_FORWARD_SEND,
    OPTRACE_FORWARD_RECV,
    OPTRACE_BACKWARD_SEND,
    OPTRACE_BACKWARD_RECV,
    OPTRACE_KIND_COUNT
};

struct optrace_row {
    int64_t step;
    int64_t start_ns, duration_ns; /* any origin, one for all rows of a step; durations >= 0 */
    uint32_t dp, stage, rank;
    uint32_t seq;   /* counts the ops of this kind in this worker and step */
    int32_t chunk;  /* the model chunk on this stage; -1: not known */
    int32_t gchunk; /* ... counted over all stages */
    uint8_t kind;   /* enum optrace_kind */
};

struct optrace {
    struct optrace_row *row;
    size_t count, room;
};

const char *optrace_kind_name(unsigned kind);        /* "forward-compute"; "unknown" out of range */
int optrace_kind_of(const char *name, size_t bytes); /* -1: no such kind */
int optrace_add(struct optrace *trace, const struct optrace_row *row); /* -ENOMEM */
void optrace_fini(struct optrace *trace);

#endif
