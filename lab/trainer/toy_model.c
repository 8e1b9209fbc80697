/* toy_model.c - forward, backward and update of the small network.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/trainer/toy_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/rand.h"

#define TOY_RATE 0.05f
#define TOY_MOMENTUM 0.9f

static struct rand toy_rand(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    return (struct rand){ hash64_u64(hash64_u64(hash64_u64(seed, a), b), c) };
}

static float *toy_floats(size_t count)
{
    return calloc(count, sizeof(float));
}

static size_t toy_model_block_params(const struct toy_model *toy)
{
    return 2 * (size_t)TOY_WIDTH * toy->hidden;
}

static float *toy_model_block_w1(const struct toy_model *toy, float *base, uint32_t block)
{
    return base + block * toy_model_block_params(toy); /* [width][hidden] */
}

static float *toy_model_block_w2(const struct toy_model *toy, float *base, uint32_t block)
{
    return toy_model_block_w1(toy, base, block) +
           (size_t)TOY_WIDTH * toy->hidden; /* [hidden][width] */
}

/* Each weight is drawn by its place in the whole network, so that the cut does not matter. */
static void toy_draw(struct toy_model *toy)
{
    const struct toy_config *config = &toy->config;
    uint32_t first = config->tp_index * toy->hidden;
    float in = 1.0f / sqrtf(TOY_WIDTH);
    float out = 0.5f / sqrtf((float)toy->hidden * (float)config->tp);

    for (uint32_t block = 0; block < config->blocks; block++) {
        float *w1 = toy_model_block_w1(toy, toy->param, block),
              *w2 = toy_model_block_w2(toy, toy->param, block);

        for (uint32_t j = 0; j < toy->hidden; j++) {
            struct rand rand = toy_rand(config->seed, 1, config->first_block + block, first + j);

            for (uint32_t i = 0; i < TOY_WIDTH; i++)
                w1[i * toy->hidden + j] = in * (float)rand_normal(&rand);
            for (uint32_t i = 0; i < TOY_WIDTH; i++)
                w2[j * TOY_WIDTH + i] = out * (float)rand_normal(&rand);
        }
    }
}

int toy_init(struct toy_model *toy, const struct toy_config *config)
{
    size_t micros = config->micros;

    *toy = (struct toy_model){ .config = *config };
    toy->hidden = (TOY_HIDDEN + config->tp - 1) / config->tp;
    toy->params = config->blocks * toy_model_block_params(toy);
    toy->param = toy_floats(toy->params);
    toy->grad = toy_floats(toy->params);
    toy->momentum = toy_floats(toy->params);
    toy->x = toy_floats(micros * (config->blocks + 1) * TOY_CELLS);
    toy->h = toy_floats(micros * config->blocks * TOY_ROWS * toy->hidden);
    toy->dy = toy_floats(micros * TOY_CELLS);
    toy->target = toy_floats(micros * TOY_CELLS);
    toy->part = toy_floats(TOY_CELLS);
    if (!toy->param || !toy->grad || !toy->momentum || !toy->x || !toy->h || !toy->dy ||
        !toy->target || !toy->part) {
        toy_free(toy);
        return -ENOMEM;
    }
    toy_draw(toy);
    return 0;
}

void toy_free(struct toy_model *toy)
{
    free(toy->param);
    free(toy->grad);
    free(toy->momentum);
    free(toy->x);
    free(toy->h);
    free(toy->dy);
    free(toy->target);
    free(toy->part);
    *toy = (struct toy_model){ 0 };
}

static float *toy_x(const struct toy_model *toy, uint32_t micro, uint32_t block)
{
    return toy->x + ((size_t)micro * (toy->config.blocks + 1) + block) * TOY_CELLS;
}

static float *toy_h(const struct toy_model *toy, uint32_t micro, uint32_t block)
{
    return toy->h + ((size_t)micro * toy->config.blocks + block) * TOY_ROWS * toy->hidden;
}

float *toy_input(const struct toy_model *toy, uint32_t micro)
{
    return toy_x(toy, micro, 0);
}

