/* run_frames.h - every frame of a run once: those of its log, then those that only its spools have.
 *
 *     run_frames_each(run_dir, call, arg, &err);
 *
 * Memory does not grow with the length of the run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_RUN_FRAMES_H
#define LOCKSTEP_CONTROL_REPORT_RUN_FRAMES_H

#include "core/err.h"
#include "wire/frame.h"

/* Not 0: enough; run_frames_each() returns it if it is negative, else 0. */
typedef int run_frames_call(void *arg, const struct frame *frame, struct err *err);

int run_frames_each(const char *run_dir, run_frames_call *call, void *arg, struct err *err);

#endif
