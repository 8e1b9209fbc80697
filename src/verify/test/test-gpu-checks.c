/* test-gpu-checks.c - the checks that run on GPUs, over scripted drivers: each fault is found, and where it is.
 *
 * The scripted driver runs the kernels' source on the host, so this shows that a wrong bit is found and named.  It does not show that
 * the PTX runs on a GPU.
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
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/remove_tree.h"
#include "core/clean.h"
#include "core/time.h"
#include "device/kernel/gpu_kernels.h"
#include "verify/checks.h"
#include "verify/gpu/gpu_reference.h"
#include "verify/gpu/numa_nodes.h"
#include "verify/machine_profile.h"

#define FOUR                                                                                       \
    "cuda.count value 4\nnvml.count value 4\ncuda.*.multiprocessors value 8\n"                     \
    "cuda.*.free value 4194304\nnvml.*.gpu-busy value 0\n"

static char script[] = "/tmp/test-gpu-checks-XXXXXX";
static const struct machine_profile *profile_of_test;

static void gpu_test_profile_clean(struct machine_profile **profile)
{
    machine_profile_destroy(*profile);
}

/* The script is read again when it changes, so a new file takes its place. */
static uint32_t flip_sm;
static const char *root_of_test = "";
static unsigned gpu_stage = VERIFY_PROLOG;
static int64_t heat_ns = 20 * NS_PER_MS;

static struct verify_report gpu_run(const struct verify_check *check, const char *text)
{
    struct verify_place place = { .root = root_of_test,
                                  .nvml = root_of_test[0] ? "libnvidia-ml.so.1" : NULL,
                                  .cuda = root_of_test[0] ? "libcuda.so.1" : NULL,
                                  .flip_sm = flip_sm,
                                  .node = "n1",
                                  .stage = gpu_stage,
                                  .heat_ns = heat_ns,
                                  .profile = profile_of_test };
    struct verify_report report = { 0 };
    char fresh[80];
    FILE *file;

    snprintf(fresh, sizeof(fresh), "%s.new", script);
    file = fopen(fresh, "w");
    assert_non_null(file);
    fprintf(file, "%s%s", FOUR, text);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, script), 0);
    check->run(&place, &report);
    return report;
}

/* With its folders. */
static void gpu_test_file(const char *path, const char *text)
{
    char folder[128];
    FILE *file;

    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        snprintf(folder, sizeof(folder), "%.*s", (int)(at - path), path);
        mkdir(folder, 0700);
    }
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    assert_int_equal(fclose(file), 0);
}

static unsigned gpu_states(const struct verify_report *report, unsigned state)
{
    unsigned count = 0;

    for (size_t i = 0; i < report->count; i++)
        count += report->result[i].state == state;
    return count;
}

static const struct check *gpu_first(const struct verify_report *report, unsigned state)
{
    for (size_t i = 0; i < report->count; i++) {
        if (report->result[i].state == state)
            return &report->result[i];
    }
    fail_msg("no result is %s", verify_state_name(state));
    return NULL;
}

static void gpu_says(const struct check *result, const char *device, const char *words)
{
    assert_string_equal(result->device, device);
    if (!strstr(result->why, words))
        fail_msg("'%s' has no '%s'", result->why, words);
}

/* ---- the kernels themselves ---- */

static void the_kernels_compute_what_integers_say(void **state)
{
    static uint32_t block[GPU_BLOCK_WORDS], expected[GPU_BLOCK_WORDS];

    (void)state;
    for (unsigned type = 0; type < GPU_TYPES; type++) {
        for (uint32_t seed = 1; seed < 3; seed++) {
            const struct gpu_arith arith = { .seed = seed, .rounds = 9 };

            gpu_arith_block(type, &arith, 5, block);
            gpu_reference_exact(type, seed, 9, expected);
            assert_memory_equal(block + GPU_WARPS, expected,
                                (GPU_BLOCK_WORDS - GPU_WARPS) * sizeof(*block));
            assert_int_equal(block[GPU_WARPS - 1], 6); /* the SM, from 1 */
        }
    }
}

