/* gpu_arithmetic.c - does every SM of every GPU compute right?
 *
 * Every block computes the same tile, so every block has the same right answer, and %smid tells which SM gave a wrong one.  Two
 * tests for each type of numbers: operands whose answer is known from integer arithmetic, and operands with all bits in use.  The
 * answer of the second is known for fp32 and int8; tensor cores round in their own way, so there the blocks are compared with each
 * other, and the digest of the GPU with the profile and with the other GPUs of the same model and driver.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/kernel/gpu_kernels.h"
#include "verify/checks.h"
#include "verify/gpu/gpu_devices.h"
#include "verify/gpu/gpu_reference.h"
#include "verify/machine_profile.h"

#define BLOCKS_PER_SM 8 /* the scheduler spreads blocks; with so many no SM is left out */
#define LAUNCHES 4      /* at most, until all SMs were visited */
#define ROUNDS 64
#define ENTROPY_SEED 20260117u /* one for ever: its digest is compared between machines */
#define SM_IDS 2048
#define WRONG_SMS 8 /* reported of a GPU */
#define HOT_REPEATS 2
#define PEERS_MIN 3 /* of two, nobody knows which is the odd one */
#define RESULT_WORDS ((size_t)GPU_THREADS * GPU_THREAD_WORDS)

struct arith_wrong { /* the results of one SM */
    uint32_t sm;
    unsigned blocks; /* wrong ones */
    unsigned type;
    bool exact;
    size_t at; /* the first wrong word */
    uint32_t got, expected;
};

struct arith_known { /* answers of the second test, as far as they are known */
    bool made[GPU_TYPES];
    uint32_t block[GPU_TYPES][GPU_BLOCK_WORDS];
};

struct arith_gpu {
    struct gpu_device *device;
    struct arith_known *known;
    uint32_t flip; /* as of struct verify_place */
    bool tested;
    uint64_t memory; /* of results, on the GPU */
    uint32_t *result;
    unsigned blocks;
    uint8_t seen[SM_IDS / 8];
    unsigned sms_seen;
    uint64_t tiles;
    struct arith_wrong wrong[WRONG_SMS];
    unsigned wrongs;
    uint32_t digest[GPU_TYPES];
    unsigned repeats, repeats_odd; /* of a digest that differs */
};

struct arith_test {
    struct gpu_devices devices;
    struct arith_gpu gpu[GPUS_MAX];
    struct arith_known known;
    struct verify_report *report;
    const struct machine_profile *profile;
};

/* ---- one launch ---- */

static int arith_launch(struct arith_gpu *gpu, unsigned type, uint32_t seed, uint32_t mode,
                        struct err *err)
{
    uint32_t rounds = ROUNDS, flip = gpu->flip;
    void *arguments[] = { &gpu->memory, &seed, &rounds, &mode, &flip };
    size_t bytes = (size_t)gpu->blocks * GPU_BLOCK_WORDS * sizeof(*gpu->result);
    int result = gpu_device_check(
        gpu->device, gpu->device->cuda->set_bytes(gpu->memory, 0, bytes, gpu->device->stream),
        "cuMemsetD8Async", err); /* or a kernel that did not run would leave old results */

    if (result == 0)
        result = gpu_device_launch(gpu->device, gpu_kernel_name(type), gpu->blocks, GPU_THREADS,
                                   arguments, err);
    if (result == 0)
        result = gpu_device_fetch(gpu->device, gpu->result, gpu->memory, bytes, err);
    return result;
}

static const uint32_t *arith_block(const struct arith_gpu *gpu, unsigned block)
{
    return gpu->result + (size_t)block * GPU_BLOCK_WORDS;
}

/* -EBADMSG: a block did not run. */
static int arith_see(struct arith_gpu *gpu, struct err *err)
{
    for (unsigned b = 0; b < gpu->blocks; b++) {
        uint32_t sm = arith_block(gpu, b)[0];

        if (!sm || sm > SM_IDS)
            return err_set(err, -EBADMSG, "block %u of %u left no result", b, gpu->blocks);
        sm--;
        gpu->sms_seen += !(gpu->seen[sm / 8] >> sm % 8 & 1);
        gpu->seen[sm / 8] |= (uint8_t)(1u << sm % 8);
    }
    return 0;
}

static void arith_blame(struct arith_gpu *gpu, const struct arith_wrong *wrong)
{
    unsigned i = 0;

    while (i < gpu->wrongs && gpu->wrong[i].sm != wrong->sm)
        i++;
    if (i < gpu->wrongs) {
        gpu->wrong[i].blocks++;
    } else if (gpu->wrongs < WRONG_SMS) {
        gpu->wrong[gpu->wrongs] = *wrong;
        gpu->wrong[gpu->wrongs++].blocks = 1;
    }
}

