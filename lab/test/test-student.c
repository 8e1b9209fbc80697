/* test-student.c - the gradients are those of the loss, however the network is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "core/clean.h"
#include "lab/trainer/student.h"

#define BLOCKS 3

static void feed(struct student *student)
{
    for (uint32_t micro = 0; micro < student->config.micros; micro++)
        student_sample(5, 1, 0, micro, student_input(student, micro),
                       student->target + micro * STUDENT_CELLS);
}

/* One whole step of the cut in `cuts` tensor parts, summed by hand. */
static void learn(struct student *student, uint32_t cuts)
{
    for (uint32_t i = 0; i < cuts; i++) {
        student_step_begin(&student[i]);
        feed(&student[i]);
    }
    for (int pass = 0; pass < 2 * BLOCKS; pass++) {
        uint32_t block = (uint32_t)(pass < BLOCKS ? pass : 2 * BLOCKS - 1 - pass);
        float sum[STUDENT_CELLS] = { 0 };

        for (uint32_t i = 0; i < cuts; i++) {
            if (pass == BLOCKS)
                student_loss(&student[i], 0);
            if (pass < BLOCKS)
                student_forward(&student[i], 0, block);
            else
                student_backward(&student[i], 0, block);
            for (size_t j = 0; j < STUDENT_CELLS; j++)
                sum[j] += student[i].part[j];
        }
        for (uint32_t i = 0; i < cuts; i++) {
            memcpy(student[i].part, sum, sizeof(sum));
            if (pass < BLOCKS)
                student_forward_absorb(&student[i], 0, block);
            else
                student_backward_absorb(&student[i], 0);
        }
    }
}

static void make(struct student *student, uint32_t cuts)
{
    for (uint32_t i = 0; i < cuts; i++) {
        const struct student_config config = { .seed = 5,
                                               .tp = cuts,
                                               .tp_index = i,
                                               .blocks = BLOCKS,

                                               .micros = 1 };

        assert_int_equal(student_init(&student[i], &config), 0);
    }
}

static void gradients_are_the_slope_of_the_loss(void **state)
{
    struct student student;
    double slope, loss[2];
    const float nudge = 1e-2f;

    (void)state;
    make(&student, 1);
    for (size_t i = 7; i < student.params; i += student.params / 29) {
        float before = student.param[i], grad;

        learn(&student, 1);
        grad = student.grad[i];
        for (int side = 0; side < 2; side++) {
            student.param[i] = before + (side ? nudge : -nudge);
            learn(&student, 1);
            loss[side] = student.loss;
        }
        student.param[i] = before;
        slope = (loss[1] - loss[0]) / (2 * (double)nudge);
        assert_true(fabs(slope - (double)grad) < 0.02 * fabs(slope) + 2e-3);
    }
    student_free(&student);
}

static void a_cut_network_is_the_same_network(void **state)
{
    struct student whole, part[2];

    (void)state;
    make(&whole, 1);
    make(part, 2);
    learn(&whole, 1);
    learn(part, 2);
    assert_true(fabs(whole.loss - part[0].loss) < 1e-4 * whole.loss);
    assert_true(part[0].loss == part[1].loss);
    assert_true(fabs(student_norm_squared(&whole, 1) - student_norm_squared(&part[0], 1) -
                     student_norm_squared(&part[1], 1)) < 1e-3 * student_norm_squared(&whole, 1));
    student_free(&whole);
    student_free(&part[0]);
    student_free(&part[1]);
}

static void the_digest_sees_one_bit(void **state)
{
    struct student student;
    uint64_t before[2], after[2];

    (void)state;
    make(&student, 1);
    student_digest(&student, before);
    student.param[1234] = nextafterf(student.param[1234], 10);
    student_digest(&student, after);
    assert_int_not_equal(before[0], after[0]);
    assert_int_not_equal(before[1], after[1]);
    student_free(&student);
}

static void samples_differ_by_step_and_replica(void **state)
{
    float a[STUDENT_CELLS], b[STUDENT_CELLS], target[STUDENT_CELLS];

    (void)state;
    student_sample(5, 1, 0, 0, a, target);
    student_sample(5, 1, 0, 0, b, target);
    assert_memory_equal(a, b, sizeof(a));
    student_sample(5, 2, 0, 0, b, target);
    assert_memory_not_equal(a, b, sizeof(a));
    student_sample(5, 1, 1, 0, b, target);
    assert_memory_not_equal(a, b, sizeof(a));
    student_sample(5, 1, 0, 1, b, target);
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