static void the_largest_sum_of_the_exact_test_is_exact(void **state)
{
    (void)state;
    /* fp16 and bf16 have 16 products of at most 49 in a step. */
    assert_true((uint64_t)GPU_ROUNDS_MAX * GPU_REPEATS * 16 * 49 < 1u << 24);
}

static void a_flipped_bit_changes_sum_and_digest_of_its_thread_only(void **state)
{
    static uint32_t right[GPU_BLOCK_WORDS], wrong[GPU_BLOCK_WORDS];
    struct gpu_arith arith = { .seed = 1, .rounds = 8 };

    (void)state;
    for (unsigned type = 0; type < GPU_TYPES; type++) {
        unsigned differ = 0;
        size_t thread = GPU_FLIP_WARP * GPU_WARP + GPU_FLIP_LANE;

        arith.flip = 0;
        gpu_arith_block(type, &arith, 3, right);
        arith.flip = 4;
        gpu_arith_block(type, &arith, 3, wrong);
        for (size_t i = 0; i < GPU_BLOCK_WORDS; i++)
            differ += right[i] != wrong[i];
        assert_int_equal(differ, 2);
        assert_true(right[GPU_WARPS + thread * GPU_THREAD_WORDS] !=
                    wrong[GPU_WARPS + thread * GPU_THREAD_WORDS]);
    }
}

static void operands_with_all_bits_give_finite_sums(void **state)
{
    static uint32_t block[GPU_BLOCK_WORDS];
    const struct gpu_arith arith = { .seed = 7, .rounds = 32, .mode = GPU_ENTROPY };

    (void)state;
    for (unsigned type = 0; type < GPU_INT8; type++) {
        gpu_arith_block(type, &arith, 0, block);
        for (size_t i = 0; i < GPU_THREADS; i++)
            assert_true((block[GPU_WARPS + i * GPU_THREAD_WORDS] >> 23 & 0xff) != 0xff);
    }
}

/* ---- arithmetic ---- */

static void gpus_that_compute_right_are_ok(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_arithmetic, "");

    (void)state;
    assert_int_equal(gpu_states(&report, CHECK_OK), report.count);
    gpu_says(&report.result[report.count - 1], "", "4 of 4 GPUs: every SM computed right");
    assert_int_equal(report.count, 4); /* digests of tf32, bf16 and fp16, and the sum of all */
}

static void a_wrong_bit_names_its_gpu_and_sm(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_arithmetic, "cuda.2.flip-sm value 5\n");
    const struct check *wrong = gpu_first(&report, CHECK_FAILED);

    (void)state;
    gpu_says(wrong, "gpu 2", "SM 5 computes wrong");
    gpu_says(wrong, "gpu 2", "warp 1 lane 7");
    assert_true(wrong->has_value && wrong->value == 5);
    assert_int_equal(gpu_states(&report, CHECK_FAILED), 1);
    gpu_says(&report.result[report.count - 1], "", "3 of 4 GPUs");
}

static void a_bit_that_is_flipped_on_purpose_is_found_on_its_sm(void **state)
{
    struct verify_report report;

    (void)state;
    flip_sm = 8; /* the last one of eight */
    report = gpu_run(&check_gpu_arithmetic, "");
    flip_sm = 0;
    assert_int_equal(gpu_states(&report, CHECK_FAILED), 4); /* of each GPU */
    gpu_says(gpu_first(&report, CHECK_FAILED), "gpu 0", "SM 7 computes wrong");
}

static void each_type_of_numbers_is_tested(void **state)
{
    char text[80];

    (void)state;
    for (unsigned type = 0; type < GPU_TYPES; type++) {
        struct verify_report report;

        snprintf(text, sizeof(text), "cuda.1.flip-sm value 0\ncuda.1.flip-kernel text %s\n",
                 gpu_kernel_name(type));
        report = gpu_run(&check_gpu_arithmetic, text);
        gpu_says(gpu_first(&report, CHECK_FAILED), "gpu 1", gpu_type_name(type));
        assert_int_equal(gpu_states(&report, CHECK_FAILED), 1);
    }
}

static void an_sm_without_work_is_unknown(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_arithmetic, "cuda.0.idle-sm value 6\n");

    (void)state;
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 0", "only 7 of 8 SMs");
}