/* Compares all blocks with `expected`. */
static void arith_compare(struct arith_gpu *gpu, unsigned type, bool exact,
                          const uint32_t *expected)
{
    for (unsigned b = 0; b < gpu->blocks; b++) {
        const uint32_t *got = arith_block(gpu, b) + GPU_WARPS;
        struct arith_wrong wrong = { .sm = arith_block(gpu, b)[0] - 1,
                                     .type = type,
                                     .exact = exact };

        gpu->tiles++;
        if (memcmp(got, expected, RESULT_WORDS * sizeof(*got)) == 0)
            continue;
        while (got[wrong.at] == expected[wrong.at])
            wrong.at++;
        wrong.got = got[wrong.at];
        wrong.expected = expected[wrong.at];
        arith_blame(gpu, &wrong);
    }
}

/* ---- both tests ---- */

static int arith_exact(struct arith_gpu *gpu, unsigned type, uint32_t seed, struct err *err)
{
    CLEAN(free_clean) uint32_t *expected = malloc(RESULT_WORDS * sizeof(*expected));
    int result = expected ? arith_launch(gpu, type, seed, GPU_EXACT, err) : err_nomem(err);

    if (result == 0)
        result = arith_see(gpu, err);
    if (result < 0)
        return result;
    gpu_reference_exact(type, seed, ROUNDS, expected);
    arith_compare(gpu, type, true, expected);
    return 0;
}

/* The answer that most blocks share: an SM that computes wrong is never most of a GPU. */
static const uint32_t *arith_common(const struct arith_gpu *gpu)
{
    const uint32_t *common = arith_block(gpu, 0) + GPU_WARPS;
    unsigned lead = 0;

    for (unsigned b = 0; b < gpu->blocks; b++) { /* Boyer and Moore's vote */
        const uint32_t *got = arith_block(gpu, b) + GPU_WARPS;

        if (!lead)
            common = got;
        lead += memcmp(got, common, RESULT_WORDS * sizeof(*got)) == 0 ? 1 : UINT_MAX;
    }
    return common;
}

static uint32_t arith_digest(const uint32_t *result)
{
    uint32_t digest = 0;

    for (size_t i = 0; i < RESULT_WORDS; i++)
        digest = gpu_pattern_mix(digest, result[i]);
    return digest;
}

static const uint32_t *arith_known(struct arith_known *known, unsigned type)
{
    const struct gpu_arith arith = { .seed = ENTROPY_SEED, .rounds = ROUNDS, .mode = GPU_ENTROPY };

    if (!known->made[type])
        gpu_arith_block(type, &arith, 0, known->block[type]);
    known->made[type] = true;
    return known->block[type] + GPU_WARPS;
}

static int arith_entropy(struct arith_gpu *gpu, unsigned type, struct err *err)
{
    const uint32_t *expected;
    int result = arith_launch(gpu, type, ENTROPY_SEED, GPU_ENTROPY, err);

    if (result == 0)
        result = arith_see(gpu, err);
    if (result < 0)
        return result;
    expected =
        gpu_type_is_known(type, GPU_ENTROPY) ? arith_known(gpu->known, type) : arith_common(gpu);
    arith_compare(gpu, type, false, expected);
    gpu->digest[type] = arith_digest(expected);
    return 0;
}

/* ---- one GPU ---- */

static int arith_gpu_rounds(struct arith_gpu *gpu, int64_t until_ns, struct err *err)
{
    uint32_t seed = 1;
    int result = 0;

    for (unsigned type = 0; type < GPU_TYPES && result == 0; type++)
        result = arith_entropy(gpu, type, err);
    do {
        for (unsigned type = 0; type < GPU_TYPES && result == 0; type++)
            result = arith_exact(gpu, type, seed, err);
    } while (result == 0 &&
             (time_mono_ns() < until_ns ||
              (gpu->sms_seen < (unsigned)gpu->device->sms && seed < LAUNCHES)) &&
             seed++ < UINT32_MAX);
    return result;
}

