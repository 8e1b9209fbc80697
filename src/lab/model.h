/* model.h - a small network that really learns, cut as large ones are.
 *
 * A student of residual blocks, x + tanh(x W1) W2, learns a random teacher by SGD with
 * momentum.  Tensor parallelism cuts W1 by columns and W2 by rows, so that a block's output
 * (forward) and the gradient of its input (backward) are sums over the group; pipeline stages
 * hold consecutive blocks; data-parallel replicas see different samples.  All numbers follow
 * from seed and step alone, so a run that went on from a checkpoint equals one that was never
 * interrupted, bit by bit.
 */
#ifndef LOCKSTEP_LAB_MODEL_H
#define LOCKSTEP_LAB_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define MODEL_WIDTH 32
#define MODEL_HIDDEN 64 /* at least; rounded up to a multiple of the tensor group */
#define MODEL_ROWS 16   /* samples in a micro-batch */
#define MODEL_CELLS ((size_t)MODEL_ROWS * MODEL_WIDTH)

struct model_config {
    uint64_t seed;
    uint32_t tp, tp_index;
    uint32_t first_block, blocks, all_blocks; /* ours; all stages' together */
    uint32_t micros;
};

struct model {
    struct model_config config;
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

int model_init(struct model *model, const struct model_config *config); /* -ENOMEM */
void model_free(struct model *model);

/* The samples of one micro-batch: inputs and what the teacher says to them. */
void model_sample(uint64_t seed, uint64_t step, uint32_t replica, uint32_t micro, float *input,
                  float *target);

float *model_input(const struct model *model, uint32_t micro); /* of our first block */
float *model_output(const struct model *model, uint32_t micro);
float *model_gradient(const struct model *model, uint32_t micro);

void model_step_begin(struct model *model); /* forgets gradients and loss */
/* Each leaves its share in `part`; absorb adds the group's sum to what goes on. */
void model_forward(struct model *model, uint32_t micro, uint32_t block);
void model_forward_absorb(struct model *model, uint32_t micro, uint32_t block);
void model_loss(struct model *model, uint32_t micro); /* the last stage, before its backward */
void model_backward(struct model *model, uint32_t micro, uint32_t block);
void model_backward_absorb(struct model *model, uint32_t micro);

/* Gradients of a run of blocks lie together: what a bucket reduces. */
float *model_bucket(const struct model *model, uint32_t block, uint32_t blocks, size_t *count);
double model_norm_squared(const struct model *model, double scale); /* of our gradients */
void model_update(struct model *model, double scale); /* scale: replicas, and clipping */
void model_digest(const struct model *model, uint64_t digest[2]);

#endif
