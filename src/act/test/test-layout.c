/* test-layout.c - which rank is where, and which variables it gets.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "act/rank_environment.h"

static void every_rank_is_on_exactly_one_node(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 33; ranks++)
        for (uint32_t nodes = 1; nodes <= ranks; nodes++) {
            struct layout layout = { .ranks = ranks, .nodes = nodes };
            uint32_t next = 0;

            for (uint32_t node = 0; node < nodes; node++) {
                assert_int_equal(layout_first(&layout, node), next);
                assert_in_range(layout_count(&layout, node), ranks / nodes, ranks / nodes + 1);
                for (uint32_t i = 0; i < layout_count(&layout, node); i++)
                    assert_int_equal(layout_node(&layout, next++), node);
            }
            assert_int_equal(next, ranks);
        }
}

static void a_single_node_has_the_name_of_the_host(void **state)
{
    struct layout layout = { .ranks = 4, .nodes = 1, .host = "gpu-0167" };
    char name[64];

    (void)state;
    layout_name(&layout, 0, name);
    assert_string_equal(name, "gpu-0167");
    layout.nodes = 2;
    layout_name(&layout, 1, name);
    assert_string_equal(name, "n1");
}

/* The value of a variable; NULL: it is not there. */
static const char *value_of(const struct buf *env, const char *name)
{
    size_t length = strlen(name);

    for (size_t at = 0; at < env->size;) {
        const char *entry = (const char *)env->data + at;

        if (strncmp(entry, name, length) == 0 && entry[length] == '=')
            return entry + length + 1;
        at += strlen(entry) + 1;
    }
    return NULL;
}

static const struct layout_start start = {
    .run = "r1", .rings = "/dev/shm/x", .attempt = 3, .max_restarts = 5, .port = 29500
};

static void a_rank_is_told_its_place(void **state)
{
    const struct layout layout = { .ranks = 5, .nodes = 2 };
    struct buf env = { 0 };

    (void)state;
    layout_env(&layout, &start, 4, &env);
    assert_false(env.failed);
    assert_string_equal(value_of(&env, "RANK"), "4");
    assert_string_equal(value_of(&env, "LOCAL_RANK"), "1");
    assert_string_equal(value_of(&env, "WORLD_SIZE"), "5");
    assert_string_equal(value_of(&env, "LOCAL_WORLD_SIZE"), "2");
    assert_string_equal(value_of(&env, "GROUP_RANK"), "1");
    assert_string_equal(value_of(&env, "GROUP_WORLD_SIZE"), "2");
    assert_string_equal(value_of(&env, "MASTER_PORT"), "29500");
    assert_string_equal(value_of(&env, "TORCHELASTIC_RESTART_COUNT"), "3");
    assert_string_equal(value_of(&env, "TORCHELASTIC_MAX_RESTARTS"), "5");
    assert_string_equal(value_of(&env, "OMP_NUM_THREADS"), "1");
    assert_string_equal(value_of(&env, "LOCKSTEP_NODE"), "n1");
    assert_string_equal(value_of(&env, "LOCKSTEP_RESTART"), "3");
    buf_fini(&env);
}

static void a_command_that_is_no_rank_is_not_made_one(void **state)
{
    const struct layout layout = { .ranks = 0, .nodes = 1, .host = "h" };
    struct buf env = { 0 };

    (void)state;
    layout_env(&layout, &start, 0, &env);
    assert_null(value_of(&env, "RANK"));
    assert_null(value_of(&env, "MASTER_PORT"));
    assert_null(value_of(&env, "OMP_NUM_THREADS"));
    assert_string_equal(value_of(&env, "LOCKSTEP_RUN"), "r1");
    assert_string_equal(value_of(&env, "LOCKSTEP_DIR"), "/dev/shm/x");
    buf_fini(&env);
}

static void a_rank_of_a_run_without_rings_makes_none_and_is_quiet(void **state)
{
    const struct layout layout = { .ranks = 1, .nodes = 1, .host = "h" };
    struct layout_start none = start;
    struct buf env = { 0 };

    (void)state;
    none.rings = "";
    layout_env(&layout, &none, 0, &env);
    assert_string_equal(value_of(&env, "LOCKSTEP_DIR"), "/dev/null");
    assert_string_equal(value_of(&env, "LOCKSTEP_QUIET"), "1");
    buf_fini(&env);
}

static void the_user_knows_better_how_many_threads(void **state)
{
    const struct layout layout = { .ranks = 1, .nodes = 1, .host = "h" };
    struct layout_start own = start;
    struct buf env = { 0 };

    (void)state;
    own.omp_threads = true;
    layout_env(&layout, &own, 0, &env);
    assert_null(value_of(&env, "OMP_NUM_THREADS"));
    buf_fini(&env);
}

static void the_port_is_not_one_of_outgoing_connections(void **state)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    unsigned low = 0;
    uint16_t port = 0;

    (void)state;
    if (!file || fscanf(file, "%u", &low) != 1 || low <= 12000)
        low = UINT16_MAX + 1; /* no room below it here: any port will do */
    if (file)
        fclose(file);
    assert_int_equal(layout_port(&port, NULL), 0);
    assert_in_range(port, 1024, low - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_is_on_exactly_one_node),
        cmocka_unit_test(a_single_node_has_the_name_of_the_host),
        cmocka_unit_test(a_rank_is_told_its_place),
        cmocka_unit_test(a_command_that_is_no_rank_is_not_made_one),
        cmocka_unit_test(a_rank_of_a_run_without_rings_makes_none_and_is_quiet),
        cmocka_unit_test(the_user_knows_better_how_many_threads),
        cmocka_unit_test(the_port_is_not_one_of_outgoing_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
