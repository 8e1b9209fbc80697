/* test-cause.c - which findings explain a verdict, and which do not.
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

#include "core/clean.h"
#include "core/time.h"
#include "judge/cause.h"
#include "judge/settings.h"

#define NOW (INT64_C(1790000000) * NS_PER_S)
#define PID(rank) (1000 + (rank))

struct scene {
    struct judge_state judge;
    struct tracked_verdict *tracked;
    struct finding finding[8];
    const struct finding *list[8];
    size_t count;
};

/* Four ranks on two nodes, and one verdict about rank 2 on n1, which began now. */
static void scene_begin(struct scene *scene, unsigned kind, unsigned layer)
{
    struct verdict draft = {
        .kind = (uint8_t)kind, .layer = (uint8_t)layer, .confidence = 0.9, .since_real_ns = NOW
    };
    bool fresh;

    *scene = (struct scene){ .count = 0 };
    assert_int_equal(judge_state_init(&scene->judge, "r"), 0);
    assert_int_equal(model_resize(&scene->judge.model, 4), 0);
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct fact_ring ring = { .rank = rank, .world = 4, .pid = PID(rank) };

        snprintf(ring.node, sizeof(ring.node), "n%u", rank / 2);
        assert_int_equal(model_ring(&scene->judge.model, &ring), 0);
    }
    judge_state_add_rank(&scene->judge, &draft, 2);
    snprintf(draft.cause, sizeof(draft.cause), "slow");
    verdict_because(&draft, "ring", "it is");
    scene->tracked = judge_state_find(&scene->judge, &draft, &fresh);
    assert_non_null(scene->tracked);
    scene->tracked->changed = false;
}

static struct finding *add(struct scene *scene, unsigned kind, const char *node, int64_t second)
{
    struct finding *finding = &scene->finding[scene->count];

    *finding = (struct finding){ .real_ns = NOW + second * NS_PER_S,
                                 .kind = (uint8_t)kind,
                                 .class = FINDING_CLASS_HARDWARE,
                                 .severity = FINDING_ERROR,
                                 .origin = FINDING_FROM_KERNEL,
                                 .count = 1 };
    snprintf(finding->node, sizeof(finding->node), "%s", node);
    snprintf(finding->device, sizeof(finding->device), "d%zu", scene->count);
    snprintf(finding->text, sizeof(finding->text), "%s broke, device d%zu", finding_kind_name(kind),
             scene->count);
    finding_identify(finding);
    scene->list[scene->count] = finding;
    scene->count++;
    return finding;
}

static unsigned judged(struct scene *scene)
{
    cause_judge(&scene->judge, &(struct cause_facts){ .finding = scene->list,
                                                      .count = scene->count,
                                                      .bridge_ns = 7 * NS_PER_S,
                                                      .now_real_ns = NOW + 10 * NS_PER_S });
    return scene->tracked->verdict.layer;
}

static void scene_end(struct scene *scene)
{
    judge_state_fini(&scene->judge);
}

static void a_slow_rank_on_a_narrow_link_is_explained_by_it(void **state)
{
    struct scene scene;
    const struct verdict *verdict;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_GPU);
    add(&scene, FINDING_PCIE, "n1", -5);
    add(&scene, FINDING_GPU_CLOCK, "n1", 2);
    assert_int_equal(judged(&scene), LAYER_PCIE);
    verdict = &scene.tracked->verdict;
    assert_string_equal(verdict->cause, "pcie broke");
    assert_string_equal(verdict->device, "d0");
    assert_int_equal(verdict->because_count, 2);
    assert_int_equal(verdict->echo_count, 1); /* the later one follows from it */
    assert_true(scene.tracked->changed);
    scene.tracked->changed = false;
    assert_int_equal(judged(&scene), LAYER_PCIE);
    assert_false(scene.tracked->changed); /* nothing new */
    scene_end(&scene);
}

