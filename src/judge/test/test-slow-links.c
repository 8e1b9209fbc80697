/* test-slow-links.c - from slow transfers to the part of the network, on small and large fabrics.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/rand.h"
#include "judge/links/slow_links.h"

#define NODES 16
#define LEAF 4 /* nodes */

struct scene {
    uint32_t leaf[NODES];
    struct slow_links_shape shape;
    struct slow_links_path path[NODES * NODES * 2];
    size_t count;
    struct slow_links_result found;
};

/* Every pair both ways with a jitter of a tenth. */
static void scene_begin(struct scene *scene, uint32_t rails)
{
    struct rand rand = { 7 };

    memset(scene, 0, sizeof(*scene));
    scene->shape = (struct slow_links_shape){
        .nodes = NODES, .leafs = NODES / LEAF, .rails = rails, .leaf = scene->leaf
    };
    for (uint32_t node = 0; node < NODES; node++)
        scene->leaf[node] = node / LEAF;
    for (uint32_t a = 0; a < NODES; a++) {
        for (uint32_t b = 0; b < NODES; b++) {
            for (uint32_t rail = 0; rail < rails && a != b; rail++)
                scene->path[scene->count++] = (struct slow_links_path){
                    .from = a, .to = b, .rail = rail, .rate = 0.9 + 0.2 * rand_unit(&rand)
                };
        }
    }
}

static void scene_locate(struct scene *scene)
{
    const struct slow_links_limits limits = SLOW_LINKS_LIMITS;

    assert_int_equal(slow_links_compare(&scene->shape, &limits, scene->path, scene->count), 0);
    assert_int_equal(slow_links_locate(&scene->shape, scene->path, scene->count, &scene->found), 0);
}

#define SLOW(scene, condition, share)                                                              \
    for (size_t i_ = 0; i_ < (scene)->count; i_++) {                                               \
        struct slow_links_path *path = &(scene)->path[i_];                                         \
        uint32_t from = (scene)->leaf[path->from], to = (scene)->leaf[path->to];                   \
        (void)from;                                                                                \
        (void)to;                                                                                  \
        if (condition)                                                                             \
            path->rate *= (share);                                                                 \
    }

static void assert_named(const struct scene *scene, size_t at, enum slow_links_part part,
                         uint32_t a)
{
    assert_true(at < scene->found.count);
    assert_int_equal(scene->found.named[at].part, part);
    if (a != SLOW_LINKS_NONE)
        assert_int_equal(scene->found.named[at].a, a);
}

static void a_healthy_fabric_names_nothing(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 0);
    assert_int_equal(scene.found.slow, 0);
}

static void a_slow_adapter_is_named(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    SLOW(&scene, path->from == 5 || path->to == 5, 0.5);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_NIC, 5);
    assert_true(scene.found.named[0].confidence > 0.9);
    assert_int_equal(scene.found.named[0].also, 0);
}

static void one_direction_is_a_link(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    SLOW(&scene, path->to == 9, 0.3);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_NIC_GETS, 9);
    scene_begin(&scene, 1);
    SLOW(&scene, from == 2 && to != 2, 0.3);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_UPLINK_UP, 2);
}

static void an_uplink_is_not_its_leaf(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    SLOW(&scene, from != to && (from == 1 || to == 1), 0.4);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_UPLINK, 1);
    scene_begin(&scene, 1);
    SLOW(&scene, from == 1 || to == 1, 0.4);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_LEAF, 1);
}

static void a_dead_pair_is_only_that_pair(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    SLOW(&scene, path->from + path->to == 14 && (path->from == 3 || path->to == 3), 0);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_PAIR, 3);
    assert_int_equal(scene.found.named[0].b, 11);
}