static void arith_gpu_report(const struct arith_gpu *gpu, struct verify_report *report)
{
    const struct gpu_device *device = gpu->device;

    for (unsigned i = 0; i < gpu->wrongs; i++) {
        const struct arith_wrong *wrong = &gpu->wrong[i];
        size_t thread = wrong->at / GPU_THREAD_WORDS;
        struct check *result = verify_result(
            report, CHECK_FAILED, device->label,
            "%s: SM %u computes wrong: %u of %llu tiles, first in %s (%s): warp %zu lane %zu has "
            "%08x, expected %08x",
            device->pci, wrong->sm, wrong->blocks, (unsigned long long)gpu->tiles,
            gpu_type_name(wrong->type), wrong->exact ? "exact operands" : "all bits in use",
            thread / GPU_WARP, thread % GPU_WARP, wrong->got, wrong->expected);

        result->has_value = true;
        result->value = wrong->sm;
        snprintf(result->unit, sizeof(result->unit), "SM");
    }
    if (gpu->tested && gpu->sms_seen < (unsigned)device->sms)
        verify_result(report, CHECK_UNKNOWN, device->label,
                      "%s: only %u of %d SMs were given work, so the others were not tested",
                      device->pci, gpu->sms_seen, device->sms);
}

static void arith_gpu_run(struct arith_test *test, struct arith_gpu *gpu, int64_t time_ns)
{
    CLEAN(free_clean) uint32_t *room = NULL;
    struct err err = { "" };
    int result;

    if (!gpu_device_open(&test->devices, gpu->device, test->report))
        return;
    gpu->blocks = (unsigned)gpu->device->sms * BLOCKS_PER_SM;
    room = gpu->result = malloc((size_t)gpu->blocks * GPU_BLOCK_WORDS * sizeof(*gpu->result));
    result =
        room ? gpu_device_memory(gpu->device, (size_t)gpu->blocks * GPU_BLOCK_WORDS * sizeof(*room),
                                 &gpu->memory, &err)
             : err_nomem(&err);
    if (result == 0)
        result = arith_gpu_rounds(gpu, time_mono_ns() + time_ns, &err);
    gpu->tested = result == 0;
    if (result < 0)
        gpu_device_failed(gpu->device, test->report, &err);
    arith_gpu_report(gpu, test->report);
    gpu_device_free(gpu->device, gpu->memory);
    gpu->memory = 0;
    gpu->result = NULL;
    gpu_device_leave(gpu->device);
    gpu_device_close(gpu->device);
}

/* ---- digests of all of them ---- */

static void arith_digest_name(const struct arith_test *test, const struct arith_gpu *gpu,
                              unsigned type, char *out, size_t room)
{
    snprintf(out, room, VERIFY_DIGEST "%s %.32s %d", gpu_type_name(type), gpu->device->name,
             test->devices.driver);
}

static bool arith_is_peer(const struct arith_gpu *a, const struct arith_gpu *b)
{
    return a->tested && b->tested && strcmp(a->device->name, b->device->name) == 0;
}

/* What two thirds of the GPUs of this model have, of three or more. */
static bool arith_digest_common(const struct arith_test *test, const struct arith_gpu *gpu,
                                unsigned type, uint32_t *ret)
{
    unsigned peers = 0, best = 0;

    for (unsigned i = 0; i < test->devices.count; i++) {
        unsigned same = 0;

        if (!arith_is_peer(gpu, &test->gpu[i]))
            continue;
        peers++;
        for (unsigned j = 0; j < test->devices.count; j++)
            same += arith_is_peer(gpu, &test->gpu[j]) &&
                    test->gpu[j].digest[type] == test->gpu[i].digest[type];
        if (same > best) {
            best = same;
            *ret = test->gpu[i].digest[type];
        }
    }
    return peers >= PEERS_MIN && 3 * best >= 2 * peers;
}

/* How often it differs when it is asked again. */
static void arith_digest_repeat(struct arith_test *test, struct arith_gpu *gpu, unsigned type,
                                uint32_t expected)
{
    struct arith_gpu again = { .device = gpu->device, .known = gpu->known, .flip = gpu->flip };
    CLEAN(free_clean) uint32_t *room = NULL;
    size_t bytes = (size_t)gpu->blocks * GPU_BLOCK_WORDS * sizeof(*room);
    struct verify_report ignored = { 0 };

    if (!gpu_device_open(&test->devices, gpu->device, &ignored))
        return;
    again.blocks = gpu->blocks;
    room = again.result = malloc(bytes);
    if (room && gpu_device_memory(gpu->device, bytes, &again.memory, NULL) == 0) {
        for (int i = 0; i < HOT_REPEATS && arith_entropy(&again, type, NULL) == 0; i++) {
            gpu->repeats++;
            gpu->repeats_odd += again.digest[type] != expected;
        }
    }
    gpu_device_free(gpu->device, again.memory);
    gpu_device_leave(gpu->device);
    gpu_device_close(gpu->device);
}

