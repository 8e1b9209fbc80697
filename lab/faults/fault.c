/* fault.c - the table of faults, and the reader of their text.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/faults/fault.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/rand.h"
#include "lockstep/probe.h"
#include "wire/names.h"

#define FIRST ", in the first attempt"
#define FAULT_WHEN (FAULT_STEP | FAULT_STEPS)

static const struct fault_kind fault_table[] = {
    { FAULT_NONE, "none", "no fault: a healthy run", 0, 0, FAULT_BY_NOBODY, 0, 1, 0, NULL },
    { FAULT_GPU_SLOW, "gpu-slow", "a rank's device takes factor times as long",
      FAULT_RANK | FAULT_FACTOR | FAULT_WHEN | FAULT_EVERY | FAULT_OVER, 0, FAULT_BY_TRAINER, 0,
      1.5, 20, "straggler gpu" },
    { FAULT_WANDERING, "wandering-gpu",
      "the device of one rank takes factor times as long, of a different rank in each step",
      FAULT_FACTOR | FAULT_WHEN | FAULT_EVERY, 0, FAULT_BY_TRAINER, 0, 2, 20, "straggler" },
    { FAULT_ALL_SLOW, "all-slow", "the devices of all ranks take factor times as long",
      FAULT_FACTOR | FAULT_WHEN | FAULT_OVER, 0, FAULT_BY_TRAINER, 0, 1.2, 40, "regression" },
    { FAULT_HOST_SLEEP, "host-sleep",
      "a rank's host sleeps once per step before it launches work: ms, or factor of a step",
      FAULT_RANK | FAULT_FACTOR | FAULT_MS | FAULT_PHASE | FAULT_WHEN | FAULT_EVERY, 0,
      FAULT_BY_TRAINER, 0, 1.5, 20, "straggler user-code" },
    { FAULT_CPU_QUOTA, "cpu-quota", "a cgroup limits the CPU time of the hosts of a node's ranks",
      FAULT_NODE | FAULT_FACTOR | FAULT_WHEN, 0, FAULT_BY_INJECTOR, FAULT_NEEDS_CGROUP, 1.5, 20,
      "straggler cpu" },
    { FAULT_NEIGHBOURS, "neighbours",
      "busy processes share one CPU with the hosts of a node's ranks",
      FAULT_NODE | FAULT_FACTOR | FAULT_COUNT | FAULT_WHEN, 0, FAULT_BY_INJECTOR, 0, 1.5, 20,
      "straggler cpu" },
    { FAULT_UNEVEN_DATA, "uneven-data",
      "one replica has longer sequences (factor times the work), a different one in each step",
      FAULT_FACTOR | FAULT_WHEN, 0, FAULT_BY_TRAINER, 0, 1.5, 0, "imbalance data" },
    { FAULT_HEAVY_STAGE, "heavy-stage", "one pipeline stage has factor times the work, by design",
      FAULT_STAGE | FAULT_FACTOR, 0, FAULT_BY_TRAINER, 0, 1.5, 0, "imbalance" },
    { FAULT_SLOW_INPUT, "slow-input",
      "ranks wait for their next batch: ms, or factor of a step; all ranks unless one is given",
      FAULT_RANK | FAULT_FACTOR | FAULT_MS | FAULT_WHEN, FAULT_RANK, FAULT_BY_TRAINER, 0, 1.5, 20,
      "input-stall data" },
    { FAULT_KILL, "kill", "a rank is killed in the middle of a step, in the first attempt",
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "crash" },
    { FAULT_EXIT, "exit",
      "a rank exits with status 1 in the middle of a step, in the first attempt",
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "crash" },
    { FAULT_SLOW_CHECKPOINT, "slow-checkpoint",
      "checkpoints take factor times as long, or ms longer; on all ranks unless one is given",
      FAULT_RANK | FAULT_FACTOR | FAULT_MS | FAULT_WHEN, FAULT_RANK, FAULT_BY_TRAINER, 0, 3, 0,
      "checkpoint-stall checkpoint" },
    { FAULT_SLOW_STORAGE, "slow-storage",
      "each write and fsync of the checkpoints' file system takes longer, by ms or factor of a "
      "step; for all ranks unless one is given",
      FAULT_RANK | FAULT_FACTOR | FAULT_MS | FAULT_WHEN, FAULT_RANK, FAULT_BY_INJECTOR,
      FAULT_NEEDS_STORAGE, 4, 20, "checkpoint-stall storage" },
    { FAULT_SLOW_DATASET, "slow-dataset",
      "each read of the batches' file system takes longer, by ms or factor of a step; for all "
      "ranks unless one is given",
      FAULT_RANK | FAULT_FACTOR | FAULT_MS | FAULT_WHEN, FAULT_RANK, FAULT_BY_INJECTOR,
      FAULT_NEEDS_STORAGE, 1.5, 20, "input-stall storage" },
    { FAULT_BIT_FLIP, "bit-flip",
      "one bit of a rank's parameters is flipped in memory, once, in the first attempt",
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "corruption gpu-memory" },
    { FAULT_NAN, "nan", "a NaN is written into a rank's gradient, once, in the first attempt",
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "corruption" },
    { FAULT_FROZEN, "frozen-parameters",
      "the optimizer runs but changes no parameters; on all ranks unless one is given",
      FAULT_RANK | FAULT_WHEN, FAULT_RANK, FAULT_BY_TRAINER, 0, 1, 20, "corruption user-code" },
    { FAULT_SLOW_FABRIC, "slow-fabric",
      "transfers between nodes take factor times as long; needs --nodes 2 or more",
      FAULT_FACTOR | FAULT_WHEN, 0, FAULT_BY_TRAINER, 0, 10, 20, "sync-stall fabric" },
    { FAULT_SLOW_NIC, "slow-nic",
      "transfers to and from a node take factor times as long; needs --nodes 2 or more",
      FAULT_NODE | FAULT_FACTOR | FAULT_WHEN, 0, FAULT_BY_TRAINER, 0, 10, 20, "sync-stall nic" },
    { FAULT_FEW_CHANNELS, "few-channels",
      "communicators (comm dp or tp, of a rank or all) continue with 1/factor of their channels, "
      "and their transfers take factor times as long",
      FAULT_RANK | FAULT_FACTOR | FAULT_WHEN | FAULT_COMM | FAULT_ATTEMPT, FAULT_RANK,
      FAULT_BY_TRAINER, 0, 8, 20, "sync-stall" },
    { FAULT_SLOW_LINK, "slow-link",
      "the bandwidth of a node's link is limited so that a step takes factor times as long; needs "
      "--nodes 2 "
      "or more",
      FAULT_NODE | FAULT_FACTOR | FAULT_WHEN, 0, FAULT_BY_INJECTOR, FAULT_NEEDS_NET, 3, 20,
      "sync-stall nic" },
    { FAULT_LINK_DOWN, "link-down", "a node's link is cut; needs --nodes 2 or more" FIRST,
      FAULT_NODE | FAULT_STEP, 0, FAULT_BY_INJECTOR, FAULT_NEEDS_NET, 1, 20, "hang fabric" },
    { FAULT_STOP, "stop", "a rank is stopped (SIGSTOP) in the middle of a step" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "hang" },
    { FAULT_STUCK_DATA, "stuck-data", "a rank never gets its next batch" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "hang data" },
    { FAULT_STUCK_CODE, "stuck-code", "a rank's host never returns from its own code" FIRST,
      FAULT_RANK | FAULT_STEP | FAULT_PHASE, 0, FAULT_BY_TRAINER, 0, 1, 20, "hang user-code" },
    { FAULT_STUCK_GIL, "stuck-gil",
      "a thread of a rank takes the Python interpreter lock and never releases it" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, FAULT_NEEDS_TORCH, 1, 20, "hang user-code" },
    { FAULT_STUCK_STORAGE, "stuck-storage",
      "the file system of a rank's batches stops responding to it" FIRST, FAULT_RANK | FAULT_STEP,
      0, FAULT_BY_INJECTOR, FAULT_NEEDS_STORAGE, 1, 20, "hang storage" },
    { FAULT_STUCK_CHECKPOINT, "stuck-checkpoint",
      "the file system of a rank's checkpoints stops responding to it" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_INJECTOR, FAULT_NEEDS_STORAGE, 1, 20, "hang storage" },
    { FAULT_GPU_HANG, "gpu-hang", "the device of a rank never completes its work" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "hang gpu" },
    { FAULT_FROZEN_LINK, "frozen-link",
      "a rank's messages are dropped: all ranks enter a collective that makes no progress" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "hang fabric" },
    { FAULT_OTHER_OP, "other-op", "a rank enters a different collective than the others" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "desync user-code" },
    { FAULT_OTHER_SIZE, "other-size", "a rank enters a collective with a different size" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "desync user-code" },
    { FAULT_OTHER_ORDER, "other-order",
      "a rank enters two communicators in the opposite order: a deadlock" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "hang user-code" },
    { FAULT_SEGFAULT, "segfault", "a rank reads unmapped memory" FIRST, FAULT_RANK | FAULT_STEP, 0,
      FAULT_BY_TRAINER, 0, 1, 20, "crash user-code" },
    { FAULT_ABORT, "abort", "a rank calls abort()" FIRST, FAULT_RANK | FAULT_STEP, 0,
      FAULT_BY_TRAINER, 0, 1, 20, "crash user-code" },
    { FAULT_EXCEPTION, "exception", "a rank prints an uncaught exception and exits with 1" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, "crash user-code" },
    { FAULT_OOM, "oom", "a rank uses more memory than its cgroup allows" FIRST,
      FAULT_RANK | FAULT_STEP, 0, FAULT_BY_TRAINER, FAULT_NEEDS_CGROUP, 1, 20,
      "crash host-memory" },
    { FAULT_EVAL, "eval", "no fault: an evaluation takes ms after the step; on all ranks, or one",
      FAULT_RANK | FAULT_MS | FAULT_STEP, FAULT_RANK, FAULT_BY_TRAINER, 0, 1, 20, NULL },
    { FAULT_COMPILE, "compile", "no fault: a compilation takes ms; on all ranks, or one",
      FAULT_RANK | FAULT_MS | FAULT_STEP, FAULT_RANK, FAULT_BY_TRAINER, 0, 1, 20, NULL },
    { FAULT_SLOW_START, "slow-start", "no fault: start-up takes ms longer; on all ranks, or one",
      FAULT_RANK | FAULT_MS | FAULT_PHASE, FAULT_RANK, FAULT_BY_TRAINER, 0, 1, 0, NULL },
    { FAULT_ELASTIC, "elastic",
      "no fault: all workers save, exit and restart after ms with count fewer ranks; after steps "
      "again, with all ranks; needs checkpoints and a data parallel layout",
      FAULT_MS | FAULT_COUNT | FAULT_WHEN, 0, FAULT_BY_TRAINER, 0, 1, 20, NULL },
    { FAULT_LONG_SEQUENCES, "long-sequences",
      "no fault: all ranks have longer sequences for some steps (factor times the work)",
      FAULT_FACTOR | FAULT_WHEN, 0, FAULT_BY_TRAINER, 0, 1.5, 20, NULL },
    { FAULT_BUSY, "busy", "no fault: a rank's host computes for ms in one step",
      FAULT_RANK | FAULT_MS | FAULT_STEP, 0, FAULT_BY_TRAINER, 0, 1, 20, NULL },
};

enum fault_type {
    TYPE_U32,
    TYPE_U64,
    TYPE_F64,
    TYPE_NODE,
    TYPE_PHASE,
    TYPE_COMM
};

static const struct fault_field {
    uint32_t param;
    const char *name;
    enum fault_type type;
    size_t offset;
    double least, most; /* of what may be given */
} fault_fields[] = {
    { FAULT_RANK, "rank", TYPE_U32, offsetof(struct fault, rank), 0, 65535 },
    { FAULT_NODE, "node", TYPE_NODE, offsetof(struct fault, node), 0, 65535 },
    { FAULT_STAGE, "stage", TYPE_U32, offsetof(struct fault, stage), 0, 65535 },
    { FAULT_FACTOR, "factor", TYPE_F64, offsetof(struct fault, factor), 1, 100 },
    { FAULT_MS, "ms", TYPE_F64, offsetof(struct fault, ms), 0, 600000 },
    { FAULT_STEP, "step", TYPE_U64, offsetof(struct fault, step), 0, 1e15 },
    { FAULT_STEPS, "steps", TYPE_U64, offsetof(struct fault, steps), 1, 1e15 },
    { FAULT_COUNT, "count", TYPE_U32, offsetof(struct fault, count), 1, 64 },
    { FAULT_EVERY, "every", TYPE_U64, offsetof(struct fault, every), 1, 1e15 },
    { FAULT_OVER, "over", TYPE_U64, offsetof(struct fault, over), 1, 1e15 },
    { FAULT_PHASE, "phase", TYPE_PHASE, offsetof(struct fault, phase), 0, 0 },
    { FAULT_COMM, "comm", TYPE_COMM, offsetof(struct fault, comm), 0, 0 },
    { FAULT_ATTEMPT, "attempt", TYPE_U32, offsetof(struct fault, attempt), 0, 65535 },
};