static void the_disk_explains_the_rank_that_waits_for_data(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_DATA);
    add(&scene, FINDING_GPU_CLOCK, "n1", -20); /* another kind: the GPU does not wait for data */
    add(&scene, FINDING_NVME, "n1", -10);
    assert_int_equal(judged(&scene), LAYER_STORAGE);
    assert_string_equal(scene.tracked->verdict.device, "d1");
    scene_end(&scene);
}

static void heat_of_a_cpu_slows_no_gpu_and_that_of_a_gpu_no_cpu(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_GPU);
    add(&scene, FINDING_THERMAL, "n1", -5);
    assert_int_equal(judged(&scene), LAYER_GPU);
    add(&scene, FINDING_GPU_CLOCK, "n1", -5);
    assert_int_equal(judged(&scene), LAYER_THERMAL);
    assert_string_equal(scene.tracked->verdict.device, "d1");
    scene_end(&scene);
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_CPU);
    add(&scene, FINDING_GPU_CLOCK, "n1", -5);
    assert_int_equal(judged(&scene), LAYER_CPU);
    scene_end(&scene);
}

static void pressure_is_evidence_beside_a_rank_that_lacks_cpu_time(void **state)
{
    struct finding *pressure, same;
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_CPU);
    pressure = add(&scene, FINDING_HOST_PRESSURE, "n1", -5);
    pressure->code = FINDING_PRESSURE_CPU;
    pressure->origin = FINDING_FROM_SENSOR;
    snprintf(pressure->text, sizeof(pressure->text), "processes wait for a CPU: 81 %%");
    judged(&scene);
    snprintf(pressure->text, sizeof(pressure->text), "processes wait for a CPU: 92 %%");
    judged(&scene);
    assert_int_equal(scene.tracked->verdict.because_count, 2); /* once */
    assert_string_equal(scene.tracked->verdict.cause, "slow");
    assert_true(scene.tracked->verdict.confidence > 0.8);
    same = *pressure;
    add(&scene, FINDING_EDAC, "n1", -3); /* a cause, though it is later */
    assert_int_equal(judged(&scene), LAYER_HOST_MEMORY);
    scene_end(&scene);
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_GPU);
    *add(&scene, FINDING_HOST_PRESSURE, "n1", -5) = same;
    judged(&scene);
    assert_int_equal(scene.tracked->verdict.because_count, 1);
    scene_end(&scene);
}

static void what_a_judge_learns_later_does_not_undo_the_cause(void **state)
{
    struct scene scene;
    struct verdict draft;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_DATA);
    add(&scene, FINDING_NVME, "n1", -10);
    assert_int_equal(judged(&scene), LAYER_STORAGE);
    draft = scene.tracked->verdict;
    draft.layer = LAYER_DATA;
    snprintf(draft.cause, sizeof(draft.cause), "slower still");
    judge_state_renew(scene.tracked, &draft);
    assert_int_equal(judged(&scene), LAYER_STORAGE);
    draft.layer = LAYER_CPU; /* and this contradicts it */
    judge_state_renew(scene.tracked, &draft);
    assert_int_equal(judged(&scene), LAYER_CPU);
    scene_end(&scene);
}

static void other_nodes_times_kinds_and_processes_explain_nothing(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_GPU);
    add(&scene, FINDING_GPU_CLOCK, "n0", -5);      /* another node */
    add(&scene, FINDING_GPU_CLOCK, "n1", -4000);   /* throttled before the job began */
    add(&scene, FINDING_NVME, "n1", -5);           /* a disk is no reason for a slow GPU */
    add(&scene, FINDING_XID, "n1", -5)->code = 13; /* the program's own fault */
    scene.finding[3].pid = PID(3);                 /* and of another rank */
    add(&scene, FINDING_GPU_POWER, "n1", -5)->origin = FINDING_FROM_USER;
    assert_int_equal(judged(&scene), LAYER_GPU);
    assert_false(scene.tracked->changed);
    scene_end(&scene);
}

static void a_line_about_the_process_outweighs_an_earlier_one_about_its_node(void **state)
{
    struct scene scene;
    struct finding *xid;

    (void)state;
    scene_begin(&scene, VERDICT_CRASH, LAYER_UNKNOWN);
    add(&scene, FINDING_AER, "n1", -50);
    xid = add(&scene, FINDING_XID, "n1", -2);
    xid->code = 48;
    xid->pid = PID(2);
    assert_int_equal(judged(&scene), LAYER_GPU_MEMORY);
    assert_true(scene.tracked->verdict.confidence >= 0.95);
    scene_end(&scene);
}