static void two_faults_are_two(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    SLOW(&scene, path->from == 5 || path->to == 5, 0.5);
    SLOW(&scene, from != to && (from == 3 || to == 3), 0.4);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 2);
    assert_named(&scene, 0, PART_UPLINK, 3);
    assert_named(&scene, 1, PART_NIC, 5);
    /* Also of a node behind the slow uplink: what stays inside its leaf tells it. */
    scene_begin(&scene, 1);
    SLOW(&scene, path->from == 13 || path->to == 13, 0.5);
    SLOW(&scene, from != to && (from == 3 || to == 3), 0.4);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 2);
    assert_named(&scene, 1, PART_NIC, 13);
}

/* Four share an uplink, two of them get most of it; beside a slow adapter one gets all of it. */
static void a_shared_uplink_is_named_though_some_are_sound(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    SLOW(&scene, from == 1 && to != 1, path->from % 4 == 0 ? 0.95 : 0.45);
    SLOW(&scene, to == 1 && from != 1, path->to % 4 < 2 ? 0.9 : 0.5);
    for (size_t i = 0; i < scene.count;
         i++) { /* round and direction: all nodes of two leafs at once */
        struct slow_links_path *path = &scene.path[i];

        path->at = 1 + scene.leaf[path->from] * 4 + scene.leaf[path->to] +
                   16 * ((path->from + path->to) % 4);
    }
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_UPLINK, 1);
    assert_int_equal(scene.found.unexplained, 0);
}

/* What a slow uplink explains does not count again for the spine, which it crosses too. */
static void a_few_slow_pairs_beside_an_uplink_are_not_the_spine(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    SLOW(&scene, from != to && (from == 3 || to == 3), 0.4);
    SLOW(&scene, from != 3 && to != 3 && from != to && (path->from * 7 + path->to * 3) % 40 == 5,
         0.5);
    for (size_t i = 0; i < scene.count; i++)
        scene.path[i].at = 1; /* all at once: no sound one speaks against anything */
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_UPLINK, 3);
    assert_true(scene.found.unexplained > 2);
}

static void many_slow_pairs_are_noise(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    SLOW(&scene, (path->from * 7 + path->to * 3) % 40 == 5, 0.5);
    scene_locate(&scene);
    assert_true(scene.found.slow > 3);
    assert_int_equal(scene.found.count, 0);
    assert_int_equal(scene.found.unexplained, scene.found.slow);
}

static void a_busy_adapter_is_not_a_slow_one(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    SLOW(&scene, path->from == 6, 0.65);
    for (size_t i = 0; i < scene.count; i++)
        scene.path[i].busy = scene.path[i].from == 6;
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 0);
    SLOW(&scene, path->from == 6, 0.5);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_NIC_SENDS, 6);
}

static void a_rail_a_node_and_one_adapter_of_it(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 2);
    SLOW(&scene, path->rail == 1, 0.5);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_RAIL, SLOW_LINKS_NONE);
    assert_int_equal(scene.found.named[0].rail, 1);
    scene_begin(&scene, 2);
    SLOW(&scene, path->from == 4 || path->to == 4, 0.5);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_NODE, 4);
    scene_begin(&scene, 2);
    SLOW(&scene, path->rail == 1 && (path->from == 4 || path->to == 4), 0.5);
    scene_locate(&scene);
    assert_int_equal(scene.found.count, 1);
    assert_named(&scene, 0, PART_NIC, 4);
    assert_int_equal(scene.found.named[0].rail, 1);
}

/* Without another path nothing tells the ends of a pair apart. */
static void what_cannot_be_told_apart_is_said(void **state)
{
    const uint32_t leaf[] = { 0, 1, 1, 2, 2 };
    const struct slow_links_shape shape = { .nodes = 5, .leafs = 3, .rails = 1, .leaf = leaf };
    const struct slow_links_limits limits = SLOW_LINKS_LIMITS;
    struct slow_links_path path[20];
    struct slow_links_result found;
    size_t count = 0;

    (void)state;
    for (uint32_t a = 0; a < 5; a++) {
        for (uint32_t b = 0; b < 5; b++) {
            if (a != b)
                path[count++] = (struct slow_links_path){ .from = a,
                                                          .to = b,
                                                          .rate = a == 0 || b == 0 ? 0.3 : 1 };
        }
    }
    assert_int_equal(slow_links_compare(&shape, &limits, path, count), 0);
    assert_int_equal(slow_links_locate(&shape, path, count, &found), 0);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.named[0].part, PART_NIC);
    assert_int_not_equal(found.named[0].also, 0);
    assert_true(found.named[0].confidence <= 0.5);
}