static const int fault_phases[2][3] = {
    { LOCKSTEP_PHASE_FORWARD, LOCKSTEP_PHASE_BACKWARD, LOCKSTEP_PHASE_OPTIMIZER },
    { LOCKSTEP_PHASE_INIT, LOCKSTEP_PHASE_DATA, LOCKSTEP_PHASE_CHECKPOINT }, /* of a slow start */
};

static const struct fault_comm {
    const char *name;
    int comm;
} fault_comms[] = {
    { "dp", LOCKSTEP_COMM_DP },
    { "tp", LOCKSTEP_COMM_TP },
};

const struct fault_kind *fault_kinds(size_t *count)
{
    *count = COUNT(fault_table);
    return fault_table;
}

static int fault_kind_find(const char *name, size_t size, const struct fault_kind **ret,
                           struct err *err)
{
    for (size_t i = 0; i < COUNT(fault_table); i++) {
        if (strlen(fault_table[i].name) == size && memcmp(fault_table[i].name, name, size) == 0) {
            *ret = &fault_table[i];
            return 0;
        }
    }
    return err_set(err, -EINVAL, "unknown fault '%.*s'; see --list-faults", (int)MIN(size, 40u),
                   name);
}

static int fault_phase_parse(const char *text, bool start, int *ret, struct err *err)
{
    const int *phase = fault_phases[start];

    for (size_t i = 0; i < COUNT(fault_phases[start]); i++) {
        if (strcmp(name_of_phase((unsigned)phase[i]), text) == 0) {
            *ret = phase[i];
            return 0;
        }
    }
    return err_set(err, -EINVAL, "phase must be %s, %s or %s, not '%s'",
                   name_of_phase((unsigned)phase[0]), name_of_phase((unsigned)phase[1]),
                   name_of_phase((unsigned)phase[2]), text);
}

