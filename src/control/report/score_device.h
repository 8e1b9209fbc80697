/* score_device.h - the part of a score card that is about GPUs: what one can do at most, and what each did.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_SCORE_DEVICE_H
#define LOCKSTEP_CONTROL_REPORT_SCORE_DEVICE_H

#include <stddef.h>

#include "show/score_view.h"

/* FLOP/s of dense matrix products by the GPU's name ("NVIDIA H100 80GB HBM3"), as its maker publishes them, in "bf16", "fp16",
 * "fp8" or "tf32".  0: not known.
 */
double gpu_peak_flops(const char *name, const char *precision);

/* What the device did in a step, as its stamps say; *room is that of card->device.  0, or -ENOMEM. */
int score_device_add(struct score_card *card, size_t *room, const struct fact_step *fact,
                     const struct fact_shape *shape);
/* The shares of all ranks together, once all steps are added. */
void score_devices(struct score_card *card);

#endif
