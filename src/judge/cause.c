/* cause.c - which finding explains which verdict.
 *
 * A failed disk explains a rank that waits for data, not one that was killed, so a table says which layers a kind of
 * verdict can be explained by, and which layers the judge may have named before: evidence of the judge that contradicts a
 * finding outweighs it.  A finding that names a process explains only verdicts about the rank of that process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/cause.h"

#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "judge/cause_private.h"
#include "wire/kernel/xid.h"

#define SURE 0.95
#define PRESSURE_WORDS 20         /* bytes of the text that say which */
#define UNSURE 0.8                /* at most, where the node alone is named */
#define CLOSED_NS (30 * NS_PER_S) /* a verdict that ended so long ago is still explained */

#define BIT(layer) (UINT32_C(1) << LAYER_##layer)
#define DEVICE (BIT(GPU) | BIT(GPU_MEMORY) | BIT(THERMAL) | BIT(POWER) | BIT(PCIE) | BIT(NVLINK))
#define NETWORK (BIT(NIC) | BIT(FABRIC))
#define FILES (BIT(STORAGE) | BIT(DATA) | BIT(CHECKPOINT))
#define OPEN BIT(UNKNOWN) /* the judge named none */

static const struct cause_rule {
    uint8_t verdict;
    uint32_t finding; /* layers of findings */
    uint32_t before;  /* layers that the judge may have named */
    uint8_t least;    /* severity */
    bool process;     /* only a finding that names the process of the rank */
    bool port;        /* only a port that is down longer than NCCL retries */
} rules[] = {
    { VERDICT_STRAGGLER, DEVICE, DEVICE | OPEN, FINDING_WARN, false, false },
    { VERDICT_STRAGGLER, BIT(STORAGE), FILES, FINDING_WARN, false, false },
    { VERDICT_STRAGGLER, BIT(THERMAL) | BIT(HOST_MEMORY) | BIT(CPU), BIT(CPU), FINDING_WARN, false,
      false },
    { VERDICT_CRASH, DEVICE | BIT(CPU) | BIT(HOST_MEMORY), OPEN | DEVICE, FINDING_ERROR, false,
      false },
    { VERDICT_CRASH, DEVICE | BIT(CPU) | BIT(HOST_MEMORY) | BIT(USER_CODE), UINT32_MAX,
      FINDING_WARN, true, false },
    { VERDICT_HANG, DEVICE, DEVICE, FINDING_ERROR, false, false },
    { VERDICT_HANG, NETWORK, NETWORK, FINDING_ERROR, false, false },
    { VERDICT_HANG, BIT(NIC), NETWORK | OPEN, FINDING_WARN, false, true },
    { VERDICT_CRASH, BIT(NIC), NETWORK | OPEN, FINDING_WARN, false, true },
    { VERDICT_HANG, BIT(STORAGE), FILES, FINDING_WARN, false, false },
    { VERDICT_HANG, DEVICE | BIT(STORAGE), FILES | DEVICE | OPEN, FINDING_WARN, true, false },
    { VERDICT_SYNC_STALL, NETWORK | BIT(NVLINK), UINT32_MAX, FINDING_WARN, false, false },
    { VERDICT_INPUT_STALL, BIT(STORAGE), UINT32_MAX, FINDING_WARN, false, false },
    { VERDICT_CHECKPOINT_STALL, BIT(STORAGE), UINT32_MAX, FINDING_WARN, false, false },
    { VERDICT_STARTUP_STALL, BIT(STORAGE), FILES | OPEN, FINDING_ERROR, false, false },
    { VERDICT_CORRUPTION, DEVICE, UINT32_MAX, FINDING_WARN, true, false },
};