static void a_gpu_in_use_is_left_alone(void **state)
{
    struct verify_report report =
        gpu_run(&check_gpu_arithmetic, "nvml.3.processes text 4711 1000\n");

    (void)state;
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 3", "in use by process 4711");
    assert_int_equal(gpu_states(&report, CHECK_FAILED), 0);
    report = gpu_run(&check_gpu_arithmetic, "nvml.1.gpu-busy value 11\n");
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 1", "11 % busy");
    report = gpu_run(&check_gpu_arithmetic, "nvml.1.gpu-busy value 10\n");
    assert_int_equal(gpu_states(&report, CHECK_UNKNOWN), 0);
    report = gpu_run(&check_gpu_arithmetic,
                     "nvml.1.gpu-busy value 97 times 4\n"); /* of the check before */
    assert_int_equal(gpu_states(&report, CHECK_UNKNOWN), 0);
    report = gpu_run(&check_gpu_arithmetic, "nvml.2.memory-used value 2147483648\n");
    assert_int_equal(gpu_states(&report, CHECK_UNKNOWN), 0);
    report = gpu_run(&check_gpu_arithmetic, "nvml.2.memory-used value 2149580800\n");
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 2", "2050 MiB are in use by a process");
    report = gpu_run(&check_gpu_arithmetic, "nvml.0.processes error 7\n");
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 0", "NVML does not list its processes");
}

static void errors_of_the_driver_are_unknown_and_of_memory_a_failure(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_arithmetic, "cuda.launch error 700\n");

    (void)state;
    assert_int_equal(gpu_states(&report, CHECK_UNKNOWN), 4);
    assert_int_equal(report.count, 4);
    report = gpu_run(&check_gpu_arithmetic, "cuda.launch error 214\n");
    assert_int_equal(gpu_states(&report, CHECK_FAILED), 4);
    report = gpu_run(&check_gpu_arithmetic, "cuda.0.major value 7\n");
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 0", "compute capability 7");
    report = gpu_run(&check_gpu_arithmetic, "cuda.count value 0\n");
    assert_int_equal(report.count, 1);
    assert_int_not_equal(report.result[0].state, CHECK_OK);
}

static void the_digest_of_the_profile_decides(void **state)
{
    CLEAN(gpu_test_profile_clean) struct machine_profile *profile = NULL;
    struct verify_report report = gpu_run(&check_gpu_arithmetic, "");
    char digest[16];

    (void)state;
    assert_int_equal(machine_profile_create("box", &profile), 0);
    snprintf(digest, sizeof(digest), "%08x", (unsigned)report.result[0].value);
    machine_profile_learn_fact(profile, report.result[0].name, digest);
    profile_of_test = profile;
    report = gpu_run(&check_gpu_arithmetic, "");
    assert_int_equal(gpu_states(&report, CHECK_OK), report.count);
    machine_profile_learn_fact(profile, report.result[0].name, "00000001");
    report =
        gpu_run(&check_gpu_arithmetic, ""); /* all GPUs agree with each other: the profile is odd */
    assert_int_equal(gpu_states(&report, CHECK_LIMITED), 4);
    assert_int_equal(gpu_states(&report, CHECK_FAILED), 0);
    report = gpu_run(&check_gpu_arithmetic, "cuda.count value 1\n"); /* nobody agrees with it */
    gpu_says(gpu_first(&report, CHECK_FAILED), "gpu 0", "the profile has 00000001");
    profile_of_test = NULL;
}

/* ---- memory ---- */

static void memory_that_returns_what_was_written_is_ok(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_memory, "");

    (void)state;
    assert_int_equal(report.count, 4);
    assert_int_equal(gpu_states(&report, CHECK_OK), 4);
}

static void a_stuck_bit_of_memory_is_found_and_placed(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_memory, "cuda.1.bad-word value 1000\n");

    (void)state;
    assert_int_equal(gpu_states(&report, CHECK_FAILED), 1);
    gpu_says(gpu_first(&report, CHECK_FAILED), "gpu 1", "the first at byte 8000");
    gpu_says(gpu_first(&report, CHECK_FAILED), "gpu 1", "bits 0000000000000020");
}

