/* test-postmortem-kernel.c - lines of kernel logs beside the verdicts of a run: which join, and which do not.
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

#include "autopsy/postmortem.h"
#include "core/clean.h"

#define S INT64_C(1000000000)
#define BEGAN (1000000 * S) /* all ranks of the first attempt */
#define THEN (BEGAN + 500 * S)

/* Two nodes with two ranks each, in two attempts; numbers of processes are the same on both nodes. */
static const struct logprocess processes[] = {
    { 0, 0, 100, "n0", BEGAN, BEGAN - 9000 * S },
    { 1, 0, 101, "n0", BEGAN, BEGAN - 9000 * S },
    { 2, 0, 100, "n1", BEGAN, BEGAN - 50 * S },
    { 3, 0, 101, "n1", BEGAN, BEGAN - 50 * S },
    { 0, 1, 200, "n0", BEGAN + 520 * S, BEGAN - 9000 * S },
    { 1, 1, 201, "n0", BEGAN + 520 * S, BEGAN - 9000 * S },
};

struct scene {
    struct log_event event[8];
    struct logs logs;
    struct verdict verdict[2];
    struct postmortem_watched watched;
    struct findings findings;
};

static void scene_init(struct scene *scene, unsigned kind, unsigned layer, uint32_t rank)
{
    struct verdict *verdict = &scene->verdict[0];

    memset(scene, 0, sizeof(*scene));
    scene->logs.event = scene->event;
    scene->watched = (struct postmortem_watched){ .run = "run",
                                                  .process = processes,
                                                  .processes = COUNT(processes),
                                                  .verdict = scene->verdict,
                                                  .verdicts = 1 };
    *verdict = (struct verdict){ .run = "run",
                                 .kind = (uint8_t)kind,
                                 .layer = (uint8_t)layer,
                                 .cause = "as it was seen",
                                 .confidence = 0.9,
                                 .since_real_ns = THEN,
                                 .decided_real_ns = THEN + 12 * S };
    if (rank != LOG_EVENT_NO_RANK) {
        verdict->rank_count = verdict->node_count = 1;
        verdict->rank[0] = rank;
        snprintf(verdict->node[0], sizeof(verdict->node[0]), "n%u", rank / 2);
    }
    verdict_because(verdict, "launcher", "seen");
    verdict_identify(verdict);
}

static struct log_event *line(struct scene *scene, unsigned kind, unsigned layer, const char *node,
                              uint32_t pid, int64_t real_ns)
{
    struct log_event *event = &scene->event[scene->logs.events++];

    *event = (struct log_event){ .kind = (uint8_t)kind,
                                 .layer = (uint8_t)layer,
                                 .rank = LOG_EVENT_NO_RANK,
                                 .pid = pid,
                                 .line = (uint32_t)scene->logs.events,
                                 .real_ns = real_ns,
                                 .file = "dmesg.txt" };
    snprintf(event->node, sizeof(event->node), "%s", node);
    snprintf(event->cause, sizeof(event->cause), "%s by the kernel", verdict_layer_name(layer));
    snprintf(event->text, sizeof(event->text), "a line about %s", verdict_layer_name(layer));
    return event;
}

static const struct verdict *judged(struct scene *scene)
{
    assert_int_equal(postmortem_kernel(&scene->watched, &scene->logs, &scene->findings), 0);
    return &scene->verdict[0];
}

static void unchanged(struct scene *scene)
{
    struct verdict before = scene->verdict[0];

    judged(scene);
    assert_memory_equal(&before, &scene->verdict[0], sizeof(before));
    assert_int_equal(scene->findings.count, 0);
    findings_fini(&scene->findings);
}

static void the_process_a_line_names_is_why_its_rank_died(void **state)
{
    const struct verdict *verdict;
    struct scene scene;

    scene_init(&scene, VERDICT_CRASH, LAYER_USER_CODE, 3);
    line(&scene, LOG_EVENT_XID, LAYER_PCIE, "n1.example.org", 101, THEN - S);
    verdict = judged(&scene);
    assert_int_equal(verdict->layer, LAYER_PCIE);
    assert_string_equal(verdict->cause, "pcie by the kernel");
    assert_string_equal(verdict->because[1].source, "kernel log");
    assert_true(verdict->confidence >= 0.95);
    (void)state;
}