/* The collective times out ten minutes after the error that stopped the rank. */
static void an_error_of_the_process_explains_a_timeout_ten_minutes_later(void **state)
{
    static const unsigned kinds[] = { VERDICT_HANG, VERDICT_CRASH };

    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct scene scene;
        struct finding *xid;

        scene_begin(&scene, kinds[i], LAYER_UNKNOWN);
        xid = add(&scene, FINDING_XID, "n1", -600);
        xid->code = 48;
        xid->pid = PID(3);
        assert_int_equal(judged(&scene), LAYER_UNKNOWN); /* of another rank */
        xid->pid = PID(2);
        assert_int_equal(judged(&scene), LAYER_GPU_MEMORY);
        scene_end(&scene);
    }
}

static void a_port_explains_slow_transfers(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_SYNC_STALL, LAYER_FABRIC);
    add(&scene, FINDING_PORT, "n1", -3);
    assert_int_equal(judged(&scene), LAYER_NIC);
    assert_true(scene.tracked->verdict.confidence <= 0.8); /* only its node is named */
    scene_end(&scene);
}

static struct finding *add_port(struct scene *scene, unsigned severity, int64_t second)
{
    struct finding *finding = add(scene, FINDING_PORT, "n1", second);

    finding->code = FINDING_PORT_DOWN;
    finding->severity = (uint8_t)severity;
    finding->origin = FINDING_FROM_SENSOR;
    snprintf(finding->text, sizeof(finding->text), "port mlx5_3/1 is down");
    return finding;
}

/* The scene's NCCL retries for 7 s, and it is judged 10 s after the verdict began. */
static void a_port_that_is_down_longer_than_nccl_retries_is_the_cause(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_HANG, LAYER_UNKNOWN);
    add_port(&scene, FINDING_ERROR, 1);
    assert_int_equal(judged(&scene), LAYER_NIC);
    assert_string_equal(scene.tracked->verdict.cause,
                        "port mlx5_3/1 is down, longer than the 7.0 s for which NCCL retries");
    scene_end(&scene);
    scene_begin(&scene, VERDICT_CRASH, LAYER_UNKNOWN);
    add_port(&scene, FINDING_ERROR, -5);
    assert_int_equal(judged(&scene), LAYER_NIC);
    scene_end(&scene);
}

static void a_port_that_nccl_bridges_ends_nothing(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_HANG, LAYER_FABRIC);
    add_port(&scene, FINDING_ERROR, 5); /* for 5 s until now */
    assert_int_equal(judged(&scene), LAYER_FABRIC);
    scene_end(&scene);
    scene_begin(&scene, VERDICT_HANG, LAYER_FABRIC);
    add_port(&scene, FINDING_WARN, -3)->count = 4; /* it was, for 4 s */
    assert_int_equal(judged(&scene), LAYER_FABRIC);
    scene.finding[0].count = 9;
    assert_int_equal(judged(&scene), LAYER_NIC);
    scene_end(&scene);
    scene_begin(&scene, VERDICT_SYNC_STALL, LAYER_FABRIC); /* but it slows */
    add_port(&scene, FINDING_WARN, -3)->count = 4;
    assert_int_equal(judged(&scene), LAYER_NIC);
    scene_end(&scene);
}

static void an_unused_port_explains_nothing(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_SYNC_STALL, LAYER_FABRIC);
    add_port(&scene, FINDING_INFO, -3);
    assert_int_equal(judged(&scene), LAYER_FABRIC);
    scene_end(&scene);
    scene_begin(&scene, VERDICT_HANG, LAYER_FABRIC);
    add_port(&scene, FINDING_INFO, -30);
    assert_int_equal(judged(&scene), LAYER_FABRIC);
    scene_end(&scene);
}

/* ---- node faults ---- */