/* ---- rates ---- */

#define RATES                                                                                      \
    "cuda.*.memory-rate value 3000\ncuda.*.pcie-rate value 500\ncuda.*.peer-rate value 2000\n"

static void gpus_of_one_rate_are_ok(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_rate, RATES);

    (void)state;
    assert_int_equal(report.count, 16);
    assert_int_equal(gpu_states(&report, CHECK_OK), 16);
}

static void a_slow_memory_and_a_narrow_link_are_named(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_rate, RATES "cuda.2.memory-rate value 2400\n");

    (void)state;
    assert_int_equal(gpu_states(&report, CHECK_LIMITED), 1);
    assert_string_equal(gpu_first(&report, CHECK_LIMITED)->name, "gpu-memory-rate");
    gpu_says(gpu_first(&report, CHECK_LIMITED), "gpu 2", "median of 4 GPUs");
    report = gpu_run(&check_gpu_rate, RATES "cuda.2.memory-rate value 2700\n"); /* a tenth less */
    assert_int_equal(gpu_states(&report, CHECK_OK), 16);
    report =
        gpu_run(&check_gpu_rate, RATES "cuda.0.pcie-rate value 125\n"); /* a quarter of the lanes */
    assert_int_equal(gpu_states(&report, CHECK_FAILED), 2);
    assert_string_equal(gpu_first(&report, CHECK_FAILED)->device, "gpu 0");
    assert_string_equal(gpu_first(&report, CHECK_FAILED)->name, "pcie-to-gpu");
}

static void of_two_gpus_no_rate_is_odd(void **state)
{
    struct verify_report report =
        gpu_run(&check_gpu_rate, "cuda.count value 2\n" RATES "cuda.0.memory-rate value 100\n");

    (void)state;
    assert_int_equal(gpu_states(&report, CHECK_OK), 8);
}

/* A machine with two sockets: GPUs 0 and 1 are attached to node 0, the others to node 1, as the addresses of the driver say. */
static void gpu_test_sockets(char root[static 64])
{
    static const char *const cpus[] = { "0", "1" };

    snprintf(root, 64, "/tmp/test-gpu-numa-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (unsigned n = 0; n < 2; n++) {
        char path[128];

        snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%u/cpulist", root, n);
        gpu_test_file(path, cpus[n]);
    }
    for (unsigned gpu = 0; gpu < 4; gpu++) {
        char path[128];

        snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/0000:%02x:00.0/numa_node", root,
                 0x10 + gpu);
        gpu_test_file(path, gpu < 2 ? "0" : "1");
    }
}

#define SOCKETS                                                                                    \
    RATES "cpu1.cuda.0.pcie-rate value 400\ncpu1.cuda.1.pcie-rate value 400\n"                     \
          "cpu0.cuda.2.pcie-rate value 400\ncpu0.cuda.3.pcie-rate value 400\n"

static unsigned gpu_test_named(const struct verify_report *report, const char *name)
{
    unsigned count = 0;

    for (size_t i = 0; i < report->count; i++)
        count += strcmp(report->result[i].name, name) == 0;
    return count;
}