static void the_same_number_on_another_node_or_at_another_time_is_somebody_else(void **state)
{
    struct scene scene;

    scene_init(&scene, VERDICT_CRASH, LAYER_UNKNOWN, 3);
    line(&scene, LOG_EVENT_XID, LAYER_PCIE, "n0", 101, THEN - S);
    line(&scene, LOG_EVENT_OOM_KILL, LAYER_HOST_MEMORY, "n1", 101, BEGAN - 60 * S);
    line(&scene, LOG_EVENT_XID, LAYER_PCIE, "n1", 555, THEN - S);
    line(&scene, LOG_EVENT_OOM_KILL, LAYER_HOST_MEMORY, "n7", 101, THEN);
    line(&scene, LOG_EVENT_NODE, LAYER_CPU, "n1", 0, THEN - 300 * S);
    line(&scene, LOG_EVENT_NODE, LAYER_CPU, "n0", 0, THEN);
    line(&scene, LOG_EVENT_NODE, LAYER_CPU, "", 0, THEN); /* of which node? */
    /* rank 1's Xid moves nothing: rank 3 ended later than a minute after it would have been told */
    scene.event[0].real_ns = THEN - 300 * S;
    unchanged(&scene);
    (void)state;
}

static void a_file_may_say_whose_log_it_is(void **state)
{
    struct scene scene;

    scene_init(&scene, VERDICT_CRASH, LAYER_UNKNOWN, 3);
    strcpy(line(&scene, LOG_EVENT_OOM_KILL, LAYER_HOST_MEMORY, "", 101, THEN)->file, "kern-n1.log");
    assert_int_equal(judged(&scene)->layer, LAYER_HOST_MEMORY);
    scene_init(&scene, VERDICT_CRASH, LAYER_UNKNOWN, 3);
    strcpy(line(&scene, LOG_EVENT_OOM_KILL, LAYER_HOST_MEMORY, "", 101, THEN)->file,
           "kern-n11.log");
    unchanged(&scene);
    (void)state;
}

static void seconds_since_boot_are_those_of_the_node(void **state)
{
    struct scene scene;

    scene_init(&scene, VERDICT_CRASH, LAYER_UNKNOWN, 3);
    line(&scene, LOG_EVENT_OOM_KILL, LAYER_HOST_MEMORY, "n1", 101, 0)->boot_ns = 550 * S;
    assert_int_equal(judged(&scene)->layer, LAYER_HOST_MEMORY);
    scene_init(&scene, VERDICT_CRASH, LAYER_UNKNOWN, 3);
    line(&scene, LOG_EVENT_OOM_KILL, LAYER_HOST_MEMORY, "n1", 101, 0)->boot_ns = 9500 * S;
    unchanged(&scene);
    (void)state;
}

static void kinds_must_fit(void **state)
{
    static const struct {
        unsigned kind, layer, line;
        bool joins;
    } rows[] = {
        { VERDICT_HANG, LAYER_DATA, LAYER_STORAGE, true },
        { VERDICT_HANG, LAYER_USER_CODE, LAYER_STORAGE, false },
        { VERDICT_HANG, LAYER_DATA, LAYER_NIC, false },
        { VERDICT_HANG, LAYER_GPU, LAYER_PCIE, true },
        { VERDICT_CRASH, LAYER_UNKNOWN, LAYER_STORAGE, false },
        { VERDICT_CRASH, LAYER_UNKNOWN, LAYER_HOST_MEMORY, true },
        { VERDICT_CRASH, LAYER_USER_CODE, LAYER_HOST_MEMORY, false },
        { VERDICT_SYNC_STALL, LAYER_FABRIC, LAYER_NIC, true },
        { VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT, LAYER_STORAGE, true },
        { VERDICT_REGRESSION, LAYER_UNKNOWN, LAYER_CPU, false },
        { VERDICT_DESYNC, LAYER_USER_CODE, LAYER_PCIE, false },
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct scene scene;

        scene_init(&scene, rows[i].kind, rows[i].layer, 2);
        line(&scene, LOG_EVENT_NODE, rows[i].line, "n1", 0, THEN + S);
        if (!rows[i].joins)
            unchanged(&scene);
        else
            assert_int_equal(judged(&scene)->layer, rows[i].line);
    }
    (void)state;
}

