/* names.c - phases and operations in words. */
#include "wire/names.h"

#include "lockstep/probe.h"

static const char *const phases[LOCKSTEP_PHASE_COUNT] = {
    "no phase", "init",      "comm-init",  "compile",    "data", "forward",
    "backward", "optimizer", "checkpoint", "evaluation", "gc",   "other",
};

static const char *const ops[LOCKSTEP_OP_COUNT] = {
    "operation", "all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce",  "all-to-all",
    "barrier",   "gather",     "scatter",        "operation",  "send",      "receive",
};

const char *name_of_phase(unsigned phase)
{
    return phase < LOCKSTEP_PHASE_COUNT ? phases[phase] : "unknown";
}

const char *name_of_op(unsigned op)
{
    return op < LOCKSTEP_OP_COUNT ? ops[op] : "operation";
}