static int fault_comm_parse(const char *text, int *ret, struct err *err)
{
    for (size_t i = 0; i < COUNT(fault_comms); i++) {
        if (strcmp(fault_comms[i].name, text) == 0) {
            *ret = fault_comms[i].comm;
            return 0;
        }
    }
    return err_set(err, -EINVAL, "comm must be dp or tp, not '%s'", text);
}

static int fault_number(const struct fault_field *field, const char *text, double *ret,
                        struct err *err)
{
    const char *digits = field->type == TYPE_NODE && text[0] == 'n' ? text + 1 : text;
    char *end;
    double value;

    /* Only plain decimal numbers: strtod() would also take hex, nan, inf and blanks. */
    if (digits[0] == '\0' || strspn(digits, "0123456789.") != strlen(digits))
        return err_set(err, -EINVAL, "%s '%s' is not a number", field->name, text);
    value = strtod(digits, &end);
    if (*end != '\0' || (field->type != TYPE_F64 && value != floor(value)))
        return err_set(err, -EINVAL, "%s '%s' is not a%s number", field->name, text,
                       field->type == TYPE_F64 ? "" : " whole");
    if (value < field->least || value > field->most)
        return err_set(err, -EINVAL, "%s must be %.15g to %.15g, not %s", field->name, field->least,
                       field->most, text);
    *ret = value;
    return 0;
}

