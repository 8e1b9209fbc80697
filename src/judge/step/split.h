/* split.h - where a step's time went, rank by rank.
 *
 * Every moment of a rank's step is one thing: device computing; in a collective, waiting for
 * peers or transferring; launched work that does not run; or the host alone, in some phase,
 * with the device idle.  What overlaps counts for the first of these that applies, so the
 * parts add up to the step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STEP_SPLIT_H
#define LOCKSTEP_JUDGE_STEP_SPLIT_H

#include <stdint.h>

#include "judge/step/model.h"
#include "lockstep/probe.h"

struct rank_split {
    int64_t begin_ns; /* common clock */
    int64_t total_ns; /* step begin to the next step's begin */
    int64_t compute_ns, wait_ns, transfer_ns;
    int64_t
        queued_ns; /* nothing runs though work is launched: overhead, or a starved driver thread */
    int64_t host_ns[LOCKSTEP_PHASE_COUNT]; /* device idle, host in this phase; 0: in none */
    int64_t tail_ns;                       /* between the step's end and the next begin */
    int64_t cpu_ns, delay_ns, throttled_ns, major_faults;
    double tokens, squares;
    bool has_lengths, present;
    bool unfinished; /* the step, or an op of it, had not ended when its rank did */
};

/* Work of the rank itself, not of the input or the checkpoint: what its peers must match. */
int64_t split_local_ns(const struct rank_split *split);
int64_t split_host_ns(const struct rank_split *split); /* its part with the device idle */
/* The parts that history_part_ms() and its like are asked for. */
int64_t split_compute_ns(const struct rank_split *split);
int64_t split_transfer_ns(const struct rank_split *split);
int64_t split_input_ns(const struct rank_split *split);
int64_t split_starved_ns(const struct rank_split *split); /* runnable, but without a CPU */
bool split_tells_cpu(const struct rank_split *split);     /* else that is not known, and not 0 */

struct meeting { /* one instance of a collective, or one pair of send and receive */
    int64_t last_arrival_ns, shortest_ns; /* common clock; shortest stay of a member */
    uint32_t members;
};

struct splitter; /* scratch that is kept from step to step */
int splitter_create(struct splitter **ret);
void splitter_destroy(struct splitter *splitter);
void splitter_clear(struct splitter *splitter); /* the model's shapes are others now */
size_t splitter_bytes(const struct splitter *splitter);

/* Fills split[0 … world-1].  -ENOMEM. */
int split_step(struct splitter *splitter, const struct model *model,
               const struct job_step *job_step, struct rank_split *split);

/* Of the step that was split last: by item of the rank, the number of its meeting, equal for all
 * members and below split_meetings(); MODEL_NONE: it has none.
 */
const uint32_t *split_numbers(const struct splitter *splitter, uint32_t rank);
uint32_t split_meetings(const struct splitter *splitter);
const struct meeting *split_meeting_base(const struct splitter *splitter); /* number 0 */

#endif