static void pcie_is_measured_from_each_numa_node(void **state)
{
    struct verify_report report;
    cpu_set_t own, after;
    char root[64];

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
    if (!CPU_ISSET(0, &own) || !CPU_ISSET(1, &own))
        skip();
    gpu_test_sockets(root);
    root_of_test = root;
    report = gpu_run(&check_gpu_rate, SOCKETS);
    assert_int_equal(gpu_states(&report, CHECK_OK), report.count);
    assert_int_equal(gpu_test_named(&report, "pcie-to-gpu"), 4);
    assert_int_equal(gpu_test_named(&report, "pcie-to-gpu-far"), 4);
    assert_int_equal(gpu_test_named(&report, "pcie-from-gpu-far"), 4);
    for (size_t i = 0; i < report.count; i++) {
        const struct check *result = &report.result[i];

        if (strcmp(result->name, "pcie-to-gpu") == 0)
            assert_true(result->value > 0.45 && result->value < 0.51);
        if (strcmp(result->name, "pcie-to-gpu-far") == 0)
            assert_true(result->value > 0.35 && result->value < 0.41);
    }
    /* One GPU is slow from the other socket only. */
    report = gpu_run(&check_gpu_rate, SOCKETS "cpu1.cuda.1.pcie-rate value 240\n");
    assert_int_equal(gpu_states(&report, CHECK_LIMITED), 2);
    gpu_says(gpu_first(&report, CHECK_LIMITED), "gpu 1 NUMA 1", "median of 4 GPUs");
    /* Or from its own. */
    report = gpu_run(&check_gpu_rate, SOCKETS "cpu1.cuda.2.pcie-rate value 300\n");
    assert_true(gpu_states(&report, CHECK_LIMITED) >= 2);
    gpu_says(&report.result[report.count - 1], "gpu 2", "GB/s from its own NUMA node 1, but");
    root_of_test = "";
    /* The CPUs of this process are its own again. */
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&own, &after));
    /* Of a node whose CPUs it may not use it says so. */
    root_of_test = root;
    CPU_ZERO(&after);
    CPU_SET(0, &after);
    assert_int_equal(sched_setaffinity(0, sizeof(after), &after), 0);
    report = gpu_run(&check_gpu_rate, SOCKETS);
    assert_int_equal(sched_setaffinity(0, sizeof(own), &own), 0);
    assert_int_equal(gpu_states(&report, CHECK_UNKNOWN), 1);
    assert_string_equal(gpu_first(&report, CHECK_UNKNOWN)->name, "pcie-to-gpu-far");
    root_of_test = "";
    tree_remove(root);
}

static void lists_of_cpus_are_read(void **state)
{
    static const struct {
        const char *text;
        int count; /* -1: no list */
    } lists[] = { { "0-3,8", 5 }, { "7", 1 },       { "", 0 },           { "3-1", -1 },
                  { "1,", -1 },   { "0-", -1 },     { "x", -1 },         { "1-2-3", -1 },
                  { "5000", -1 }, { "0-5000", -1 }, { "4294967296", -1 } };
    cpu_set_t cpus;

    (void)state;
    for (size_t i = 0; i < COUNT(lists); i++) {
        bool good = numa_nodes_cpus(lists[i].text, &cpus);

        assert_int_equal(good ? CPU_COUNT(&cpus) : -1, lists[i].count);
    }
}

static void a_slow_link_to_the_other_gpus_is_named(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_rate, RATES "cuda.1.peer-rate value 1600\n");

    (void)state;
    assert_int_equal(gpu_states(&report, CHECK_LIMITED), 1);
    assert_string_equal(gpu_first(&report, CHECK_LIMITED)->name, "gpu-to-gpu");
    gpu_says(gpu_first(&report, CHECK_LIMITED), "gpu 1", "median of 4 GPUs");
    report = gpu_run(&check_gpu_rate, RATES "cuda.1.peer-rate value 1800\n");
    assert_int_equal(gpu_states(&report, CHECK_OK), 16);
    report = gpu_run(&check_gpu_rate, RATES "cuda.peers value 0\n"); /* through the host: no rate */
    assert_int_equal(report.count, 12);
    report = gpu_run(&check_gpu_rate, RATES "cuda.peer-enable error 220\n");
    assert_int_equal(gpu_states(&report, CHECK_FAILED), 4); /* an error of NVLink */
}

/* ---- products of matrices ---- */

#define GEMM "cublaslt.*.gflops value 8\ncuda.*.free value 2097152\ncuda.kernel-us value 1000\n"

static void products_that_are_right_are_ok(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_gemm, GEMM);
    unsigned by_library = 0;

    (void)state;
    assert_int_equal(report.count, 8);
    assert_int_equal(gpu_states(&report, CHECK_OK), 8);
    for (size_t i = 0; i < report.count; i++) {
        const struct check *result = &report.result[i];

        assert_string_equal(result->unit, "TFLOP/s");
        if (strcmp(result->name, "gpu-gemm") != 0)
            continue;
        by_library++;
        assert_true(result->value > 0.007 && result->value < 0.0082);
    }
    assert_int_equal(by_library, 4);
}