static const struct tracked_verdict *node_fault(const struct scene *scene)
{
    const struct tracked_verdict *fault = NULL;

    for (uint32_t i = 0; i < scene->judge.verdicts.count; i++) {
        if (scene->judge.verdicts.tracked[i]->verdict.kind != VERDICT_NODE_FAULT)
            continue;
        assert_null(fault); /* one */
        fault = scene->judge.verdicts.tracked[i];
    }
    return fault;
}

/* The scene is judged 10 s after the verdict about rank 2 began. */
static void what_hurts_no_rank_is_a_fault_of_its_node(void **state)
{
    const struct tracked_verdict *fault;
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_GPU);
    add(&scene, FINDING_NVME, "n1", -20);
    judged(&scene);
    assert_null(node_fault(&scene)); /* it may still hurt one */
    scene.finding[0].real_ns -= 60 * NS_PER_S;
    assert_int_equal(judged(&scene), LAYER_GPU);
    fault = node_fault(&scene);
    assert_non_null(fault);
    assert_true(fault->open && fault->changed);
    assert_int_equal(fault->verdict.rank_count, 0);
    assert_int_equal(fault->verdict.layer, LAYER_STORAGE);
    assert_string_equal(fault->verdict.node[0], "n1");
    assert_string_equal(fault->verdict.device, "d0");
    assert_string_equal(fault->verdict.cause, "nvme broke");
    assert_int_equal(fault->verdict.because_count, 2);
    scene.judge.verdicts.tracked[1]->changed = false;
    judged(&scene);
    assert_false(node_fault(&scene)->changed); /* nothing new */
    scene.finding[0].real_ns -= 3600 * NS_PER_S;
    judged(&scene);
    assert_false(node_fault(&scene)->open);
    assert_true(node_fault(&scene)->verdict.until_real_ns > 0);
    scene_end(&scene);
}

static void what_foretells_is_a_fault_at_once_with_its_forecast(void **state)
{
    struct finding *rising;
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_GPU);
    rising = add(&scene, FINDING_EDAC, "n0", 9);
    rising->severity = FINDING_INFO;
    rising->origin = FINDING_FROM_SENSOR;
    judged(&scene);
    assert_null(node_fault(&scene)); /* information only */
    snprintf(rising->text, sizeof(rising->text), "memory errors of mc0 rise; forecast: more");
    judged(&scene);
    assert_non_null(node_fault(&scene));
    assert_string_equal(node_fault(&scene)->verdict.cause, "memory errors of mc0 rise");
    assert_non_null(strstr(node_fault(&scene)->verdict.because[0].what, "forecast: more"));
    assert_true(node_fault(&scene)->verdict.confidence < 0.8);
    scene_end(&scene);
}

static void the_most_severe_finding_of_a_device_is_its_fault(void **state)
{
    struct finding *second;
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_DATA);
    add(&scene, FINDING_GPU_ECC, "n1", -200)->severity = FINDING_WARN;
    judged(&scene);
    assert_string_equal(node_fault(&scene)->verdict.cause, "gpu-ecc broke");
    second = add(&scene, FINDING_XID, "n1", -100);
    second->code = 79;
    snprintf(second->device, sizeof(second->device), "d0");
    judged(&scene);
    assert_string_equal(node_fault(&scene)->verdict.cause, "xid broke");
    assert_int_equal(node_fault(&scene)->verdict.because_count, 3);
    scene_end(&scene);
}

static void a_fault_that_hurts_a_rank_after_all_is_over(void **state)
{
    struct verdict draft;
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_GPU);
    add(&scene, FINDING_NVME, "n1", -80)->origin = FINDING_FROM_SENSOR;
    judged(&scene);
    assert_true(node_fault(&scene)->open);
    draft = scene.tracked->verdict;
    draft.layer = LAYER_DATA; /* the judge knows better now */
    judge_state_renew(scene.tracked, &draft);
    assert_int_equal(judged(&scene), LAYER_STORAGE);
    assert_false(node_fault(&scene)->open);
    assert_non_null(strstr(node_fault(&scene)->verdict.because[2].what, scene.tracked->verdict.id));
    judged(&scene);
    assert_false(node_fault(&scene)->open);
    scene_end(&scene);
}