/* By kind; an Xid by its number. */
static const uint8_t layers[FINDING_KIND_COUNT] = {
    [FINDING_SXID] = LAYER_NVLINK,
    [FINDING_NVLINK] = LAYER_NVLINK,
    [FINDING_NVRM] = LAYER_GPU,
    [FINDING_AER] = LAYER_PCIE,
    [FINDING_MCE] = LAYER_CPU,
    [FINDING_EDAC] = LAYER_HOST_MEMORY,
    [FINDING_NIC] = LAYER_NIC,
    [FINDING_NVME] = LAYER_STORAGE,
    [FINDING_BLOCK] = LAYER_STORAGE,
    [FINDING_FILESYSTEM] = LAYER_STORAGE,
    [FINDING_REMOTE_FS] = LAYER_STORAGE,
    [FINDING_OOM] = LAYER_HOST_MEMORY,
    [FINDING_HUNG_TASK] = LAYER_STORAGE,
    [FINDING_LOCKUP] = LAYER_CPU,
    [FINDING_THERMAL] = LAYER_THERMAL,
    [FINDING_SEGFAULT] = LAYER_USER_CODE,
    [FINDING_PANIC] = LAYER_CPU,
    [FINDING_GPU_CLOCK] = LAYER_THERMAL,
    [FINDING_GPU_POWER] = LAYER_POWER,
    [FINDING_GPU_ECC] = LAYER_GPU_MEMORY,
    [FINDING_GPU_MEMORY] = LAYER_GPU_MEMORY,
    [FINDING_PCIE] = LAYER_PCIE,
    [FINDING_PORT] = LAYER_NIC,
    [FINDING_STORAGE] = LAYER_STORAGE,
};

unsigned cause_layer(const struct finding *finding)
{
    const struct xid *xid;

    if (finding->origin == FINDING_FROM_USER || finding->kind >= FINDING_KIND_COUNT)
        return LAYER_UNKNOWN;
    if (finding->kind != FINDING_XID)
        return layers[finding->kind];
    xid = xid_find(finding->code);
    return xid ? xid->layer : LAYER_GPU;
}

static int64_t cause_seconds_ns(double seconds)
{
    return (int64_t)(seconds * 1e9);
}

/* Of the finding's process, if the verdict names its rank. */
static bool cause_names_process(const struct judge_state *judge, const struct verdict *verdict,
                                const struct finding *finding)
{
    const struct model *model = &judge->model;

    for (uint32_t i = 0; i < MIN(verdict->rank_count, (uint32_t)VERDICT_RANKS); i++) {
        uint32_t rank = verdict->rank[i];
        uint32_t node = rank < model->world ? model->rank[rank].node : MODEL_NONE;

        if (node < model->nodes && model->rank[rank].pid == finding->pid &&
            strcmp(model->node[node].name, finding->node) == 0)
            return true;
    }
    return false;
}

static bool cause_names_node(const struct verdict *verdict, const char *node)
{
    for (uint32_t i = 0; i < MIN(verdict->node_count, (uint32_t)VERDICT_NODES); i++) {
        if (strcmp(verdict->node[i], node) == 0)
            return true;
    }
    return false;
}

static bool cause_in_time(const struct thresholds *limits, const struct verdict *verdict,
                          const struct finding *finding, bool process)
{
    int64_t since_ns = verdict->since_real_ns, until_ns = verdict->until_real_ns;
    int64_t slack_ns =
        cause_seconds_ns(limits->kernel_round) + MIN(finding->error_ns, 3600 * NS_PER_S);
    double before = process ? limits->kernel_late : limits->kernel_before;

    if (verdict->kind == VERDICT_CRASH)
        until_ns = since_ns + cause_seconds_ns(limits->kernel_after_crash);
    else if (!until_ns)
        until_ns = INT64_MAX / 2;
    return since_ns && finding->real_ns &&
           finding->real_ns + slack_ns >= since_ns - cause_seconds_ns(before) &&
           finding->real_ns - slack_ns <= until_ns;
}

/* A lasting condition explains as long as it lasts, which nobody reports: it is taken to last for a while. */
static bool cause_is_lasting(const struct finding *finding)
{
    return finding->origin == FINDING_FROM_SENSOR;
}

/* How long a port has been down, or was; -1: it is about something else. */
static int64_t cause_port_down_ns(const struct finding *finding, int64_t now_real_ns)
{
    if (finding->kind != FINDING_PORT || finding->code != FINDING_PORT_DOWN)
        return -1;
    return finding->severity >= FINDING_ERROR ? MAX(now_real_ns - finding->real_ns, INT64_C(0))
                                              : finding->count * NS_PER_S;
}

