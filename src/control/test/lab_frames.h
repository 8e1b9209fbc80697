/* lab_frames.h - the made-up job as frames: what its agents and its launcher would send.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_TEST_LAB_FRAMES_H
#define LOCKSTEP_CONTROL_TEST_LAB_FRAMES_H

#include "core/buf.h"
#include "judge/test/lab_step.h"
#include "wire/frame.h"

struct lab_frame {
    uint16_t type;
    uint32_t sender; /* its node; LAB_LAUNCHER */
    unsigned char *payload;
    size_t bytes;
};
#define LAB_LAUNCHER UINT32_MAX

struct lab_frames {
    struct lab_frame *frame;
    size_t count, room;
};

void lab_frames_fini(struct lab_frames *frames);
void lab_frames_begin(struct lab_frames *frames, const struct lab *lab); /* run, rings, comms */
void lab_frames_shapes(struct lab_frames *frames, const struct lab *lab);
void lab_frames_step(struct lab_frames *frames, const struct lab *lab); /* of all ranks */
void lab_frames_run(struct lab_frames *frames, const struct lab *lab, unsigned event,
                    int64_t mono_ns, int status);
void lab_frames_exit(struct lab_frames *frames, const struct lab *lab, uint32_t rank,
                     int64_t mono_ns, int status, bool ended_by_launcher);

#endif