/* One difference is enough: a right GPU gives the same bits every time. */
static bool arith_digest_judge(struct arith_test *test, struct arith_gpu *gpu, unsigned type)
{
    char name[PROFILE_NAME];
    const char *learnt;
    uint32_t common = 0, expected;
    bool has_common = arith_digest_common(test, gpu, type, &common);
    const char *of = "the other GPUs of this model";

    arith_digest_name(test, gpu, type, name, sizeof(name));
    learnt = test->profile ? machine_profile_fact(test->profile, name) : NULL;
    expected = learnt ? (uint32_t)strtoul(learnt, NULL, 16) : common;
    if ((!learnt && !has_common) || gpu->digest[type] == expected)
        return true;
    if (learnt && has_common && gpu->digest[type] == common) {
        verify_result(
            test->report, CHECK_LIMITED, gpu->device->label,
            "%s: digest of %s is %08x as on the other GPUs here, but %08x in the profile: "
            "the software differs, or the profile is wrong",
            gpu->device->pci, gpu_type_name(type), gpu->digest[type], expected);
        return false;
    }
    if (learnt)
        of = "the profile";
    arith_digest_repeat(test, gpu, type, expected);
    verify_result(test->report, CHECK_FAILED, gpu->device->label,
                  "%s: digest of %s is %08x, %s has %08x; it differed in %u of %u repetitions",
                  gpu->device->pci, gpu_type_name(type), gpu->digest[type], of, expected,
                  gpu->repeats_odd, gpu->repeats);
    return false;
}

/* For the profile: what the GPUs of a model have. */
static void arith_digest_result(const struct arith_test *test, const struct arith_gpu *gpu,
                                unsigned type)
{
    struct check *result = verify_result(test->report, CHECK_OK, "", "%08x: digest of %s on %s",
                                         gpu->digest[type], gpu_type_name(type), gpu->device->name);

    arith_digest_name(test, gpu, type, result->name, sizeof(result->name));
    result->has_value = true;
    result->value = gpu->digest[type];
    snprintf(result->unit, sizeof(result->unit), VERIFY_DIGEST_UNIT);
}

static void arith_digests(struct arith_test *test)
{
    for (unsigned type = 0; type < GPU_TYPES; type++) {
        const struct arith_gpu *sound = NULL;

        if (gpu_type_is_known(type, GPU_ENTROPY))
            continue;
        for (unsigned i = 0; i < test->devices.count; i++) {
            struct arith_gpu *gpu = &test->gpu[i];

            if (gpu->tested && arith_digest_judge(test, gpu, type) && !gpu->wrongs && !sound)
                sound = gpu;
        }
        if (sound)
            arith_digest_result(test, sound, type);
    }
}

/* ---- all of it ---- */

static int64_t arith_time_ns(const struct verify_place *place, unsigned gpus)
{
    int64_t all_ns = place->stage == VERIFY_BURN   ? place->burn_ns
                     : place->stage == VERIFY_DEEP ? 30 * NS_PER_S
                                                   : 0;

    return all_ns / MAX(gpus, 1u);
}

static void gpu_arithmetic_run(const struct verify_place *place, struct verify_report *report)
{
    static struct arith_test test;
    unsigned right = 0;
    uint64_t tiles = 0;

    memset(&test, 0, sizeof(test));
    test.report = report;
    test.profile = place->profile;
    if (!gpu_devices_open(&test.devices, place, report))
        return;
    for (unsigned i = 0; i < test.devices.count; i++) {
        struct arith_gpu *gpu = &test.gpu[i];

        gpu->device = &test.devices.gpu[i];
        gpu->known = &test.known;
        gpu->flip = place->flip_sm;
        arith_gpu_run(&test, gpu, arith_time_ns(place, test.devices.count));
        right += gpu->tested && !gpu->wrongs && gpu->sms_seen >= (unsigned)gpu->device->sms;
        tiles += gpu->tiles;
    }
    arith_digests(&test);
    if (right) {
        struct check *result = verify_result(
            report, CHECK_OK, "",
            "%u of %u GPUs: every SM computed right in fp32, tf32, bf16, fp16 and int8", right,
            test.devices.count);

        result->has_value = true;
        result->value = (double)tiles;
        snprintf(result->unit, sizeof(result->unit), "tiles");
    }
    gpu_devices_close(&test.devices);
}

const struct verify_check check_gpu_arithmetic = {
    .name = "gpu-arithmetic",
    .summary = "every SM of every GPU computes right in fp32, tf32, bf16, fp16 and int8, compared "
               "with known answers and with other GPUs",
    .why = "a right GPU gives the same bits every time, so one difference is enough",
    .advice = "take the GPU out of service and have it replaced; results of earlier jobs on it are "
              "in doubt",
    .needs = "GPU driver",
    .stage = VERIFY_PROLOG,
    .loads = true,
    .limit_ns = { 20 * NS_PER_S, 20 * NS_PER_S, 90 * NS_PER_S, 90 * NS_PER_S },
    .run = gpu_arithmetic_run,
};