/* Collectives of a running job: who is slow is known, and each joins several nodes. */
static void a_node_is_found_by_the_sets_that_touch_it(void **state)
{
    static const uint32_t rows[4][4] = {
        { 0, 1, 2, 3 }, { 4, 5, 6, 7 }, { 8, 9, 10, 11 }, { 12, 13, 14, 15 }
    };
    struct slow_links_shape shape = { .nodes = NODES, .rails = 1 };
    struct slow_links_path path[8];
    struct slow_links_result found;
    uint32_t columns[4][4], outside[2] = { 3, NODES };

    (void)state;
    for (uint32_t node = 0; node < NODES; node++)
        columns[node % 4][node / 4] = node;
    for (uint32_t bad = 0; bad < NODES; bad++) {
        for (uint32_t i = 0; i < 8; i++) {
            const uint32_t *set = i < 4 ? rows[i] : columns[i - 4];
            bool slow = i < 4 ? bad / 4 == i : bad % 4 == i - 4;

            path[i] = (struct slow_links_path){ .node = set,
                                                .nodes = 4,
                                                .state = slow ? LINK_SLOW : LINK_SOUND };
        }
        assert_int_equal(slow_links_locate(&shape, path, 8, &found), 0);
        assert_int_equal(found.count, 1);
        assert_int_equal(found.named[0].part, PART_NIC);
        assert_int_equal(found.named[0].a, bad);
        assert_int_equal(found.named[0].also, 0);
        assert_int_equal(found.unexplained, 0);
    }
    /* One slow row alone: each of its nodes may be the one. */
    assert_int_equal(slow_links_locate(&shape, &path[3], 1, &found), 0);
    assert_int_equal(found.count, 1);
    assert_true(found.named[0].also == PART_NIC && found.named[0].confidence <= 0.5);
    /* Two rows without a node in common are two faults. */
    path[0].state = LINK_SLOW;
    assert_int_equal(slow_links_locate(&shape, path, 8, &found), 0);
    assert_true(found.count > 1 || found.unexplained);
    path[0] = (struct slow_links_path){ .node = outside, .nodes = 2 };
    assert_int_equal(slow_links_locate(&shape, path, 1, &found), -EINVAL);
}

static void a_node_that_is_not_there_is_refused(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 1);
    scene.path[3].to = NODES;
    assert_int_equal(slow_links_locate(&scene.shape, scene.path, scene.count, &scene.found),
                     -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_fabric_names_nothing),
        cmocka_unit_test(a_slow_adapter_is_named),
        cmocka_unit_test(one_direction_is_a_link),
        cmocka_unit_test(an_uplink_is_not_its_leaf),
        cmocka_unit_test(a_dead_pair_is_only_that_pair),
        cmocka_unit_test(two_faults_are_two),
        cmocka_unit_test(a_shared_uplink_is_named_though_some_are_sound),
        cmocka_unit_test(a_few_slow_pairs_beside_an_uplink_are_not_the_spine),
        cmocka_unit_test(many_slow_pairs_are_noise),
        cmocka_unit_test(a_busy_adapter_is_not_a_slow_one),
        cmocka_unit_test(a_rail_a_node_and_one_adapter_of_it),
        cmocka_unit_test(what_cannot_be_told_apart_is_said),
        cmocka_unit_test(a_node_is_found_by_the_sets_that_touch_it),
        cmocka_unit_test(a_node_that_is_not_there_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