static int fault_field_set(struct fault *fault, const struct fault_field *field, const char *text,
                           struct err *err)
{
    char *place = (char *)fault + field->offset;
    double value = 0;
    int result;

    if (field->type == TYPE_PHASE)
        result = fault_phase_parse(text, fault->kind->id == FAULT_SLOW_START, &fault->phase, err);
    else if (field->type == TYPE_COMM)
        result = fault_comm_parse(text, &fault->comm, err);
    else
        result = fault_number(field, text, &value, err);
    if (result < 0)
        return result;
    if (field->type == TYPE_U64)
        *(uint64_t *)(void *)place = (uint64_t)value;
    else if (field->type == TYPE_F64)
        *(double *)(void *)place = value;
    else if (field->type != TYPE_PHASE && field->type != TYPE_COMM)
        *(uint32_t *)(void *)place = (uint32_t)value;
    fault->set |= field->param;
    return 0;
}

static void fault_names(uint32_t params, char *out, size_t room)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < COUNT(fault_fields); i++) {
        int put;

        if (!(params & fault_fields[i].param))
            continue;
        put = snprintf(out + used, room - used, "%s%s", used ? ", " : "", fault_fields[i].name);
        used = MIN(used + (size_t)put, room - 1);
    }
}

static int fault_pair(struct fault *fault, char *pair, struct err *err) /* "name=value" */
{
    char *equals = strchr(pair, '='), names[80];

    if (!equals || equals == pair || equals[1] == '\0')
        return err_set(err, -EINVAL, "'%s' is not name=value", pair);
    *equals = '\0';
    for (size_t i = 0; i < COUNT(fault_fields); i++) {
        const struct fault_field *field = &fault_fields[i];

        if (strcmp(field->name, pair) != 0 || !(fault->kind->params & field->param))
            continue;
        if (fault->set & field->param)
            return err_set(err, -EINVAL, "%s is given twice", pair);
        return fault_field_set(fault, field, equals + 1, err);
    }
    fault_names(fault->kind->params, names, sizeof(names));
    return err_set(err, -EINVAL, "unknown parameter '%s'; expected %s", pair,
                   names[0] ? names : "none");
}

