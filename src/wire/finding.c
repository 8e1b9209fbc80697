/* finding.c - names, ids, and the encoding of findings, checks and environments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/finding.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "wire/decision.h"
#include "wire/field.h"

static const char *const kind_names[FINDING_KIND_COUNT] = {
    [FINDING_XID] = "xid",
    [FINDING_SXID] = "sxid",
    [FINDING_NVLINK] = "nvlink",
    [FINDING_NVRM] = "nvrm",
    [FINDING_AER] = "aer",
    [FINDING_MCE] = "mce",
    [FINDING_EDAC] = "edac",
    [FINDING_NIC] = "nic",
    [FINDING_NVME] = "nvme",
    [FINDING_BLOCK] = "block",
    [FINDING_FILESYSTEM] = "filesystem",
    [FINDING_REMOTE_FS] = "remote-fs",
    [FINDING_OOM] = "oom",
    [FINDING_HUNG_TASK] = "hung-task",
    [FINDING_LOCKUP] = "lockup",
    [FINDING_THERMAL] = "thermal",
    [FINDING_SEGFAULT] = "segfault",
    [FINDING_PANIC] = "panic",
    [FINDING_GPU_CLOCK] = "gpu-clock",
    [FINDING_GPU_POWER] = "gpu-power",
    [FINDING_GPU_ECC] = "gpu-ecc",
    [FINDING_GPU_MEMORY] = "gpu-memory",
    [FINDING_PCIE] = "pcie",
    [FINDING_PORT] = "port",
    [FINDING_STORAGE] = "storage",
    [FINDING_HOST_PRESSURE] = "host-pressure",
    [FINDING_LEFTOVER] = "leftover",
    [FINDING_ENVIRONMENT] = "environment",
    [FINDING_SENSOR] = "sensor",
};

static const char *const class_names[FINDING_CLASS_COUNT] = {
    [FINDING_CLASS_APP] = "app",         [FINDING_CLASS_HARDWARE] = "hardware",
    [FINDING_CLASS_FABRIC] = "fabric",   [FINDING_CLASS_DRIVER] = "driver",
    [FINDING_CLASS_STORAGE] = "storage", [FINDING_CLASS_HOST] = "host",
};

static const char *const severity_names[FINDING_SEVERITY_COUNT] = {
    [FINDING_INFO] = "info",
    [FINDING_WARN] = "warn",
    [FINDING_ERROR] = "error",
    [FINDING_FATAL] = "fatal",
};

static const char *const origin_names[FINDING_ORIGIN_COUNT] = {
    [FINDING_FROM_KERNEL] = "kernel",
    [FINDING_FROM_USER] = "user-written",
    [FINDING_FROM_SENSOR] = "sensor",
};

static const char *const state_names[CHECK_STATE_COUNT] = {
    [CHECK_OK] = "ok",
    [CHECK_LIMITED] = "limited",
    [CHECK_FAILED] = "failed",
    [CHECK_UNKNOWN] = "unknown",
};

const char *finding_kind_name(unsigned kind)
{
    return field_name(kind_names, COUNT(kind_names), kind);
}

const char *finding_class_name(unsigned class)
{
    return field_name(class_names, COUNT(class_names), class);
}

const char *finding_severity_name(unsigned severity)
{
    return field_name(severity_names, COUNT(severity_names), severity);
}

const char *finding_origin_name(unsigned origin)
{
    return field_name(origin_names, COUNT(origin_names), origin);
}

unsigned finding_kind_of(const char *name)
{
    return field_number(kind_names, COUNT(kind_names), name);
}

/* By the monotonic clock where it is known: the kernel keeps that time with a line, while the time of the day is
 * computed again, and differs a little, whenever the line is read.
 */
const char *finding_forecast(const struct finding *finding)
{
    const char *at = strstr(finding->text, "; " FINDING_FORECAST);

    return finding->origin == FINDING_FROM_SENSOR && at ? at + strlen("; " FINDING_FORECAST) : NULL;
}