static void a_device_does_not_make_cpus_scarce(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct scene scene;

        scene_init(&scene, VERDICT_STRAGGLER, i ? LAYER_GPU : LAYER_CPU, 2);
        line(&scene, LOG_EVENT_XID, LAYER_GPU_MEMORY, "n1", 100, THEN + S);
        if (i)
            assert_int_equal(judged(&scene)->layer, LAYER_GPU_MEMORY);
        else
            unchanged(&scene);
    }
    (void)state;
}

static void what_names_nobody_gets_its_node(void **state)
{
    const struct verdict *verdict;
    struct scene scene;

    scene_init(&scene, VERDICT_HANG, LAYER_FABRIC, LOG_EVENT_NO_RANK);
    line(&scene, LOG_EVENT_NODE, LAYER_NIC, "n1", 0, THEN - S);
    verdict = judged(&scene);
    assert_int_equal(verdict->layer, LAYER_NIC);
    assert_int_equal(verdict->node_count, 1);
    assert_string_equal(verdict->node[0], "n1");
    assert_int_equal(verdict->rank_count, 0);
    assert_true(verdict->confidence <= 0.8);
    (void)state;
}

static void the_earliest_wins_and_the_rest_are_echoes(void **state)
{
    const struct verdict *verdict;
    struct scene scene;

    scene_init(&scene, VERDICT_CRASH, LAYER_UNKNOWN, 2);
    line(&scene, LOG_EVENT_XID, LAYER_GPU, "n1", 100, THEN);
    line(&scene, LOG_EVENT_XID, LAYER_GPU_MEMORY, "n1", 100, THEN - 3 * S);
    line(&scene, LOG_EVENT_NODE, LAYER_CPU, "n1", 0,
         THEN - 30 * S); /* says less than its own lines */
    verdict = judged(&scene);
    assert_int_equal(verdict->layer, LAYER_GPU_MEMORY);
    assert_int_equal(verdict->echo_count, 1);
    assert_string_equal(verdict->echo[0].what, "a line about gpu");
    (void)state;
}

static void one_that_was_killed_before_another_ended_is_the_culprit(void **state)
{
    const struct verdict *verdict;
    struct scene scene;

    scene_init(&scene, VERDICT_CRASH, LAYER_USER_CODE, 0);
    line(&scene, LOG_EVENT_OOM_KILL, LAYER_HOST_MEMORY, "n1", 101, THEN - S);
    verdict = judged(&scene);
    assert_int_equal(verdict->rank_count, 1);
    assert_int_equal(verdict->rank[0], 3);
    assert_int_equal(verdict->layer, LAYER_HOST_MEMORY);
    assert_string_equal(verdict->node[0], "n1");
    assert_string_equal(verdict->echo[0].what, "rank 0: as it was seen");
    (void)state;
}

static void a_device_that_failed_under_a_process_is_told_alone(void **state)
{
    struct scene scene;

    scene_init(&scene, VERDICT_CRASH, LAYER_UNKNOWN, 0);
    scene.watched.verdicts = 0;
    line(&scene, LOG_EVENT_XID, LAYER_GPU_MEMORY, "n1", 101, THEN);
    line(&scene, LOG_EVENT_XID, LAYER_GPU_MEMORY, "n1", 777, THEN); /* not one of ours */
    line(&scene, LOG_EVENT_NODE, LAYER_NIC, "n0", 0, THEN);         /* and it trains all the same */
    judged(&scene);
    assert_int_equal(scene.findings.count, 1);
    assert_int_equal(scene.findings.verdict[0].kind, VERDICT_NODE_FAULT);
    assert_int_equal(scene.findings.verdict[0].rank[0], 3);
    findings_fini(&scene.findings);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_a_line_names_is_why_its_rank_died),
        cmocka_unit_test(the_same_number_on_another_node_or_at_another_time_is_somebody_else),
        cmocka_unit_test(a_file_may_say_whose_log_it_is),
        cmocka_unit_test(seconds_since_boot_are_those_of_the_node),
        cmocka_unit_test(kinds_must_fit),
        cmocka_unit_test(a_device_does_not_make_cpus_scarce),
        cmocka_unit_test(what_names_nobody_gets_its_node),
        cmocka_unit_test(the_earliest_wins_and_the_rest_are_echoes),
        cmocka_unit_test(one_that_was_killed_before_another_ended_is_the_culprit),
        cmocka_unit_test(a_device_that_failed_under_a_process_is_told_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