static int fault_pairs(struct fault *fault, const char *text, struct err *err)
{
    char copy[FAULT_TEXT];
    char *rest = copy, *pair;

    if (strlen(text) >= sizeof(copy))
        return err_set(err, -EINVAL, "longer than %zu characters", sizeof(copy) - 1);
    strcpy(copy, text); /* fits: checked above */
    while ((pair = strsep(&rest, ","))) {
        int result = fault_pair(fault, pair, err);

        if (result < 0)
            return result;
    }
    if ((fault->set & FAULT_ATTEMPT) && !(fault->set & FAULT_STEP))
        fault->step = 0;
    if ((fault->set & FAULT_MS) && (fault->set & FAULT_FACTOR))
        return err_set(err, -EINVAL, "expected ms or factor, not both");
    return 0;
}

int fault_parse(const char *text, struct fault *ret, struct err *err)
{
    size_t size = strcspn(text, ":");
    struct fault fault = { .phase = LOCKSTEP_PHASE_FORWARD, .comm = LOCKSTEP_COMM_DP };
    int result = fault_kind_find(text, size, &fault.kind, err);

    if (result < 0)
        return result;
    fault.factor = fault.kind->factor;
    fault.step = fault.kind->step;
    if (text[size] == ':') {
        result = fault_pairs(&fault, text + size + 1, err);
        if (result < 0)
            return err_wrap(err, result, "fault %s", fault.kind->name);
    }
    *ret = fault;
    return 0;
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static int fault_draw(struct fault *fault, uint32_t param, uint32_t *place, uint32_t limit,
                      struct rand *rand, const char *name, struct err *err)
{
    uint32_t drawn = rand_below(rand, limit); /* always, so that one choice does not move others */

    if (!(fault->kind->params & param))
        return 0;
    if (!(fault->set & param)) {
        if (fault->kind->all_params & param)
            return 0;
        *place = drawn;
        fault->set |= param;
    }
    if (*place >= limit)
        return err_set(err, -EINVAL, "fault %s: %s %u does not exist: expected less than %u",
                       fault->kind->name, name, *place, limit);
    return 0;
}

int fault_resolve(struct fault *fault, const struct fault_shape *shape, uint32_t which,
                  struct err *err)
{
    struct rand rand = { hash64_u64(hash64_u64(shape->seed, 0x6661756c74), which) };
    int result = fault_draw(fault, FAULT_RANK, &fault->rank, shape->world, &rand, "rank", err);

    if (result == 0)
        result =
            fault_draw(fault, FAULT_NODE, &fault->node, MAX(shape->nodes, 1u), &rand, "node", err);
    if (result == 0)
        result = fault_draw(fault, FAULT_STAGE, &fault->stage, MAX(shape->stages, 1u), &rand,
                            "stage", err);
    if (result == 0 && shape->nodes < 2 &&
        (fault->kind->id == FAULT_SLOW_FABRIC || fault->kind->id == FAULT_SLOW_NIC ||
         fault->kind->needs & FAULT_NEEDS_NET))
        return err_set(err, -EINVAL, "fault %s: needs 2 nodes or more", fault->kind->name);
    if (result == 0 && fault->kind->id == FAULT_HEAVY_STAGE && shape->stages < 2)
        return err_set(err, -EINVAL, "fault heavy-stage: needs a layout with pp of 2 or more");
    return result;
}

/* Plain decimals, as we read them: %g would write 1e-05. */
static int fault_decimal_format(const char *name, double value, char *out, size_t room)
{
    int size = snprintf(out, room, "%s=%.6f", name, value);

    while (size > 0 && (size_t)size < room && out[size - 1] == '0')
        out[--size] = '\0';
    if (size > 0 && (size_t)size < room && out[size - 1] == '.')
        out[--size] = '\0';
    return size;
}

static int field_format(const struct fault *fault, const struct fault_field *field, char *out,
                        size_t room)
{
    const char *place = (const char *)fault + field->offset;

    switch (field->type) {
    case TYPE_PHASE:
        return snprintf(out, room, "%s=%s", field->name, name_of_phase((unsigned)fault->phase));
    case TYPE_COMM:
        for (size_t i = 0; i < COUNT(fault_comms); i++)
            if (fault_comms[i].comm == fault->comm)
                return snprintf(out, room, "%s=%s", field->name, fault_comms[i].name);
        return 0;
    case TYPE_F64:
        return fault_decimal_format(field->name, *(const double *)(const void *)place, out, room);
    case TYPE_U64:
        return snprintf(out, room, "%s=%llu", field->name,
                        (unsigned long long)*(const uint64_t *)(const void *)place);
    case TYPE_U32:
    case TYPE_NODE:
        break;
    }
    return snprintf(out, room, "%s=%u", field->name, *(const uint32_t *)(const void *)place);
}

void fault_format(const struct fault *fault, char out[static FAULT_TEXT])
{
    uint32_t shown = fault->set | (fault->kind->params & FAULT_STEP);
    size_t used;
    char separator = ':';

    if (!(shown & FAULT_MS))
        shown |= fault->kind->params & FAULT_FACTOR;
    used = (size_t)snprintf(out, FAULT_TEXT, "%s", fault->kind->name);
    for (size_t i = 0; i < COUNT(fault_fields) && used < FAULT_TEXT - 1; i++) {
        if (!(shown & fault_fields[i].param))
            continue;
        out[used++] = separator;
        out[used] = '\0';
        used += (size_t)field_format(fault, &fault_fields[i], out + used, FAULT_TEXT - used);
        separator = ',';
    }
}

void fault_list(FILE *out)
{
    for (size_t i = 0; i < COUNT(fault_table); i++) {
        const struct fault_kind *kind = &fault_table[i];
        char names[80];

        fault_names(kind->params, names, sizeof(names));
        fprintf(out, "%-16s %s\n", kind->name, kind->summary);
        if (names[0])
            fprintf(out, "%-16s parameters: %s", "", names);
        if (kind->params & FAULT_FACTOR)
            fprintf(out, " (factor %g", kind->factor);
        if (kind->params & FAULT_STEP)
            fprintf(out, "%sstep %llu", kind->params & FAULT_FACTOR ? ", " : " (",
                    (unsigned long long)kind->step);
        if (kind->params & (FAULT_STEP | FAULT_FACTOR))
            fprintf(out, " by default)");
        if (kind->needs & FAULT_NEEDS_CGROUP)
            fprintf(out, "; needs a writable cgroup");
        if (kind->needs & FAULT_NEEDS_NET)
            fprintf(out, "; needs root and iproute2");
        if (kind->needs & FAULT_NEEDS_STORAGE)
            fprintf(out, "; needs root and /dev/fuse");
        if (kind->needs & FAULT_NEEDS_TORCH)
            fprintf(out, "; needs --torch");
        if (names[0])
            fputc('\n', out);
    }
}

bool fault_ends_attempt(const struct fault *fault)
{
    const char *expect = fault->kind->expect;

    return expect && (strncmp(expect, "crash", 5) == 0 || strncmp(expect, "hang", 4) == 0 ||
                      strncmp(expect, "desync", 6) == 0);
}

bool fault_active(const struct fault *fault, uint64_t step)
{
    return step >= fault->step && (fault->steps == 0 || step - fault->step < fault->steps) &&
           (fault->every < 2 || (step - fault->step) % fault->every == 0);
}

double fault_factor(const struct fault *fault, uint64_t step)
{
    uint64_t grown = step - fault->step + 1;

    return grown < fault->over ? 1 + (fault->factor - 1) * (double)grown / (double)fault->over
                               : fault->factor;
}

uint32_t fault_node_of_rank(uint32_t rank, uint32_t world, uint32_t nodes)
{
    uint32_t block = nodes > 0 ? (world + nodes - 1) / nodes : world;

    return rank / MAX(block, 1u);
}