float *toy_output(const struct toy_model *toy, uint32_t micro)
{
    return toy_x(toy, micro, toy->config.blocks);
}

float *toy_gradient(const struct toy_model *toy, uint32_t micro)
{
    return toy->dy + micro * TOY_CELLS;
}

/* out[rows][to] += in[rows][from] * w[from][to] */
static void toy_multiply(const float *in, const float *w, float *out, size_t from, size_t to)
{
    for (size_t row = 0; row < TOY_ROWS; row++)
        for (size_t i = 0; i < from; i++) {
            float value = in[row * from + i];

            for (size_t j = 0; j < to; j++)
                out[row * to + j] += value * w[i * to + j];
        }
}

/* out[rows][from] += in[rows][to] * transposed w[from][to] */
static void toy_model_multiply_back(const float *in, const float *w, float *out, size_t from,
                                    size_t to)
{
    for (size_t row = 0; row < TOY_ROWS; row++)
        for (size_t i = 0; i < from; i++) {
            float sum = 0;

            for (size_t j = 0; j < to; j++)
                sum += in[row * to + j] * w[i * to + j];
            out[row * from + i] += sum;
        }
}

/* grad[from][to] += transposed in[rows][from] * out[rows][to] */
static void toy_model_multiply_grad(const float *in, const float *out, float *grad, size_t from,
                                    size_t to)
{
    for (size_t row = 0; row < TOY_ROWS; row++)
        for (size_t i = 0; i < from; i++) {
            float value = in[row * from + i];

            for (size_t j = 0; j < to; j++)
                grad[i * to + j] += value * out[row * to + j];
        }
}

/* The teacher: x + tanh(x A) B / 2 with A and B drawn from the seed.  What it says is worked out
 * for each sample anew, as a loader would.
 */
void toy_sample(uint64_t seed, uint64_t step, uint32_t replica, uint32_t micro, float *input,
                float *target)
{
    struct rand rand = toy_rand(seed, 2, step, ((uint64_t)replica << 32) | micro);
    struct rand teacher = toy_rand(seed, 3, 0, 0);
    float a[TOY_WIDTH * TOY_WIDTH], b[TOY_WIDTH * TOY_WIDTH], h[TOY_CELLS] = { 0 };

    for (size_t i = 0; i < TOY_CELLS; i++)
        input[i] = (float)rand_normal(&rand);
    for (size_t i = 0; i < TOY_WIDTH * TOY_WIDTH; i++) {
        a[i] = (float)(2 * rand_unit(&teacher) - 1) / sqrtf(TOY_WIDTH / 3.0f);
        b[i] = (float)(2 * rand_unit(&teacher) - 1) / sqrtf(TOY_WIDTH / 3.0f);
    }
    toy_multiply(input, a, h, TOY_WIDTH, TOY_WIDTH);
    for (size_t i = 0; i < TOY_CELLS; i++)
        h[i] = tanhf(h[i]);
    memcpy(target, input, TOY_CELLS * sizeof(*target));
    toy_multiply(h, b, target, TOY_WIDTH, TOY_WIDTH);
}

void toy_step_begin(struct toy_model *toy)
{
    memset(toy->grad, 0, toy->params * sizeof(*toy->grad));
    toy->loss = 0;
}

void toy_forward(struct toy_model *toy, uint32_t micro, uint32_t block)
{
    float *h = toy_h(toy, micro, block);
    size_t cells = (size_t)TOY_ROWS * toy->hidden;

    memset(h, 0, cells * sizeof(*h));
    toy_multiply(toy_x(toy, micro, block), toy_model_block_w1(toy, toy->param, block), h, TOY_WIDTH,
                 toy->hidden);
    for (size_t i = 0; i < cells; i++)
        h[i] = tanhf(h[i]);
    memset(toy->part, 0, TOY_CELLS * sizeof(*toy->part));
    toy_multiply(h, toy_model_block_w2(toy, toy->param, block), toy->part, toy->hidden, TOY_WIDTH);
}

