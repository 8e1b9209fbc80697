/* lab_frames.c - puts the facts of the made-up job, node by node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/test/lab_frames.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clean.h"

void lab_frames_fini(struct lab_frames *frames)
{
    for (size_t i = 0; i < frames->count; i++)
        free(frames->frame[i].payload);
    free(frames->frame);
    *frames = (struct lab_frames){ 0 };
}

/* Takes the bytes. */
static void frames_add(struct lab_frames *frames, uint16_t type, uint32_t sender,
                       struct buf *payload)
{
    bool fits = ARRAY_FIT(frames->frame, frames->room, frames->count + 1);

    assert(fits);
    (void)fits;
    assert(!payload->failed);
    frames->frame[frames->count++] =
        (struct lab_frame){ type, sender, payload->data, payload->size };
    *payload = (struct buf){ 0 };
}

void lab_frames_run(struct lab_frames *frames, const struct lab *lab, unsigned event,
                    int64_t mono_ns, int status)
{
    const struct fact_run fact = { .event = (uint8_t)event,
                                   .attempt = lab->attempt,
                                   .ranks = lab->world,
                                   .culprit = -1,
                                   .status = status,
                                   .mono_ns = mono_ns };
    struct buf payload = { 0 };

    fact_run_put(&payload, &fact);
    frames_add(frames, FRAME_RUN, LAB_LAUNCHER, &payload);
}

void lab_frames_exit(struct lab_frames *frames, const struct lab *lab, uint32_t rank,
                     int64_t mono_ns, int status, bool ended_by_launcher)
{
    struct fact_exit fact = { .rank = rank,
                              .attempt = lab->attempt,
                              .mono_ns = mono_ns,
                              .status = status,
                              .ended_by_launcher = ended_by_launcher };
    struct buf payload = { 0 };

    snprintf(fact.text, sizeof(fact.text), "ended with %d", status);
    fact_exit_put(&payload, &fact);
    frames_add(frames, FRAME_EXIT, LAB_LAUNCHER, &payload);
}

void lab_frames_begin(struct lab_frames *frames, const struct lab *lab)
{
    if (lab->attempt == 0)
        lab_frames_run(frames, lab, RUN_BEGIN, 0, 0);
    lab_frames_run(frames, lab, RUN_ATTEMPT_BEGIN, lab->rank[0].begin_ns - 600000000, 0);
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        struct buf payload = { 0 };
        struct fact_ring ring;
        struct fact_comm comm;

        lab_ring(lab, rank, &ring);
        fact_ring_put(&payload, &ring);
        frames_add(frames, FRAME_RING, lab_node(lab, rank), &payload);
        for (uint32_t i = 0; lab_comm(lab, rank, i, &comm); i++) {
            fact_comm_put(&payload, &comm);
            frames_add(frames, FRAME_COMM, lab_node(lab, rank), &payload);
        }
    }
    lab_frames_shapes(frames, lab);
}

void lab_frames_shapes(struct lab_frames *frames, const struct lab *lab)
{
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        struct buf payload = { 0 };

        fact_shape_put(&payload, &lab->rank[rank].shape);
        frames_add(frames, FRAME_SHAPE, lab_node(lab, rank), &payload);
    }
}

void lab_frames_step(struct lab_frames *frames, const struct lab *lab)
{
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        struct buf payload = { 0 };
        struct fact_step fact;

        lab_fact(lab, rank, &fact);
        fact_step_put(&payload, &fact, &lab->rank[rank].shape);
        frames_add(frames, FRAME_STEP, lab_node(lab, rank), &payload);
    }
}
