/* test-toy-model.c - the gradients are those of the loss, however the network is cut.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "core/clean.h"
#include "lab/trainer/toy_model.h"

#define BLOCKS 3

static void feed(struct toy_model *toy)
{
    for (uint32_t micro = 0; micro < toy->config.micros; micro++)
        toy_sample(5, 1, 0, micro, toy_input(toy, micro), toy->target + micro * TOY_CELLS);
}

/* One whole step of the cut in `cuts` tensor parts, summed by hand. */
static void learn(struct toy_model *toy, uint32_t parts)
{
    for (uint32_t i = 0; i < parts; i++) {
        toy_step_begin(&toy[i]);
        feed(&toy[i]);
    }
    for (int pass = 0; pass < 2 * BLOCKS; pass++) {
        uint32_t block = (uint32_t)(pass < BLOCKS ? pass : 2 * BLOCKS - 1 - pass);
        float sum[TOY_CELLS] = { 0 };

        for (uint32_t i = 0; i < parts; i++) {
            if (pass == BLOCKS)
                toy_loss(&toy[i], 0);
            if (pass < BLOCKS)
                toy_forward(&toy[i], 0, block);
            else
                toy_backward(&toy[i], 0, block);
            for (size_t j = 0; j < TOY_CELLS; j++)
                sum[j] += toy[i].part[j];
        }
        for (uint32_t i = 0; i < parts; i++) {
            memcpy(toy[i].part, sum, sizeof(sum));
            if (pass < BLOCKS)
                toy_forward_absorb(&toy[i], 0, block);
            else
                toy_backward_absorb(&toy[i], 0);
        }
    }
}

static void make(struct toy_model *toy, uint32_t parts)
{
    for (uint32_t i = 0; i < parts; i++) {
        const struct toy_config config = { .seed = 5,
                                           .tp = parts,
                                           .tp_index = i,
                                           .blocks = BLOCKS,

                                           .micros = 1 };

        assert_int_equal(toy_init(&toy[i], &config), 0);
    }
}

static void gradients_are_the_slope_of_the_loss(void **state)
{
    struct toy_model toy;
    double slope, loss[2];
    const float nudge = 1e-2f;

    (void)state;
    make(&toy, 1);
    for (size_t i = 7; i < toy.params; i += toy.params / 29) {
        float before = toy.param[i], grad;

        learn(&toy, 1);
        grad = toy.grad[i];
        for (int side = 0; side < 2; side++) {
            toy.param[i] = before + (side ? nudge : -nudge);
            learn(&toy, 1);
            loss[side] = toy.loss;
        }
        toy.param[i] = before;
        slope = (loss[1] - loss[0]) / (2 * (double)nudge);
        assert_true(fabs(slope - (double)grad) < 0.02 * fabs(slope) + 2e-3);
    }
    toy_free(&toy);
}

static void a_cut_network_is_the_same_network(void **state)
{
    struct toy_model full, part[2];

    (void)state;
    make(&full, 1);
    make(part, 2);
    learn(&full, 1);
    learn(part, 2);
    assert_true(fabs(full.loss - part[0].loss) < 1e-4 * full.loss);
    assert_true(part[0].loss == part[1].loss);
    assert_true(fabs(toy_norm_squared(&full, 1) - toy_norm_squared(&part[0], 1) -
                     toy_norm_squared(&part[1], 1)) < 1e-3 * toy_norm_squared(&full, 1));
    toy_free(&full);
    toy_free(&part[0]);
    toy_free(&part[1]);
}

static void the_digest_sees_one_bit(void **state)
{
    struct toy_model toy;
    uint64_t before[2], after[2];

    (void)state;
    make(&toy, 1);
    toy_digest(&toy, before);
    toy.param[1234] = nextafterf(toy.param[1234], 10);
    toy_digest(&toy, after);
    assert_int_not_equal(before[0], after[0]);
    assert_int_not_equal(before[1], after[1]);
    toy_free(&toy);
}

static void samples_differ_by_step_and_replica(void **state)
{
    float a[TOY_CELLS], b[TOY_CELLS], target[TOY_CELLS];

    (void)state;
    toy_sample(5, 1, 0, 0, a, target);
    toy_sample(5, 1, 0, 0, b, target);
    assert_memory_equal(a, b, sizeof(a));
    toy_sample(5, 2, 0, 0, b, target);
    assert_memory_not_equal(a, b, sizeof(a));
    toy_sample(5, 1, 1, 0, b, target);
    assert_memory_not_equal(a, b, sizeof(a));
    toy_sample(5, 1, 0, 1, b, target);
    assert_memory_not_equal(a, b, sizeof(a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_the_slope_of_the_loss),
        cmocka_unit_test(a_cut_network_is_the_same_network),
        cmocka_unit_test(the_digest_sees_one_bit),
        cmocka_unit_test(samples_differ_by_step_and_replica),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