/* A verdict about a network names no node where all members wait alike. */
static bool cause_is_there(const struct verdict *verdict, const struct finding *finding)
{
    return cause_names_node(verdict, finding->node) ||
           (!verdict->node_count && finding->kind == FINDING_PORT &&
            (NETWORK >> verdict->layer & 1));
}

/* What slows the CPUs of a node does not slow its GPUs, nor the other way round. */
static bool cause_is_of_part(unsigned named, const struct finding *finding)
{
    if (finding->kind == FINDING_THERMAL) /* of a CPU */
        return !verdict_layer_is_device(named);
    return named != LAYER_CPU ||
           (finding->kind != FINDING_GPU_CLOCK && finding->kind != FINDING_GPU_POWER);
}

bool cause_suffices(const struct judge_state *judge, const struct tracked_verdict *tracked,
                    const struct cause_facts *facts, const struct finding *finding)
{
    const struct verdict *verdict = &tracked->verdict;
    unsigned layer = cause_layer(finding);
    bool process = finding->pid && cause_names_process(judge, verdict, finding);
    /* What a former pass set is no evidence of the judge. */
    bool explained = tracked->explained[0] && verdict->layer == tracked->explained_layer;
    unsigned named = explained ? tracked->judged_layer : verdict->layer;
    int64_t down_ns = cause_port_down_ns(finding, facts->now_real_ns);
    bool ends = down_ns >= facts->bridge_ns; /* ... the communication over that port */

    if (layer == LAYER_UNKNOWN || (finding->pid && !process) || !cause_is_of_part(named, finding) ||
        (!process && !cause_is_there(verdict, finding)) ||
        (down_ns >= 0 && !ends && verdict->kind != VERDICT_SYNC_STALL) ||
        !cause_in_time(&judge->limits, verdict, finding, process || cause_is_lasting(finding)))
        return false;
    for (size_t i = 0; i < COUNT(rules); i++) {
        if (rules[i].verdict == verdict->kind && (rules[i].finding >> layer & 1) &&
            (rules[i].before >> named & 1) && finding->severity >= rules[i].least &&
            (process || !rules[i].process) && (ends || !rules[i].port))
            return true;
    }
    return false;
}

/* Findings that name the process of the rank before those about its node; then the earliest. */
static const struct finding *cause_find(const struct judge_state *judge,
                                        const struct tracked_verdict *tracked,
                                        const struct cause_facts *facts)
{
    const struct finding *const *finding = facts->finding;
    const struct finding *first = NULL;

    for (size_t i = 0; i < facts->count; i++) {
        if ((!first || (finding[i]->pid && !first->pid) ||
             (!finding[i]->pid == !first->pid && finding[i]->real_ns < first->real_ns)) &&
            cause_suffices(judge, tracked, facts, finding[i]))
            first = finding[i];
    }
    return first;
}

/* The sentence of a finding without its device and process, which the verdict has in fields of its own. */
static void cause_words(const struct tracked_verdict *tracked, const struct cause_facts *facts,
                        const struct finding *finding, char *out, size_t room)
{
    const char *end = strstr(finding->text, ", device ");
    int bytes = end ? (int)(end - finding->text) : (int)strlen(finding->text);

    if (tracked->verdict.kind != VERDICT_SYNC_STALL &&
        cause_port_down_ns(finding, facts->now_real_ns) >= facts->bridge_ns)
        snprintf(out, room, "%.*s, longer than the %.1f s for which NCCL retries", bytes,
                 finding->text, (double)facts->bridge_ns / 1e9);
    else
        snprintf(out, room, "%.*s", bytes, finding->text);
}

void cause_add_line(struct verdict_line *list, uint32_t *count, const struct finding *finding)
{
    struct verdict_line *line;

    for (uint32_t i = 0; i < *count; i++) {
        if (strncmp(list[i].what, finding->text, sizeof(list[i].what) - 1) == 0)
            return;
    }
    if (*count == VERDICT_LINES)
        --*count; /* the line that says why matters more than the last of many */
    line = &list[(*count)++];
    *line = (struct verdict_line){ .what = "" };
    snprintf(line->what, sizeof(line->what), "%s", finding->text);
    snprintf(line->source, sizeof(line->source), "%s",
             finding->origin == FINDING_FROM_SENSOR ? "sensor" : "kernel log");
}