static void a_slow_product_names_its_gpu(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_gemm, GEMM "cublaslt.2.gflops value 6\n");

    (void)state;
    assert_int_equal(gpu_states(&report, CHECK_LIMITED), 1);
    assert_string_equal(gpu_first(&report, CHECK_LIMITED)->name, "gpu-gemm");
    gpu_says(gpu_first(&report, CHECK_LIMITED), "gpu 2", "median of 4 GPUs");
    report = gpu_run(&check_gpu_gemm, GEMM "cublaslt.2.gflops value 7\n");
    assert_int_equal(gpu_states(&report, CHECK_OK), 8);
    report = gpu_run(&check_gpu_gemm, GEMM "cublaslt.2.gflops value 3\n");
    gpu_says(gpu_first(&report, CHECK_FAILED), "gpu 2", "median of 4 GPUs");
}

/* Elements of the first, an inner and the last row and column; the last bit of each. */
static void one_wrong_bit_of_a_product_is_found(void **state)
{
    static const struct {
        unsigned at, row;
    } bad[] = { { 0, 0 }, { 1, 1 }, { 31119, 143 }, { 65535, 255 } };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[256], words[40];
        struct verify_report report;

        snprintf(text, sizeof(text), "%scublaslt.1.bad-number value %u\n", GEMM, bad[i].at);
        snprintf(words, sizeof(words), "first in row %u of 256", bad[i].row);
        report = gpu_run(&check_gpu_gemm, text);
        assert_int_equal(gpu_states(&report, CHECK_FAILED), 1);
        gpu_says(gpu_first(&report, CHECK_FAILED), "gpu 1", words);
        assert_int_equal(gpu_states(&report, CHECK_OK), 7); /* no rate of it by cuBLASLt */
    }
}

static void what_cublaslt_cannot_do_is_unknown(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_gemm, GEMM "cublaslt.algorithms value 0\n");

    (void)state;
    assert_int_equal(gpu_states(&report, CHECK_UNKNOWN), 4);
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 0", "has no algorithm");
    assert_int_equal(gpu_states(&report, CHECK_OK), 4); /* the own kernel */
    report = gpu_run(&check_gpu_gemm, GEMM "cublaslt.multiply error 14\n");
    assert_int_equal(gpu_states(&report, CHECK_UNKNOWN), 4);
    report = gpu_run(&check_gpu_gemm, GEMM "cublaslt.create error 1\n");
    assert_int_equal(gpu_states(&report, CHECK_UNKNOWN), 4);
    report = gpu_run(&check_gpu_gemm, GEMM "cuda.*.free value 65536\n");
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 0", "too little memory");
    report = gpu_run(&check_gpu_gemm, GEMM "nvml.3.processes text 4711 1000\n");
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 3", "in use by process 4711");
    assert_int_equal(gpu_states(&report, CHECK_OK), 6);
}

/* ---- heat ---- */

#define HEAT                                                                                       \
    "nvml.*.temperature value 60\nnvml.*.power value 600000\nnvml.*.sm-clock value "               \
    "1900\nnvml.*.reasons value 0\n"

static void gpus_of_one_temperature_are_ok(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_heat, HEAT);

    (void)state;
    assert_int_equal(report.count, 4);
    assert_int_equal(gpu_states(&report, CHECK_OK), 4);
}

static void a_hot_gpu_is_named_if_it_uses_as_much_power(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_heat, HEAT "nvml.3.temperature value 73\n");

    (void)state;
    assert_int_equal(gpu_states(&report, CHECK_LIMITED), 1);
    gpu_says(gpu_first(&report, CHECK_LIMITED), "gpu 3", "73 C at 600 W");
    report = gpu_run(&check_gpu_heat, HEAT "nvml.3.temperature value 72\n");
    assert_int_equal(gpu_states(&report, CHECK_OK), 4);
    report =
        gpu_run(&check_gpu_heat, HEAT "nvml.3.temperature value 73\nnvml.3.power value 530000\n");
    assert_int_equal(gpu_states(&report, CHECK_OK), 4);
}