bool finding_is_of_image(const struct finding *finding)
{
    static const char *const disks[] = { "loop", "nbd", "zram", "ram" };

    for (size_t i = 0; i < COUNT(disks) && finding->class == FINDING_CLASS_STORAGE; i++) {
        size_t size = strlen(disks[i]);

        if (strncmp(finding->device, disks[i], size) == 0 &&
            isdigit((unsigned char)finding->device[size]))
            return true;
    }
    return false;
}

bool finding_is_of_program(const struct finding *finding)
{
    return finding->class == FINDING_CLASS_APP || finding->origin == FINDING_FROM_USER ||
           (finding->class == FINDING_CLASS_HOST && finding->pid);
}

void finding_identify(struct finding *finding)
{
    uint64_t id = hash64(finding->kind, finding->node, strlen(finding->node));

    id = hash64(id, finding->device, strlen(finding->device));
    id = hash64_u64(id, (uint64_t)finding->origin << 32 | finding->code);
    id = hash64_u64(id, finding->pid);
    id = hash64(id, finding->raw, strlen(finding->raw));
    id = hash64_u64(id, (uint64_t)(finding->mono_ns ? finding->mono_ns : finding->real_ns));
    snprintf(finding->id, sizeof(finding->id), "fi-%016llx", (unsigned long long)id);
}

void finding_put(struct buf *out, const struct finding *finding)
{
    field_put_i64(out, finding->mono_ns); /* first, for fact_when() */
    field_put_i64(out, finding->real_ns);
    field_put_i64(out, finding->error_ns);
    buf_put_str(out, finding->id);
    buf_put_u8(out, finding->kind);
    buf_put_u8(out, finding->class);
    buf_put_u8(out, finding->severity);
    buf_put_u8(out, finding->origin);
    buf_put_u8(out, finding->action);
    buf_put_u32(out, finding->code);
    buf_put_u32(out, finding->pid);
    buf_put_u32(out, finding->count);
    buf_put_str(out, finding->node);
    buf_put_str(out, finding->device);
    buf_put_str(out, finding->text);
    buf_put_str(out, finding->raw);
    buf_put_u32(out, finding->rank_count);
    for (uint32_t i = 0; i < finding->rank_count && i < FINDING_RANKS; i++)
        buf_put_u32(out, finding->rank[i]);
}

int finding_get(struct reader in, struct finding *ret)
{
    struct finding finding = { .mono_ns = field_get_mono(&in) };

    finding.real_ns = field_get_real(&in);
    finding.error_ns = field_get_mono(&in);
    reader_get_str(&in, finding.id, sizeof(finding.id));
    finding.kind = field_get_enum(&in, 1, FINDING_KIND_COUNT);
    finding.class = field_get_enum(&in, 1, FINDING_CLASS_COUNT);
    finding.severity = field_get_enum(&in, 1, FINDING_SEVERITY_COUNT);
    finding.origin = field_get_enum(&in, 1, FINDING_ORIGIN_COUNT);
    finding.action = field_get_enum(&in, 0, ACTION_COUNT);
    finding.code = reader_get_u32(&in);
    finding.pid = reader_get_u32(&in);
    finding.count = reader_get_u32(&in);
    reader_get_str(&in, finding.node, sizeof(finding.node));
    reader_get_str(&in, finding.device, sizeof(finding.device));
    reader_get_str(&in, finding.text, sizeof(finding.text));
    reader_get_str(&in, finding.raw, sizeof(finding.raw));
    finding.rank_count = reader_get_u32(&in);
    for (uint32_t i = 0; i < finding.rank_count && i < FINDING_RANKS; i++)
        finding.rank[i] = reader_get_u32(&in);
    if (in.bad || finding.error_ns < 0 || finding.count == 0 || !finding.id[0] || !finding.node[0])
        return -EPROTO;
    *ret = finding;
    return 0;
}

