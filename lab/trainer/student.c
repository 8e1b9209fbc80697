/* student.c - forward, backward and update of the small network. */
#include "lab/trainer/student.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/rand.h"

#define STUDENT_RATE 0.05f
#define STUDENT_MOMENTUM 0.9f

static struct rand student_rand(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    return (struct rand){ hash64_u64(hash64_u64(hash64_u64(seed, a), b), c) };
}

static float *student_floats(size_t count)
{
    return calloc(count, sizeof(float));
}

static size_t block_params(const struct student *student)
{
    return 2 * (size_t)STUDENT_WIDTH * student->hidden;
}

static float *block_w1(const struct student *student, float *base, uint32_t block)
{
    return base + block * block_params(student); /* [width][hidden] */
}

static float *block_w2(const struct student *student, float *base, uint32_t block)
{
    return block_w1(student, base, block) +
           (size_t)STUDENT_WIDTH * student->hidden; /* [hidden][width] */
}

/* Each weight is drawn by its place in the whole network, so that the cut does not matter. */
static void student_draw(struct student *student)
{
    const struct student_config *config = &student->config;
    uint32_t first = config->tp_index * student->hidden;
    float in = 1.0f / sqrtf(STUDENT_WIDTH);
    float out = 0.5f / sqrtf((float)student->hidden * (float)config->tp);

    for (uint32_t block = 0; block < config->blocks; block++) {
        float *w1 = block_w1(student, student->param, block),
              *w2 = block_w2(student, student->param, block);

        for (uint32_t j = 0; j < student->hidden; j++) {
            struct rand rand =
                student_rand(config->seed, 1, config->first_block + block, first + j);

            for (uint32_t i = 0; i < STUDENT_WIDTH; i++)
                w1[i * student->hidden + j] = in * (float)rand_normal(&rand);
            for (uint32_t i = 0; i < STUDENT_WIDTH; i++)
                w2[j * STUDENT_WIDTH + i] = out * (float)rand_normal(&rand);
        }
    }
}

int student_init(struct student *student, const struct student_config *config)
{
    size_t micros = config->micros;

    *student = (struct student){ .config = *config };
    student->hidden = (STUDENT_HIDDEN + config->tp - 1) / config->tp;
    student->params = config->blocks * block_params(student);
    student->param = student_floats(student->params);
    student->grad = student_floats(student->params);
    student->momentum = student_floats(student->params);
    student->x = student_floats(micros * (config->blocks + 1) * STUDENT_CELLS);
    student->h = student_floats(micros * config->blocks * STUDENT_ROWS * student->hidden);
    student->dy = student_floats(micros * STUDENT_CELLS);
    student->target = student_floats(micros * STUDENT_CELLS);
    student->part = student_floats(STUDENT_CELLS);
    if (!student->param || !student->grad || !student->momentum || !student->x || !student->h ||
        !student->dy || !student->target || !student->part) {
        student_free(student);
        return -ENOMEM;
    }
    student_draw(student);
    return 0;
}

void student_free(struct student *student)
{
    free(student->param);
    free(student->grad);
    free(student->momentum);
    free(student->x);
    free(student->h);
    free(student->dy);
    free(student->target);
    free(student->part);
    *student = (struct student){ 0 };
}

static float *student_x(const struct student *student, uint32_t micro, uint32_t block)
{
    return student->x + ((size_t)micro * (student->config.blocks + 1) + block) * STUDENT_CELLS;
}

static float *student_h(const struct student *student, uint32_t micro, uint32_t block)
{
    return student->h +
           ((size_t)micro * student->config.blocks + block) * STUDENT_ROWS * student->hidden;
}

float *student_input(const struct student *student, uint32_t micro)
{
    return student_x(student, micro, 0);
}

float *student_output(const struct student *student, uint32_t micro)
{
    return student_x(student, micro, student->config.blocks);
}

float *student_gradient(const struct student *student, uint32_t micro)
{
    return student->dy + micro * STUDENT_CELLS;
}

/* out[rows][to] += in[rows][from] * w[from][to] */
static void student_multiply(const float *in, const float *w, float *out, size_t from, size_t to)
{
    for (size_t row = 0; row < STUDENT_ROWS; row++)
        for (size_t i = 0; i < from; i++) {
            float value = in[row * from + i];

            for (size_t j = 0; j < to; j++)
                out[row * to + j] += value * w[i * to + j];
        }
}

/* out[rows][from] += in[rows][to] * transposed w[from][to] */
static void multiply_back(const float *in, const float *w, float *out, size_t from, size_t to)
{
    for (size_t row = 0; row < STUDENT_ROWS; row++)
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
    for (size_t row = 0; row < STUDENT_ROWS; row++)
        for (size_t i = 0; i < from; i++) {
            float value = in[row * from + i];

            for (size_t j = 0; j < to; j++)
                grad[i * to + j] += value * out[row * to + j];
        }
}

/* The teacher: x + tanh(x A) B / 2 with A and B drawn from the seed.  What it says is worked out
 * for each sample anew, as a loader would.
 */
