/* toy_model.h - a small network that really learns, cut as large ones are.
 *
 * A student of residual blocks, x + tanh(x W1) W2, learns a random teacher by SGD with
 * momentum.  Tensor parallelism cuts W1 by columns and W2 by rows, so that a block's output
 * (forward) and the gradient of its input (backward) are sums over the group; pipeline stages
 * hold consecutive blocks; data-parallel replicas see different samples.  All numbers follow
 * from seed and step alone, so a run that went on from a checkpoint equals one that was never
 * interrupted, bit by bit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_TRAINER_TOY_MODEL_H
#define LOCKSTEP_LAB_TRAINER_TOY_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define TOY_WIDTH 32
#define TOY_HIDDEN 64 /* at least; rounded up to a multiple of the tensor group */
#define TOY_ROWS 16   /* samples in a micro-batch */
#define TOY_CELLS ((size_t)TOY_ROWS * TOY_WIDTH)

struct toy_config {
    uint64_t seed;
    uint32_t tp, tp_index;
    uint32_t first_block, blocks; /* those of our stage */
    uint32_t micros;
};

struct toy_model {
    struct toy_config config;
    uint32_t hidden; /* columns of W1 that are ours */
    size_t params;   /* floats, of all our blocks */
    float *param, *grad, *momentum;
    float *x;      /* [micro][block + 1][cells]: what goes into a block; the last comes out */
    float *h;      /* [micro][block][rows * hidden] */
    float *dy;     /* [micro][cells]: gradient on its way back */
    float *target; /* [micro][cells], used by the last stage */
    float *part;   /* [cells]: our share of a sum over the tensor group */
    double loss;   /* summed over this step's micro-batches */
};

int toy_init(struct toy_model *toy, const struct toy_config *config); /* -ENOMEM */
void toy_free(struct toy_model *toy);

/* The samples of one micro-batch: inputs and what the teacher says to them. */
void toy_sample(uint64_t seed, uint64_t step, uint32_t replica, uint32_t micro, float *input,
                float *target);

float *toy_input(const struct toy_model *toy, uint32_t micro); /* of our first block */
float *toy_output(const struct toy_model *toy, uint32_t micro);
float *toy_gradient(const struct toy_model *toy, uint32_t micro);

void toy_step_begin(struct toy_model *toy); /* forgets gradients and loss */
/* Each leaves its share in `part`; absorb adds the group's sum to what goes on. */
void toy_forward(struct toy_model *toy, uint32_t micro, uint32_t block);
void toy_forward_absorb(struct toy_model *toy, uint32_t micro, uint32_t block);
void toy_loss(struct toy_model *toy, uint32_t micro); /* the last stage, before its backward */
void toy_backward(struct toy_model *toy, uint32_t micro, uint32_t block);
void toy_backward_absorb(struct toy_model *toy, uint32_t micro);

/* Gradients of a run of blocks lie together: what a bucket reduces. */
float *toy_bucket(const struct toy_model *toy, uint32_t block, uint32_t blocks, size_t *count);
double toy_norm_squared(const struct toy_model *toy, double scale); /* of our gradients */
void toy_update(struct toy_model *toy, double scale); /* scale: replicas, and clipping */
void toy_flip(struct toy_model *toy, uint64_t where); /* one bit of one parameter */
void toy_digest(const struct toy_model *toy, uint64_t digest[2]);

#endif