static void a_gpu_that_lowers_its_clocks_is_named(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_heat, HEAT "nvml.1.sm-clock value 1700\n");

    (void)state;
    gpu_says(gpu_first(&report, CHECK_LIMITED), "gpu 1", "1700 MHz under load");
    assert_int_equal(gpu_states(&report, CHECK_LIMITED), 1);
    report = gpu_run(&check_gpu_heat, HEAT "nvml.1.sm-clock value 1720\n");
    assert_int_equal(gpu_states(&report, CHECK_OK), 4);
    report = gpu_run(&check_gpu_heat, HEAT "nvml.1.reasons value 32\n");
    gpu_says(gpu_first(&report, CHECK_LIMITED), "gpu 1", "too hot");
    report = gpu_run(&check_gpu_heat, HEAT "nvml.1.reasons value 64\n");
    gpu_says(gpu_first(&report, CHECK_FAILED), "gpu 1", "its hardware lowered the clocks");
    report = gpu_run(&check_gpu_heat, HEAT "nvml.1.reasons value 4\n"); /* at its power limit */
    assert_int_equal(gpu_states(&report, CHECK_OK), 4);
}

/* GPU 2 becomes hotter in the last quarter: which look that is depends on the load of the machine, so it rises for long. */
static void a_burn_that_ends_before_the_heat_is_steady_is_unknown(void **state)
{
    static const char rising[] =
        HEAT "nvml.2.temperature value 61 after 8\nnvml.2.temperature value "
             "63 after 14\nnvml.2.temperature value 66 after 20\n"
             "nvml.2.temperature value 69 after 26\n";
    struct verify_report report;

    (void)state;
    heat_ns = 600 * NS_PER_MS;
    gpu_stage = VERIFY_BURN;
    report = gpu_run(&check_gpu_heat, HEAT);
    assert_int_equal(gpu_states(&report, CHECK_OK), 4);
    gpu_says(gpu_first(&report, CHECK_OK), "gpu 0", "under load, steady");
    for (; heat_ns < 20 * NS_PER_S;
         heat_ns *= 2) { /* a slow machine needs more time for as many looks */
        report = gpu_run(&check_gpu_heat, rising);
        if (gpu_states(&report, CHECK_UNKNOWN) == 1)
            break;
    }
    heat_ns = 600 * NS_PER_MS;
    assert_int_equal(gpu_states(&report, CHECK_UNKNOWN), 1);
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 2", "still rising");
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 2", "too short for steady heat");
    gpu_stage = VERIFY_DEEP; /* it is not promised there */
    report = gpu_run(&check_gpu_heat, rising);
    assert_int_equal(gpu_states(&report, CHECK_OK), 4);
    heat_ns = 20 * NS_PER_MS;
    gpu_stage = VERIFY_PROLOG;
}

static void products_are_the_load_where_cublaslt_is_present(void **state)
{
    struct verify_report report;
    unsigned rates = 0;

    (void)state;
    heat_ns = 3 * NS_PER_S; /* the rate of the second half */
    report = gpu_run(&check_gpu_heat, HEAT GEMM);
    heat_ns = 20 * NS_PER_MS;
    assert_int_equal(report.count, 8);
    for (size_t i = 0; i < report.count; i++) {
        if (strcmp(report.result[i].name, "gpu-gemm-sustained") != 0)
            continue;
        rates++;
        assert_true(report.result[i].value > 0.004 && report.result[i].value < 0.0085);
    }
    assert_int_equal(rates, 4);
}

/* ---- sums over all GPUs ---- */

static void all_gpus_have_the_right_sums(void **state)
{
    struct verify_report report =
        gpu_run(&check_gpu_all_reduce, "nccl.log text AllReduce: 1048576 Bytes -> Algo RING proto "
                                       "SIMPLE channel{Lo..Hi}={0..23}\n");

    (void)state;
    assert_int_equal(report.count, 2);
    assert_int_equal(gpu_states(&report, CHECK_OK), 2);
    gpu_says(&report.result[0], "",
             "4 GPUs have the right sums: algorithm RING, protocol SIMPLE, 24 channels");
    assert_string_equal(report.result[1].name, "nccl-all-reduce");
    assert_true(report.result[1].has_value && report.result[1].value > 0);
}