void toy_forward_absorb(struct toy_model *toy, uint32_t micro, uint32_t block)
{
    const float *in = toy_x(toy, micro, block);
    float *out = toy_x(toy, micro, block + 1);

    for (size_t i = 0; i < TOY_CELLS; i++)
        out[i] = in[i] + toy->part[i];
}

void toy_loss(struct toy_model *toy, uint32_t micro)
{
    const float *y = toy_output(toy, micro), *target = toy->target + micro * TOY_CELLS;
    float *dy = toy_gradient(toy, micro);
    float scale = 1.0f / (float)(TOY_ROWS * toy->config.micros);
    double sum = 0;

    for (size_t i = 0; i < TOY_CELLS; i++) {
        float off = y[i] - target[i];

        dy[i] = off * scale;
        sum += 0.5 * (double)off * (double)off;
    }
    toy->loss += sum * (double)scale;
}

void toy_backward(struct toy_model *toy, uint32_t micro, uint32_t block)
{
    const float *dy = toy_gradient(toy, micro), *h = toy_h(toy, micro, block);
    size_t cells = (size_t)TOY_ROWS * toy->hidden;
    float dh[TOY_ROWS * TOY_HIDDEN];

    memset(dh, 0, cells * sizeof(*dh));
    toy_model_multiply_grad(h, dy, toy_model_block_w2(toy, toy->grad, block), toy->hidden,
                            TOY_WIDTH);
    toy_model_multiply_back(dy, toy_model_block_w2(toy, toy->param, block), dh, toy->hidden,
                            TOY_WIDTH);
    for (size_t i = 0; i < cells; i++)
        dh[i] *= 1 - h[i] * h[i];
    toy_model_multiply_grad(toy_x(toy, micro, block), dh, toy_model_block_w1(toy, toy->grad, block),
                            TOY_WIDTH, toy->hidden);
    memset(toy->part, 0, TOY_CELLS * sizeof(*toy->part));
    toy_model_multiply_back(dh, toy_model_block_w1(toy, toy->param, block), toy->part, TOY_WIDTH,
                            toy->hidden);
}

void toy_backward_absorb(struct toy_model *toy, uint32_t micro)
{
    float *dy = toy_gradient(toy, micro);

    for (size_t i = 0; i < TOY_CELLS; i++)
        dy[i] += toy->part[i];
}

float *toy_bucket(const struct toy_model *toy, uint32_t block, uint32_t blocks, size_t *count)
{
    *count = blocks * toy_model_block_params(toy);
    return toy_model_block_w1(toy, toy->grad, block);
}

double toy_norm_squared(const struct toy_model *toy, double scale)
{
    double sum = 0;

    for (size_t i = 0; i < toy->params; i++)
        sum += (double)toy->grad[i] * (double)toy->grad[i];
    return sum * scale * scale;
}

void toy_update(struct toy_model *toy, double scale)
{
    for (size_t i = 0; i < toy->params; i++) {
        toy->momentum[i] = TOY_MOMENTUM * toy->momentum[i] + (float)scale * toy->grad[i];
        toy->param[i] -= TOY_RATE * toy->momentum[i];
    }
}

/* The second highest bit of the fraction: the value changes by a quarter or less, so training goes on and
 * nothing but the digest tells.
 */
void toy_flip(struct toy_model *toy, uint64_t where)
{
    float *param = &toy->param[where % toy->params];
    uint32_t bits;

    memcpy(&bits, param, sizeof(bits));
    bits ^= UINT32_C(1) << 21;
    memcpy(param, &bits, sizeof(bits));
}

void toy_digest(const struct toy_model *toy, uint64_t digest[2])
{
    digest[0] = toy->params;
    digest[1] = ~digest[0];
    for (size_t i = 0; i + 1 < toy->params; i += 2) { /* params is even */
        uint64_t word;

        memcpy(&word, &toy->param[i], sizeof(word));
        digest[0] = hash64_u64(digest[0], word);
        digest[1] = hash64_u64(digest[1] ^ digest[0], word);
    }
}