void student_sample(uint64_t seed, uint64_t step, uint32_t replica, uint32_t micro, float *input,
                    float *target)
{
    struct rand rand = student_rand(seed, 2, step, ((uint64_t)replica << 32) | micro);
    struct rand teacher = student_rand(seed, 3, 0, 0);
    float a[STUDENT_WIDTH * STUDENT_WIDTH], b[STUDENT_WIDTH * STUDENT_WIDTH],
        h[STUDENT_CELLS] = { 0 };

    for (size_t i = 0; i < STUDENT_CELLS; i++)
        input[i] = (float)rand_normal(&rand);
    for (size_t i = 0; i < STUDENT_WIDTH * STUDENT_WIDTH; i++) {
        a[i] = (float)(2 * rand_unit(&teacher) - 1) / sqrtf(STUDENT_WIDTH / 3.0f);
        b[i] = (float)(2 * rand_unit(&teacher) - 1) / sqrtf(STUDENT_WIDTH / 3.0f);
    }
    student_multiply(input, a, h, STUDENT_WIDTH, STUDENT_WIDTH);
    for (size_t i = 0; i < STUDENT_CELLS; i++)
        h[i] = tanhf(h[i]);
    memcpy(target, input, STUDENT_CELLS * sizeof(*target));
    student_multiply(h, b, target, STUDENT_WIDTH, STUDENT_WIDTH);
}

void student_step_begin(struct student *student)
{
    memset(student->grad, 0, student->params * sizeof(*student->grad));
    student->loss = 0;
}

void student_forward(struct student *student, uint32_t micro, uint32_t block)
{
    float *h = student_h(student, micro, block);
    size_t cells = (size_t)STUDENT_ROWS * student->hidden;

    memset(h, 0, cells * sizeof(*h));
    student_multiply(student_x(student, micro, block), block_w1(student, student->param, block), h,
                     STUDENT_WIDTH, student->hidden);
    for (size_t i = 0; i < cells; i++)
        h[i] = tanhf(h[i]);
    memset(student->part, 0, STUDENT_CELLS * sizeof(*student->part));
    student_multiply(h, block_w2(student, student->param, block), student->part, student->hidden,
                     STUDENT_WIDTH);
}

void student_forward_absorb(struct student *student, uint32_t micro, uint32_t block)
{
    const float *in = student_x(student, micro, block);
    float *out = student_x(student, micro, block + 1);

    for (size_t i = 0; i < STUDENT_CELLS; i++)
        out[i] = in[i] + student->part[i];
}

void student_loss(struct student *student, uint32_t micro)
{
    const float *y = student_output(student, micro),
                *target = student->target + micro * STUDENT_CELLS;
    float *dy = student_gradient(student, micro);
    float scale = 1.0f / (float)(STUDENT_ROWS * student->config.micros);
    double sum = 0;

    for (size_t i = 0; i < STUDENT_CELLS; i++) {
        float off = y[i] - target[i];

        dy[i] = off * scale;
        sum += 0.5 * (double)off * (double)off;
    }
    student->loss += sum * (double)scale;
}

void student_backward(struct student *student, uint32_t micro, uint32_t block)
{
    const float *dy = student_gradient(student, micro), *h = student_h(student, micro, block);
    size_t cells = (size_t)STUDENT_ROWS * student->hidden;
    float dh[STUDENT_ROWS * STUDENT_HIDDEN];

    memset(dh, 0, cells * sizeof(*dh));
    multiply_grad(h, dy, block_w2(student, student->grad, block), student->hidden, STUDENT_WIDTH);
    multiply_back(dy, block_w2(student, student->param, block), dh, student->hidden, STUDENT_WIDTH);
    for (size_t i = 0; i < cells; i++)
        dh[i] *= 1 - h[i] * h[i];
    multiply_grad(student_x(student, micro, block), dh, block_w1(student, student->grad, block),
                  STUDENT_WIDTH, student->hidden);
    memset(student->part, 0, STUDENT_CELLS * sizeof(*student->part));
    multiply_back(dh, block_w1(student, student->param, block), student->part, STUDENT_WIDTH,
                  student->hidden);
}

void student_backward_absorb(struct student *student, uint32_t micro)
{
    float *dy = student_gradient(student, micro);

    for (size_t i = 0; i < STUDENT_CELLS; i++)
        dy[i] += student->part[i];
}

float *student_bucket(const struct student *student, uint32_t block, uint32_t blocks, size_t *count)
{
    *count = blocks * block_params(student);
    return block_w1(student, student->grad, block);
}

double student_norm_squared(const struct student *student, double scale)
{
    double sum = 0;

    for (size_t i = 0; i < student->params; i++)
        sum += (double)student->grad[i] * (double)student->grad[i];
    return sum * scale * scale;
}

void student_update(struct student *student, double scale)
{
    for (size_t i = 0; i < student->params; i++) {
        student->momentum[i] =
            STUDENT_MOMENTUM * student->momentum[i] + (float)scale * student->grad[i];
        student->param[i] -= STUDENT_RATE * student->momentum[i];
    }
}

/* The second highest bit of the fraction: the value changes by a quarter or less, so training goes on and
 * nothing but the digest tells.
 */
void student_flip(struct student *student, uint64_t where)
{
    float *param = &student->param[where % student->params];
    uint32_t bits;

    memcpy(&bits, param, sizeof(bits));
    bits ^= UINT32_C(1) << 21;
    memcpy(param, &bits, sizeof(bits));
}

void student_digest(const struct student *student, uint64_t digest[2])
{
    digest[0] = student->params;
    digest[1] = ~digest[0];
    for (size_t i = 0; i + 1 < student->params; i += 2) { /* params is even */
        uint64_t word;

        memcpy(&word, &student->param[i], sizeof(word));
        digest[0] = hash64_u64(digest[0], word);
        digest[1] = hash64_u64(digest[1] ^ digest[0], word);
    }
}