static void programs_other_nodes_and_busy_disks_are_no_fault(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_CPU);
    add(&scene, FINDING_XID, "n1", -100)->class = FINDING_CLASS_APP;
    add(&scene, FINDING_NVME, "n1", -100)->origin = FINDING_FROM_USER;
    add(&scene, FINDING_NVME, "n9", -100);
    add(&scene, FINDING_STORAGE, "n1", -100)->severity = FINDING_WARN;
    add(&scene, FINDING_PCIE, "n1", -100)->severity = FINDING_WARN;
    add_port(&scene, FINDING_WARN, -100); /* it is up again */
    add(&scene, FINDING_HOST_PRESSURE, "n1", -100);
    judged(&scene);
    assert_null(node_fault(&scene));
    scene_end(&scene);
}

/* ---- settings ---- */

static int64_t bridge_ms(const char *library, const char *timeout, const char *retries)
{
    struct setting setting[3] = { { NULL, NULL, NULL, 0, 0 } };
    size_t count = 0;

    if (library)
        setting[count++] = (struct setting){ "library", library, "", 4, 0 };
    if (timeout)
        setting[count++] = (struct setting){ "NCCL_IB_TIMEOUT", timeout, "", 4, 0 };
    if (retries)
        setting[count++] = (struct setting){ "NCCL_IB_RETRY_CNT", retries, "", 4, 0 };
    return settings_port_bridge_ns(setting, count) / NS_PER_MS;
}

static void nccl_retries_as_its_version_and_its_settings_say(void **state)
{
    (void)state;
    assert_int_equal(bridge_ms(NULL, NULL, NULL), 30064); /* 4.096 us x 2^20 x 7 */
    assert_int_equal(bridge_ms("libnccl.so.2.28.9 8c1d", NULL, NULL), 30064);
    assert_int_equal(bridge_ms("libnccl.so.2.18.3", NULL, NULL), 7516);
    assert_int_equal(bridge_ms("libnccl.so.2.11.4", NULL, NULL), 469);
    assert_int_equal(bridge_ms("libnccl.so.2.28.9", "22", "7"), 120259);
    assert_int_equal(bridge_ms("libnccl.so.2.28.9", "14", "2"), 134);
    assert_int_equal(bridge_ms("libnccl.so.2.28.9", "no number", "-3"), 30064);
    assert_int_equal(bridge_ms("libnccl.so.2.28.9", "63", "99"), 30064); /* as if not set */
}

static void settings_that_slow_communication_are_evidence_of_a_sync_stall(void **state)
{
    const struct setting setting[] = { { "NCCL_P2P_DISABLE", "1", "n1", 2, 2 },
                                       { "NCCL_SOCKET_IFNAME", "docker0", "", 4, 0 },
                                       { "NCCL_SOCKET_IFNAME", "ib0", "n0", 2, 0 },
                                       { "NCCL_DEBUG", "INFO", "", 4, 0 },
                                       { "NCCL_IB_DISABLE", "0", "", 4, 0 } };
    const struct verdict *verdict;
    struct scene scene;

    (void)state;
    scene_begin(&scene, VERDICT_SYNC_STALL, LAYER_FABRIC);
    verdict = &scene.tracked->verdict;
    settings_judge(&scene.judge, setting, COUNT(setting));
    assert_int_equal(verdict->because_count, 3);
    assert_string_equal(verdict->because[1].what,
                        "NCCL_P2P_DISABLE=1 on node n1: GPUs of a node do "
                        "not exchange data directly");
    assert_string_equal(verdict->because[1].source, "environment");
    assert_string_equal(verdict->because[2].what,
                        "NCCL_SOCKET_IFNAME=docker0 on 4 ranks: this interface does not lead to "
                        "other nodes");
    assert_int_equal(verdict->layer, LAYER_FABRIC); /* evidence, no cause */
    assert_true(scene.tracked->changed);
    scene.tracked->changed = false;
    settings_judge(&scene.judge, setting, COUNT(setting));
    assert_int_equal(verdict->because_count, 3);
    assert_false(scene.tracked->changed);
    scene_end(&scene);
    scene_begin(&scene, VERDICT_STRAGGLER, LAYER_GPU); /* of another kind it says nothing */
    settings_judge(&scene.judge, setting, COUNT(setting));
    assert_int_equal(scene.tracked->verdict.because_count, 1);
    scene_end(&scene);
}