static void a_wrong_sum_names_the_gpu_that_has_it(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_all_reduce, "nccl.2.bad-number value 17\n");

    (void)state;
    assert_int_equal(report.count, 1);
    assert_int_equal(gpu_states(&report, CHECK_FAILED), 1);
    gpu_says(gpu_first(&report, CHECK_FAILED), "gpu 2", "1 of 262144 sums are wrong");
    gpu_says(gpu_first(&report, CHECK_FAILED), "gpu 2", "at number 17");
}

static void errors_of_nccl_and_gpus_in_use_are_unknown(void **state)
{
    struct verify_report report = gpu_run(&check_gpu_all_reduce, "nccl.all-reduce error 1\n");

    (void)state;
    assert_int_equal(report.count, 1);
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "", "unhandled cuda error");
    report = gpu_run(&check_gpu_all_reduce, "nccl.init error 2\n");
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "", "ncclCommInitRank");
    report = gpu_run(&check_gpu_all_reduce, "nvml.3.processes text 4711 1000\n");
    assert_int_equal(report.count, 1);
    gpu_says(gpu_first(&report, CHECK_UNKNOWN), "gpu 3", "in use by process 4711");
    report = gpu_run(&check_gpu_all_reduce, "cuda.count value 1\n");
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, VERIFY_NOT_APPLICABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernels_compute_what_integers_say),
        cmocka_unit_test(the_largest_sum_of_the_exact_test_is_exact),
        cmocka_unit_test(a_flipped_bit_changes_sum_and_digest_of_its_thread_only),
        cmocka_unit_test(operands_with_all_bits_give_finite_sums),
        cmocka_unit_test(gpus_that_compute_right_are_ok),
        cmocka_unit_test(a_wrong_bit_names_its_gpu_and_sm),
        cmocka_unit_test(a_bit_that_is_flipped_on_purpose_is_found_on_its_sm),
        cmocka_unit_test(each_type_of_numbers_is_tested),
        cmocka_unit_test(an_sm_without_work_is_unknown),
        cmocka_unit_test(a_gpu_in_use_is_left_alone),
        cmocka_unit_test(errors_of_the_driver_are_unknown_and_of_memory_a_failure),
        cmocka_unit_test(the_digest_of_the_profile_decides),
        cmocka_unit_test(memory_that_returns_what_was_written_is_ok),
        cmocka_unit_test(a_stuck_bit_of_memory_is_found_and_placed),
        cmocka_unit_test(gpus_of_one_rate_are_ok),
        cmocka_unit_test(a_slow_memory_and_a_narrow_link_are_named),
        cmocka_unit_test(of_two_gpus_no_rate_is_odd),
        cmocka_unit_test(pcie_is_measured_from_each_numa_node),
        cmocka_unit_test(lists_of_cpus_are_read),
        cmocka_unit_test(a_slow_link_to_the_other_gpus_is_named),
        cmocka_unit_test(products_that_are_right_are_ok),
        cmocka_unit_test(a_slow_product_names_its_gpu),
        cmocka_unit_test(one_wrong_bit_of_a_product_is_found),
        cmocka_unit_test(what_cublaslt_cannot_do_is_unknown),
        cmocka_unit_test(gpus_of_one_temperature_are_ok),
        cmocka_unit_test(a_hot_gpu_is_named_if_it_uses_as_much_power),
        cmocka_unit_test(a_gpu_that_lowers_its_clocks_is_named),
        cmocka_unit_test(a_burn_that_ends_before_the_heat_is_steady_is_unknown),
        cmocka_unit_test(products_are_the_load_where_cublaslt_is_present),
        cmocka_unit_test(all_gpus_have_the_right_sums),
        cmocka_unit_test(a_wrong_sum_names_the_gpu_that_has_it),
        cmocka_unit_test(errors_of_nccl_and_gpus_in_use_are_unknown),
    };
    int failed;

    close(mkstemp(script));
    setenv("LOCKSTEP_FAKE_DEVICE", script, 1);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(script);
    return failed;
}
