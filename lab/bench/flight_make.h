/* flight_make.h - the flight-recorder dumps of a large job that hangs, as its ranks would write them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_FLIGHT_MAKE_H
#define LOCKSTEP_LAB_BENCH_FLIGHT_MAKE_H

#include <stdint.h>

#include "core/err.h"

#define FLIGHT_TP 8 /* ranks of a tensor-parallel group */

/* `ranks` is a multiple of FLIGHT_TP.  Each has recorded about `ops`, with eight frames of stack; one rank has
 * not entered a tensor-parallel collective, its seven neighbours wait there, all others in the data-parallel
 * one that follows.  Pickles of protocol 2, DIRECTORY/nccl_trace_rank_N; returns their bytes.
 */
int64_t flight_make(const char *directory, uint32_t ranks, uint32_t ops, uint32_t culprit,
                    struct err *err);

#endif
