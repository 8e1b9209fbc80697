/* model.c - forward, backward and update of the small network. */
#include "lab/model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/rand.h"

#define MODEL_RATE 0.05f
#define MODEL_MOMENTUM 0.9f

static struct rand model_rand(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    return (struct rand){ hash64_u64(hash64_u64(hash64_u64(seed, a), b), c) };
}

static float *floats(size_t count)
{
    return calloc(count, sizeof(float));
}

static size_t block_params(const struct model *model)
{
    return 2 * (size_t)MODEL_WIDTH * model->hidden;
}

static float *block_w1(const struct model *model, float *base, uint32_t block)
{
    return base + block * block_params(model); /* [width][hidden] */
}

static float *block_w2(const struct model *model, float *base, uint32_t block)
{
    return block_w1(model, base, block) + (size_t)MODEL_WIDTH * model->hidden; /* [hidden][width] */
}

/* Each weight is drawn by its place in the whole network, so that the cut does not matter. */
static void model_draw(struct model *model)
{
    const struct model_config *config = &model->config;
    uint32_t first = config->tp_index * model->hidden;
    float in = 1.0f / sqrtf(MODEL_WIDTH);
    float out = 0.5f / sqrtf((float)model->hidden * (float)config->tp);

    for (uint32_t block = 0; block < config->blocks; block++) {
        float *w1 = block_w1(model, model->param, block),
              *w2 = block_w2(model, model->param, block);

        for (uint32_t j = 0; j < model->hidden; j++) {
            struct rand rand = model_rand(config->seed, 1, config->first_block + block, first + j);

            for (uint32_t i = 0; i < MODEL_WIDTH; i++)
                w1[i * model->hidden + j] = in * (float)rand_normal(&rand);
            for (uint32_t i = 0; i < MODEL_WIDTH; i++)
                w2[j * MODEL_WIDTH + i] = out * (float)rand_normal(&rand);
        }
    }
}

int model_init(struct model *model, const struct model_config *config)
{
    size_t micros = config->micros;

    *model = (struct model){ .config = *config };
    model->hidden = (MODEL_HIDDEN + config->tp - 1) / config->tp;
    model->params = config->blocks * block_params(model);
    model->param = floats(model->params);
    model->grad = floats(model->params);
    model->momentum = floats(model->params);
    model->x = floats(micros * (config->blocks + 1) * MODEL_CELLS);
    model->h = floats(micros * config->blocks * MODEL_ROWS * model->hidden);
    model->dy = floats(micros * MODEL_CELLS);
    model->target = floats(micros * MODEL_CELLS);
    model->part = floats(MODEL_CELLS);
    if (!model->param || !model->grad || !model->momentum || !model->x || !model->h || !model->dy ||
        !model->target || !model->part) {
        model_free(model);
        return -ENOMEM;
    }
    model_draw(model);
    return 0;
}

void model_free(struct model *model)
{
    free(model->param);
    free(model->grad);
    free(model->momentum);
    free(model->x);
    free(model->h);
    free(model->dy);
    free(model->target);
    free(model->part);
    *model = (struct model){ 0 };
}

static float *model_x(const struct model *model, uint32_t micro, uint32_t block)
{
    return model->x + ((size_t)micro * (model->config.blocks + 1) + block) * MODEL_CELLS;
}

static float *model_h(const struct model *model, uint32_t micro, uint32_t block)
{
    return model->h + ((size_t)micro * model->config.blocks + block) * MODEL_ROWS * model->hidden;
}

float *model_input(const struct model *model, uint32_t micro)
{
    return model_x(model, micro, 0);
}

float *model_output(const struct model *model, uint32_t micro)
{
    return model_x(model, micro, model->config.blocks);
}

float *model_gradient(const struct model *model, uint32_t micro)
{
    return model->dy + micro * MODEL_CELLS;
}

/* out[rows][to] += in[rows][from] * w[from][to] */
static void multiply(const float *in, const float *w, float *out, size_t from, size_t to)
{
    for (size_t row = 0; row < MODEL_ROWS; row++)
        for (size_t i = 0; i < from; i++) {
            float value = in[row * from + i];

            for (size_t j = 0; j < to; j++)
                out[row * to + j] += value * w[i * to + j];
        }
}

/* out[rows][from] += in[rows][to] * transposed w[from][to] */
static void multiply_back(const float *in, const float *w, float *out, size_t from, size_t to)
{
    for (size_t row = 0; row < MODEL_ROWS; row++)
        for (size_t i = 0; i < from; i++) {
            float sum = 0;

            for (size_t j = 0; j < to; j++)
                sum += in[row * to + j] * w[i * to + j];
            out[row * from + i] += sum;
        }
}

/* grad[from][to] += transposed in[rows][from] * out[rows][to] */
static void multiply_grad(const float *in, const float *out, float *grad, size_t from, size_t to)
{
    for (size_t row = 0; row < MODEL_ROWS; row++)
        for (size_t i = 0; i < from; i++) {
            float value = in[row * from + i];

            for (size_t j = 0; j < to; j++)
                grad[i * to + j] += value * out[row * to + j];
        }
}

/* The teacher: x + tanh(x A) B / 2 with A and B drawn from the seed.  What it says is worked out
 * for each sample anew, as a loader would.
 */
