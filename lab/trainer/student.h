/* student.h - a small network that really learns, cut as large ones are.
 *
 * A student of residual blocks, x + tanh(x W1) W2, learns a random teacher by SGD with
 * momentum.  Tensor parallelism cuts W1 by columns and W2 by rows, so that a block's output
 * (forward) and the gradient of its input (backward) are sums over the group; pipeline stages
 * hold consecutive blocks; data-parallel replicas see different samples.  All numbers follow
 * from seed and step alone, so a run that went on from a checkpoint equals one that was never
 * interrupted, bit by bit.
 */
#ifndef LOCKSTEP_LAB_TRAINER_STUDENT_H
#define LOCKSTEP_LAB_TRAINER_STUDENT_H

#include <stddef.h>
#include <stdint.h>

#define STUDENT_WIDTH 32
#define STUDENT_HIDDEN 64 /* at least; rounded up to a multiple of the tensor group */
#define STUDENT_ROWS 16   /* samples in a micro-batch */
#define STUDENT_CELLS ((size_t)STUDENT_ROWS * STUDENT_WIDTH)

struct student_config {
    uint64_t seed;
    uint32_t tp, tp_index;
    uint32_t first_block, blocks; /* those of our stage */
    uint32_t micros;
};

struct student {
    struct student_config config;
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

int student_init(struct student *student, const struct student_config *config); /* -ENOMEM */
void student_free(struct student *student);

/* The samples of one micro-batch: inputs and what the teacher says to them. */
void student_sample(uint64_t seed, uint64_t step, uint32_t replica, uint32_t micro, float *input,
                    float *target);

float *student_input(const struct student *student, uint32_t micro); /* of our first block */
float *student_output(const struct student *student, uint32_t micro);
float *student_gradient(const struct student *student, uint32_t micro);

void student_step_begin(struct student *student); /* forgets gradients and loss */
/* Each leaves its share in `part`; absorb adds the group's sum to what goes on. */
void student_forward(struct student *student, uint32_t micro, uint32_t block);
void student_forward_absorb(struct student *student, uint32_t micro, uint32_t block);
void student_loss(struct student *student,
                  uint32_t micro); /* the last stage, before its backward */
void student_backward(struct student *student, uint32_t micro, uint32_t block);
void student_backward_absorb(struct student *student, uint32_t micro);

/* Gradients of a run of blocks lie together: what a bucket reduces. */
float *student_bucket(const struct student *student, uint32_t block, uint32_t blocks,
                      size_t *count);
double student_norm_squared(const struct student *student, double scale); /* of our gradients */
void student_update(struct student *student, double scale); /* scale: replicas, and clipping */
void student_flip(struct student *student, uint64_t where); /* one bit of one parameter */
void student_digest(const struct student *student, uint64_t digest[2]);

#endif
