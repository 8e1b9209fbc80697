/* test-launch-crew.c - a launcher of several: old orders are refused, and a later attempt ends an earlier one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "act/launch/launch_private.h"
#include "core/time.h"

struct scene {
    struct launch_plan plan;
    struct launch launch;
    struct launch_crew crew;
    struct err err;
    char dir[64];
};

static int scene_make(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    if (!scene)
        return -1;
    snprintf(scene->dir, sizeof(scene->dir), "/tmp/launch-crew.XXXXXX");
    if (!mkdtemp(scene->dir) ||
        output_create("", 1, true, &scene->launch.output, &scene->err) < 0 ||
        launcher_log_open(scene->dir, "r1", "n1", &scene->launch.log, &scene->err) < 0)
        return -1;
    scene->launch.plan = &scene->plan;
    scene->launch.crew = &scene->crew;
    scene->crew.self = (struct member){ .node = "n1",
                                        .host = "127.0.0.1",
                                        .port = 1,
                                        .life = 7,
                                        .ranks = 1,
                                        .nodes_min = 2,
                                        .nodes_max = 2,
                                        .culprit = -1,
                                        .lease_ns = 10 * NS_PER_S };
    scene->crew.result = MEMBER_IDLE;
    scene->crew.acknowledged = -1;
    *state = scene;
    return 0;
}

static int scene_free(void **state)
{
    struct scene *scene = *state;
    char path[128];

    launcher_log_close(scene->launch.log);
    output_destroy(scene->launch.output);
    snprintf(path, sizeof(path), "%s/launcher.lsf", scene->dir);
    unlink(path);
    rmdir(scene->dir);
    free(scene);
    return 0;
}

static struct decision start_of(uint32_t attempt, const char *node, uint32_t life)
{
    struct decision start = {
        .id = "d1", .action = ACTION_START, .attempt = attempt, .node_count = 1
    };

    snprintf(start.node[0], sizeof(start.node[0]), "%s", node);
    start.start.life[0] = life;
    start.start.world = 2;
    start.decided_real_ns = time_boot_ns();
    return start;
}

static void a_later_attempt_ends_an_earlier_one(void **state)
{
    struct scene *scene = *state;
    struct decision same = start_of(1, "n2", 8), later = start_of(2, "n2", 8);

    scene->plan.grace_ns = 9;
    scene->crew.in_attempt = true;
    scene->launch.run_dir.file.attempt = 1;
    launch_crew_fence(&scene->launch, &same); /* the order for other nodes of this attempt */
    assert_false(launch_crew_stops(&scene->launch));
    assert_int_equal(launch_crew_grace_ns(&scene->launch), 9);
    launch_crew_fence(&scene->launch, &later);
    assert_true(launch_crew_stops(&scene->launch));
    assert_int_equal(launch_crew_grace_ns(&scene->launch), 0);
    assert_int_equal(launch_crew_status(&scene->launch, 0), 1);
}

static void an_order_is_refused_after_a_time_without_contact(void **state)
{
    struct scene *scene = *state;
    struct decision start = start_of(3, "n1", 7);

    assert_true(launch_crew_is_meant(&scene->launch, &start));
    scene->crew.acked_ns = time_boot_ns() - 10 * NS_PER_S;
    assert_true(launch_crew_refuses(&scene->launch, &start));
    assert_int_equal(scene->crew.self.state, MEMBER_STOPPED); /* the controller learns of that */
    assert_int_equal(scene->crew.self.attempt, 3);
    assert_false(launch_crew_is_meant(&scene->launch, &start));
}

static void an_order_is_taken_while_there_is_contact(void **state)
{
    struct scene *scene = *state;
    struct decision start = start_of(3, "n1", 7);

    launch_crew_turn(&scene->launch); /* reports; not acknowledged yet, but the order came */
    assert_false(launch_crew_refuses(&scene->launch, &start));
    scene->crew.acked_ns = time_boot_ns() - NS_PER_S;
    assert_false(launch_crew_refuses(&scene->launch, &start));
}

/* The process that waits for orders was stopped, with this one in its hands; reports went on. */
static void an_order_that_lay_somewhere_is_refused(void **state)
{
    struct scene *scene = *state;
    struct decision start = start_of(3, "n1", 7);

    scene->crew.acked_ns = time_boot_ns();
    start.decided_real_ns -= 7 * NS_PER_S;
    assert_false(launch_crew_refuses(&scene->launch, &start));
    start.decided_real_ns -= 3 * NS_PER_S;
    assert_true(launch_crew_refuses(&scene->launch, &start));
    assert_int_equal(scene->crew.self.state, MEMBER_STOPPED);
}

static void the_end_of_another_launcher_of_this_name_is_not_meant(void **state)
{
    struct scene *scene = *state;
    struct decision end = { .id = "d2",
                            .of = "00000008",
                            .action = ACTION_END,
                            .target = TARGET_NODES,
                            .node_count = 1,
                            .node = { "n1" },
                            .argument = 2 };

    assert_false(launch_crew_is_meant(&scene->launch, &end));
    strcpy(end.of, "00000007");
    assert_true(launch_crew_is_meant(&scene->launch, &end));
    launch_crew_order(&scene->launch, &end);
    assert_int_equal(launch_crew_status(&scene->launch, 0), 2);
    assert_false(launch_crew_reports_end(&scene->launch)); /* the run goes on */
}

#define SCENE(name) cmocka_unit_test_setup_teardown(name, scene_make, scene_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(a_later_attempt_ends_an_earlier_one),
        SCENE(an_order_is_refused_after_a_time_without_contact),
        SCENE(an_order_is_taken_while_there_is_contact),
        SCENE(an_order_that_lay_somewhere_is_refused),
        SCENE(the_end_of_another_launcher_of_this_name_is_not_meant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
