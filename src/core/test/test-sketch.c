/* test-sketch.c - quantiles against the sorted values themselves.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/rand.h"
#include "core/sketch.h"

static const double quantiles[] = { 0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1 };

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static struct sketch *sketch_new(void)
{
    struct sketch *sketch = calloc(1, sizeof(*sketch));

    assert_non_null(sketch);
    return sketch;
}

/* Sorts `value`.  The exact quantile is the first value with a part q at or below it. */
static void check_quantiles(const struct sketch *sketch, uint64_t *value, size_t count)
{
    qsort(value, count, sizeof(*value), compare_u64);
    assert_int_equal(sketch_count(sketch), count);
    for (size_t i = 0; i < COUNT(quantiles); i++) {
        size_t below = 0;
        double exact, found = (double)sketch_quantile(sketch, quantiles[i]);

        while (below + 1 < count && (double)(below + 1) < quantiles[i] * (double)count)
            below++;
        exact = (double)value[below];
        if (found < exact * 0.99 || found > exact * 1.01)
            fail_msg("quantile %g of %zu: %g, not %g", quantiles[i], count, found, exact);
    }
}

static uint64_t draw(struct rand *rand, uint64_t seed)
{
    switch (seed % 5) {
    case 0:
        return rand_below(rand, 1000000);
    case 1: /* every magnitude */
        return rand_u64(rand) >> rand_below(rand, 64);
    case 2: /* a tail */
        return (uint64_t)(1000 / (1.0 - rand_unit(rand)));
    case 3: /* two heaps */
        return rand_below(rand, 2) ? 12000000 + rand_below(rand, 1000) : 34000000;
    default:
        return rand_below(rand, 130);
    }
}

static void quantiles_are_within_a_hundredth(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct rand rand = { .state = seed };
        size_t count = 1 + rand_below(&rand, 5000);
        uint64_t *value = calloc(count, sizeof(*value));
        struct sketch *sketch = sketch_new();

        assert_non_null(value);
        for (size_t i = 0; i < count; i++) {
            value[i] = draw(&rand, seed);
            sketch_add(sketch, value[i]);
        }
        check_quantiles(sketch, value, count);
        free(value);
        free(sketch);
    }
}

static void merging_gives_the_sketch_of_both(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct rand rand = { .state = seed };
        struct sketch *part[2] = { sketch_new(), sketch_new() };
        struct sketch *whole = sketch_new();

        for (size_t i = rand_below(&rand, 3000); i > 0; i--) {
            uint64_t value = draw(&rand, seed);

            sketch_add(part[rand_below(&rand, 2)], value);
            sketch_add(whole, value);
        }
        sketch_merge(part[0], part[1]);
        assert_memory_equal(part[0], whole, sizeof(*whole));
        for (int i = 0; i < 2; i++)
            free(part[i]);
        free(whole);
    }
}

static void the_smallest_and_largest_are_exact(void **state)
{
    struct sketch *sketch = sketch_new();

    (void)state;
    assert_int_equal(sketch_quantile(sketch, 0.5), 0);
    sketch_add(sketch, UINT64_MAX);
    assert_int_equal(sketch_quantile(sketch, 0.5), UINT64_MAX);
    sketch_add(sketch, 1000001);
    assert_int_equal(sketch_quantile(sketch, 0), 1000001);
    assert_int_equal(sketch_quantile(sketch, 1), UINT64_MAX);
    sketch_add(sketch, 0);
    assert_int_equal(sketch_quantile(sketch, 0), 0);
    assert_int_equal(sketch_count(sketch), 3);
    free(sketch);
}

static void small_values_are_exact(void **state)
{
    struct sketch *sketch = sketch_new();

    (void)state;
    for (uint64_t value = 0; value < 128; value++)
        sketch_add(sketch, value);
    for (uint64_t value = 0; value < 128; value++)
        assert_int_equal(sketch_quantile(sketch, (double)(value + 1) / 128), value);
    free(sketch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_within_a_hundredth),
        cmocka_unit_test(merging_gives_the_sketch_of_both),
        cmocka_unit_test(the_smallest_and_largest_are_exact),
        cmocka_unit_test(small_values_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