void model_sample(uint64_t seed, uint64_t step, uint32_t replica, uint32_t micro, float *input,
                  float *target)
{
    struct rand rand = model_rand(seed, 2, step, ((uint64_t)replica << 32) | micro);
    struct rand teacher = model_rand(seed, 3, 0, 0);
    float a[MODEL_WIDTH * MODEL_WIDTH], b[MODEL_WIDTH * MODEL_WIDTH], h[MODEL_CELLS] = { 0 };

    for (size_t i = 0; i < MODEL_CELLS; i++)
        input[i] = (float)rand_normal(&rand);
    for (size_t i = 0; i < MODEL_WIDTH * MODEL_WIDTH; i++) {
        a[i] = (float)(2 * rand_unit(&teacher) - 1) / sqrtf(MODEL_WIDTH / 3.0f);
        b[i] = (float)(2 * rand_unit(&teacher) - 1) / sqrtf(MODEL_WIDTH / 3.0f);
    }
    multiply(input, a, h, MODEL_WIDTH, MODEL_WIDTH);
    for (size_t i = 0; i < MODEL_CELLS; i++)
        h[i] = tanhf(h[i]);
    memcpy(target, input, MODEL_CELLS * sizeof(*target));
    multiply(h, b, target, MODEL_WIDTH, MODEL_WIDTH);
}

void model_step_begin(struct model *model)
{
    memset(model->grad, 0, model->params * sizeof(*model->grad));
    model->loss = 0;
}

void model_forward(struct model *model, uint32_t micro, uint32_t block)
{
    float *h = model_h(model, micro, block);
    size_t cells = (size_t)MODEL_ROWS * model->hidden;

    memset(h, 0, cells * sizeof(*h));
    multiply(model_x(model, micro, block), block_w1(model, model->param, block), h, MODEL_WIDTH,
             model->hidden);
    for (size_t i = 0; i < cells; i++)
        h[i] = tanhf(h[i]);
    memset(model->part, 0, MODEL_CELLS * sizeof(*model->part));
    multiply(h, block_w2(model, model->param, block), model->part, model->hidden, MODEL_WIDTH);
}

void model_forward_absorb(struct model *model, uint32_t micro, uint32_t block)
{
    const float *in = model_x(model, micro, block);
    float *out = model_x(model, micro, block + 1);

    for (size_t i = 0; i < MODEL_CELLS; i++)
        out[i] = in[i] + model->part[i];
}

void model_loss(struct model *model, uint32_t micro)
{
    const float *y = model_output(model, micro), *target = model->target + micro * MODEL_CELLS;
    float *dy = model_gradient(model, micro);
    float scale = 1.0f / (float)(MODEL_ROWS * model->config.micros);
    double sum = 0;

    for (size_t i = 0; i < MODEL_CELLS; i++) {
        float off = y[i] - target[i];

        dy[i] = off * scale;
        sum += 0.5 * (double)off * (double)off;
    }
    model->loss += sum * (double)scale;
}

void model_backward(struct model *model, uint32_t micro, uint32_t block)
{
    const float *dy = model_gradient(model, micro), *h = model_h(model, micro, block);
    size_t cells = (size_t)MODEL_ROWS * model->hidden;
    float dh[MODEL_ROWS * MODEL_HIDDEN];

    memset(dh, 0, cells * sizeof(*dh));
    multiply_grad(h, dy, block_w2(model, model->grad, block), model->hidden, MODEL_WIDTH);
    multiply_back(dy, block_w2(model, model->param, block), dh, model->hidden, MODEL_WIDTH);
    for (size_t i = 0; i < cells; i++)
        dh[i] *= 1 - h[i] * h[i];
    multiply_grad(model_x(model, micro, block), dh, block_w1(model, model->grad, block),
                  MODEL_WIDTH, model->hidden);
    memset(model->part, 0, MODEL_CELLS * sizeof(*model->part));
    multiply_back(dh, block_w1(model, model->param, block), model->part, MODEL_WIDTH,
                  model->hidden);
}

void model_backward_absorb(struct model *model, uint32_t micro)
{
    float *dy = model_gradient(model, micro);

    for (size_t i = 0; i < MODEL_CELLS; i++)
        dy[i] += model->part[i];
}

float *model_bucket(const struct model *model, uint32_t block, uint32_t blocks, size_t *count)
{
    *count = blocks * block_params(model);
    return block_w1(model, model->grad, block);
}

double model_norm_squared(const struct model *model, double scale)
{
    double sum = 0;

    for (size_t i = 0; i < model->params; i++)
        sum += (double)model->grad[i] * (double)model->grad[i];
    return sum * scale * scale;
}

void model_update(struct model *model, double scale)
{
    for (size_t i = 0; i < model->params; i++) {
        model->momentum[i] = MODEL_MOMENTUM * model->momentum[i] + (float)scale * model->grad[i];
        model->param[i] -= MODEL_RATE * model->momentum[i];
    }
}

void model_digest(const struct model *model, uint64_t digest[2])
{
    digest[0] = model->params;
    digest[1] = ~digest[0];
    for (size_t i = 0; i + 1 < model->params; i += 2) { /* params is even */
        uint64_t word;

        memcpy(&word, &model->param[i], sizeof(word));
        digest[0] = hash64_u64(digest[0], word);
        digest[1] = hash64_u64(digest[1] ^ digest[0], word);
    }
}
