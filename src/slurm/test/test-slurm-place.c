/* test-slurm-place.c - the environment of a batch script, of a step, and of neither.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "slurm/slurm_place.h"

static void place_set(const char *const variable[][2], size_t count)
{
    clearenv();
    for (size_t i = 0; i < count; i++)
        setenv(variable[i][0], variable[i][1], 1);
}

static void a_step_is_found(void **state)
{
    static const char *const step[][2] = {
        { "SLURM_JOB_ID", "4211" },      { "SLURM_STEP_ID", "2" },
        { "SLURM_STEP_NUM_NODES", "5" }, { "SLURM_JOB_NUM_NODES", "6" },
        { "SLURMD_NODENAME", "gpu-7" },  { "SLURM_NODEID", "4" },
        { "SLURM_RESTART_COUNT", "1" },  { "SLURM_STEP_TASKS_PER_NODE", "2(x3),1,4" },
    };
    struct slurm_place place;
    char name[64];

    (void)state;
    place_set(step, sizeof(step) / sizeof(step[0]));
    assert_true(slurm_place_read(&place));
    assert_int_equal(place.job, 4211);
    assert_true(place.in_step);
    assert_int_equal(place.nodes, 5);
    assert_int_equal(place.node_number, 4);
    assert_int_equal(place.local_tasks, 4);
    assert_string_equal(place.node, "gpu-7");
    slurm_place_name(&place, name);
    assert_string_equal(name, "job-4211.2-r1");
}

static void a_batch_script_is_no_step(void **state)
{
    static const char *const batch[][2] = { { "SLURM_JOB_ID", "4211" },
                                            { "SLURM_JOB_NUM_NODES", "6" },
                                            { "SLURMD_NODENAME", "gpu-1" } };
    struct slurm_place place;
    char name[64];

    (void)state;
    place_set(batch, 3);
    assert_true(slurm_place_read(&place));
    assert_false(place.in_step);
    assert_int_equal(place.nodes, 6);
    slurm_place_name(&place, name);
    assert_string_equal(name, "job-4211");
}

static void nonsense_is_no_job(void **state)
{
    static const char *const bad[][3][2] = {
        { { "SLURM_JOB_ID", "x" }, { "SLURM_JOB_NUM_NODES", "6" }, { "SLURMD_NODENAME", "n1" } },
        { { "SLURM_JOB_ID", "0" }, { "SLURM_JOB_NUM_NODES", "6" }, { "SLURMD_NODENAME", "n1" } },
        { { "SLURM_JOB_ID", "1" }, { "SLURM_JOB_NUM_NODES", "" }, { "SLURMD_NODENAME", "n1" } },
        { { "SLURM_JOB_ID", "1" }, { "SLURM_JOB_NUM_NODES", "6" }, { "SLURMD_NODENAME", "-w" } },
        { { "SLURM_JOB_ID", "1" }, { "SLURM_JOB_NUM_NODES", "6" }, { "OTHER", "n1" } },
    };
    struct slurm_place place;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        place_set(bad[i], 3);
        assert_false(slurm_place_read(&place));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_found),
        cmocka_unit_test(a_batch_script_is_no_step),
        cmocka_unit_test(nonsense_is_no_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