static bool shares(const char *storage, const char *name, const char *value)
{
    const struct setting setting[] = { { "storage.interface", storage, "n1", 2, 2 },
                                       { name, value, "", 4, 0 },
                                       { "NCCL_SOCKET_IFNAME", "other0", "n0", 2, 0 } };
    struct scene scene;
    bool said;

    scene_begin(&scene, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT);
    settings_judge(&scene.judge, setting, COUNT(setting));
    said = scene.tracked->verdict.because_count == 2;
    if (said)
        assert_non_null(strstr(scene.tracked->verdict.because[1].what,
                               "on node n1: storage and NCCL share this network adapter"));
    scene_end(&scene);
    return said;
}

static void storage_and_nccl_on_one_adapter_are_evidence_for_a_slow_save(void **state)
{
    (void)state;
    assert_true(shares("ib0 mlx5_0", "OMP_NUM_THREADS", "1")); /* NCCL takes all that there are */
    assert_true(shares("ib0 mlx5_0", "NCCL_IB_HCA", "mlx5_2,mlx5_0:1"));
    assert_false(shares("ib0 mlx5_0", "NCCL_IB_HCA", "mlx5_2,mlx5_3"));
    assert_false(shares("ib0 mlx5_0", "NCCL_IB_HCA", "^mlx5_0"));
    assert_false(shares("ib0 mlx5_0", "NCCL_IB_DISABLE", "1"));
    assert_true(shares("eth0", "NCCL_SOCKET_IFNAME", "eth"));
    assert_true(shares("eth0", "NCCL_SOCKET_IFNAME", "^docker,lo"));
    assert_false(shares("eth0", "NCCL_SOCKET_IFNAME", "=eth"));
    assert_false(shares("eth0", "OMP_NUM_THREADS", "1")); /* which one it takes is not known */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_rank_on_a_narrow_link_is_explained_by_it),
        cmocka_unit_test(the_disk_explains_the_rank_that_waits_for_data),
        cmocka_unit_test(heat_of_a_cpu_slows_no_gpu_and_that_of_a_gpu_no_cpu),
        cmocka_unit_test(pressure_is_evidence_beside_a_rank_that_lacks_cpu_time),
        cmocka_unit_test(what_a_judge_learns_later_does_not_undo_the_cause),
        cmocka_unit_test(other_nodes_times_kinds_and_processes_explain_nothing),
        cmocka_unit_test(a_line_about_the_process_outweighs_an_earlier_one_about_its_node),
        cmocka_unit_test(an_error_of_the_process_explains_a_timeout_ten_minutes_later),
        cmocka_unit_test(a_port_explains_slow_transfers),
        cmocka_unit_test(a_port_that_is_down_longer_than_nccl_retries_is_the_cause),
        cmocka_unit_test(a_port_that_nccl_bridges_ends_nothing),
        cmocka_unit_test(an_unused_port_explains_nothing),
        cmocka_unit_test(what_hurts_no_rank_is_a_fault_of_its_node),
        cmocka_unit_test(what_foretells_is_a_fault_at_once_with_its_forecast),
        cmocka_unit_test(the_most_severe_finding_of_a_device_is_its_fault),
        cmocka_unit_test(a_fault_that_hurts_a_rank_after_all_is_over),
        cmocka_unit_test(programs_other_nodes_and_busy_disks_are_no_fault),
        cmocka_unit_test(nccl_retries_as_its_version_and_its_settings_say),
        cmocka_unit_test(storage_and_nccl_on_one_adapter_are_evidence_for_a_slow_save),
        cmocka_unit_test(settings_that_slow_communication_are_evidence_of_a_sync_stall),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