/* ---- checks ---- */

const char *check_state_name(unsigned state)
{
    return field_name(state_names, COUNT(state_names), state);
}

void check_put(struct buf *out, const struct check *check)
{
    field_put_i64(out, check->mono_ns);
    field_put_i64(out, check->real_ns);
    buf_put_u8(out, check->state);
    buf_put_str(out, check->node);
    buf_put_str(out, check->device);
    buf_put_str(out, check->stage);
    buf_put_str(out, check->name);
    field_put_bool(out, check->has_value);
    field_put_bool(out, check->has_expected);
    buf_put_f64(out, check->value);
    buf_put_f64(out, check->expected);
    buf_put_str(out, check->unit);
    buf_put_str(out, check->why);
    buf_put_f64(out, check->seconds);
}

int check_get(struct reader in, struct check *ret)
{
    struct check check = { .mono_ns = field_get_mono(&in) };

    check.real_ns = field_get_real(&in);
    check.state = field_get_enum(&in, 1, CHECK_STATE_COUNT);
    reader_get_str(&in, check.node, sizeof(check.node));
    reader_get_str(&in, check.device, sizeof(check.device));
    reader_get_str(&in, check.stage, sizeof(check.stage));
    reader_get_str(&in, check.name, sizeof(check.name));
    check.has_value = field_get_bool(&in);
    check.has_expected = field_get_bool(&in);
    check.value = field_get_finite(&in);
    check.expected = field_get_finite(&in);
    reader_get_str(&in, check.unit, sizeof(check.unit));
    reader_get_str(&in, check.why, sizeof(check.why));
    check.seconds = field_get_finite(&in);
    if (in.bad || check.seconds < 0 || !check.node[0] || !check.name[0])
        return -EPROTO;
    *ret = check;
    return 0;
}

/* ---- environments ---- */

#define PAIR_BYTES 5 /* of one with empty texts: a pair without its bytes is not made room for */

void environment_put(struct buf *out, const struct environment *environment)
{
    field_put_i64(out, environment->mono_ns);
    field_put_i64(out, environment->real_ns);
    buf_put_u32(out, environment->rank);
    buf_put_u32(out, environment->attempt);
    buf_put_str(out, environment->node);
    buf_put_u32(out, environment->count);
    for (uint32_t i = 0; i < environment->count; i++) {
        buf_put_str(out, environment->pair[i].name);
        buf_put_str(out, environment->pair[i].value);
        field_put_bool(out, environment->pair[i].digest);
    }
}

int environment_get(struct reader in, struct environment *ret)
{
    CLEAN(environment_fini) struct environment environment = { .mono_ns = field_get_mono(&in) };

    environment.real_ns = field_get_real(&in);
    environment.rank = reader_get_u32(&in);
    environment.attempt = reader_get_u32(&in);
    reader_get_str(&in, environment.node, sizeof(environment.node));
    environment.count = reader_get_u32(&in);
    if (in.bad || !environment.node[0] || environment.count > ENVIRONMENT_PAIRS ||
        reader_left(&in) < (size_t)environment.count * PAIR_BYTES)
        return -EPROTO;
    environment.pair = calloc(environment.count + 1, sizeof(*environment.pair));
    if (!environment.pair)
        return -ENOMEM;
    for (uint32_t i = 0; i < environment.count; i++) {
        struct environment_pair *pair = &environment.pair[i];

        reader_get_str(&in, pair->name, sizeof(pair->name));
        reader_get_str(&in, pair->value, sizeof(pair->value));
        pair->digest = field_get_bool(&in);
    }
    if (in.bad)
        return -EPROTO;
    *ret = environment;
    environment.pair = NULL;
    return 0;
}

void environment_fini(struct environment *environment)
{
    free(environment->pair);
    environment->pair = NULL;
    environment->count = 0;
}