static void cause_set(struct tracked_verdict *tracked, const struct cause_facts *facts,
                      const struct finding *finding)
{
    struct verdict *verdict = &tracked->verdict;
    char words[sizeof(verdict->cause)];
    bool fresh = strcmp(tracked->explained, finding->id) != 0;

    cause_words(tracked, facts, finding, words, sizeof(words));
    if (!fresh && verdict->layer == cause_layer(finding) && strcmp(verdict->cause, words) == 0)
        return;
    if (!tracked->explained[0] || verdict->layer != tracked->explained_layer)
        tracked->judged_layer = verdict->layer; /* as the judge named it, now or again */
    snprintf(tracked->explained, sizeof(tracked->explained), "%s", finding->id);
    cause_add_line(verdict->because, &verdict->because_count, finding);
    if (!verdict->device[0])
        snprintf(verdict->device, sizeof(verdict->device), "%s", finding->device);
    verdict->confidence =
        finding->pid ? MAX(verdict->confidence, SURE) : MIN(verdict->confidence, UNSURE);
    tracked->changed |= fresh;
    if (finding->kind == FINDING_SEGFAULT) /* how it ended is known already, and in more words */
        return;
    verdict->layer = (uint8_t)cause_layer(finding);
    tracked->explained_layer = verdict->layer;
    memcpy(verdict->cause, words, sizeof(words));
}

static void cause_echo(const struct judge_state *judge, struct tracked_verdict *tracked,
                       const struct cause_facts *facts, const struct finding *first,
                       const struct finding *finding)
{
    struct verdict *verdict = &tracked->verdict;
    uint32_t before = verdict->echo_count;

    if (finding == first || finding->real_ns < first->real_ns ||
        strcmp(finding->text, first->text) == 0 || before == VERDICT_LINES ||
        !cause_suffices(judge, tracked, facts, finding))
        return;
    cause_add_line(verdict->echo, &verdict->echo_count, finding);
    tracked->changed |= verdict->echo_count != before;
}

/* A limit that is reached, or too little for all: beside a rank that lacks CPU time it is evidence.  The judge says what it
 * lacks in more words, so it is no cause.
 */
static void cause_pressure(const struct judge_state *judge, struct tracked_verdict *tracked,
                           const struct cause_facts *facts)
{
    struct verdict *verdict = &tracked->verdict;

    for (size_t i = 0; i < facts->count && verdict->because_count < VERDICT_LINES; i++) {
        const struct finding *finding = facts->finding[i];
        bool known = false;

        if (finding->kind != FINDING_HOST_PRESSURE || finding->code == FINDING_PRESSURE_IO ||
            finding->origin != FINDING_FROM_SENSOR || !cause_names_node(verdict, finding->node) ||
            !cause_in_time(&judge->limits, verdict, finding, false))
            continue;
        for (uint32_t j = 0; j < verdict->because_count; j++) /* its numbers change */
            known |= strncmp(verdict->because[j].what, finding->text, PRESSURE_WORDS) == 0;
        if (known)
            continue;
        cause_add_line(verdict->because, &verdict->because_count, finding);
        tracked->changed = true;
    }
}

void cause_judge(struct judge_state *judge, const struct cause_facts *facts)
{
    for (uint32_t i = 0; facts->count && i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        const struct finding *first;

        if (!tracked->open && !tracked->changed &&
            facts->now_real_ns - tracked->verdict.until_real_ns > CLOSED_NS)
            continue;
        if (tracked->verdict.kind == VERDICT_STRAGGLER && tracked->verdict.layer == LAYER_CPU)
            cause_pressure(judge, tracked, facts);
        first = cause_find(judge, tracked, facts);
        if (!first)
            continue;
        cause_set(tracked, facts, first);
        for (size_t j = 0; j < facts->count; j++)
            cause_echo(judge, tracked, facts, first, facts->finding[j]);
    }
    cause_fault_judge(judge, facts);
}
