/* cause_fault.c - node faults: findings that explain no verdict about a rank.
 *
 * What hurts a rank shows within some steps, so a finding is given that time to explain another verdict.  One that foretells
 * something hurts nobody yet and is reported at once, with its forecast.  A device has one verdict, whose cause is its most severe
 * finding.  It is over when that finding explains another verdict after all, or is too old to say how the node is now.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "judge/cause_private.h"

#define FAULTS_MAX 32 /* open at a time */
#define LINES_MAX 6   /* findings of a device in its verdict */
#define SURE 0.8
#define FORETOLD 0.6 /* a forecast may not come true */

static unsigned fault_layer(const struct finding *finding)
{
    if (finding->kind == FINDING_OOM)
        return LAYER_UNKNOWN; /* much is asked of the node: that is no damage */
    if (finding->kind == FINDING_LEFTOVER)
        return LAYER_GPU_MEMORY;
    if (finding->kind == FINDING_SENSOR && finding->class == FINDING_CLASS_DRIVER)
        return LAYER_GPU;
    return cause_layer(finding);
}

/* "n1 nvme0": what a verdict is about. */
static void fault_group(const struct finding *finding, char *out, size_t room)
{
    snprintf(out, room, "%.30s %.30s", finding->node, finding->device);
}

static bool fault_is_here(const struct judge_state *judge, const char *node)
{
    for (uint32_t i = 0; i < judge->model.nodes; i++) {
        if (strcmp(judge->model.node[i].name, node) == 0)
            return true;
    }
    return false;
}

/* A busy disk is slow, and a device in a narrow slot has a narrow link: that is a reason if somebody suffers from it. */
static unsigned fault_least(const struct finding *finding)
{
    return finding->kind == FINDING_STORAGE || finding->kind == FINDING_PCIE ? FINDING_ERROR
                                                                             : FINDING_WARN;
}

/* Does it say that the node is damaged, now? */
static bool fault_stands(const struct judge_state *judge, const struct cause_facts *facts,
                         const struct finding *finding)
{
    int64_t age_ns = facts->now_real_ns - finding->real_ns;
    bool foretells = finding_forecast(finding);
    bool port_is_back = finding->kind == FINDING_PORT && finding->code == FINDING_PORT_DOWN &&
                        finding->severity < FINDING_ERROR;

    if (finding_is_of_program(finding) || fault_layer(finding) == LAYER_UNKNOWN || port_is_back ||
        (finding->severity < fault_least(finding) && !foretells) ||
        age_ns > (int64_t)(judge->limits.kernel_fault_lasts * 1e9))
        return false;
    return foretells || facts->last || age_ns >= (int64_t)(judge->limits.kernel_before * 1e9);
}

static bool fault_is_line(const struct verdict_line *list, uint32_t count,
                          const struct finding *finding)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strncmp(list[i].what, finding->text, sizeof(list[i].what) - 1) == 0)
            return true;
    }
    return false;
}

/* The verdict about ranks that it belongs to, also one that is over; NULL: it hurt none. */
static const struct verdict *fault_hurts(const struct judge_state *judge,
                                         const struct cause_facts *facts,
                                         const struct finding *finding)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        const struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (tracked->verdict.kind == VERDICT_NODE_FAULT)
            continue;
        if (strcmp(tracked->explained, finding->id) == 0 ||
            (tracked->explained[0] &&
             fault_is_line(tracked->verdict.echo, tracked->verdict.echo_count, finding)) ||
            cause_suffices(judge, tracked, facts, finding))
            return &tracked->verdict;
    }
    return NULL;
}

static bool fault_is_worse(const struct finding *one, const struct finding *other)
{
    return one->severity > other->severity ||
           (one->severity == other->severity && one->real_ns < other->real_ns);
}

/* The finding that a group's verdict rests on; NULL: none stands. */
static const struct finding *fault_worst(const struct judge_state *judge,
                                         const struct cause_facts *facts, const char *group)
{
    const struct finding *worst = NULL;

    for (size_t i = 0; i < facts->count; i++) {
        const struct finding *finding = facts->finding[i];
        char of[sizeof(((struct verdict *)0)->group)];

        fault_group(finding, of, sizeof(of));
        if (strcmp(of, group) == 0 && (!worst || fault_is_worse(finding, worst)) &&
            fault_stands(judge, facts, finding) && !fault_hurts(judge, facts, finding))
            worst = finding;
    }
    return worst;
}

/* Without the forecast, which stands in the evidence, and the device, which has a field of its own. */
static void fault_words(const struct finding *finding, char *out, size_t room)
{
    const char *end = strstr(finding->text, "; " FINDING_FORECAST);

    if (!end)
        end = strstr(finding->text, ", device ");
    snprintf(out, room, "%.*s", end ? (int)(end - finding->text) : (int)strlen(finding->text),
             finding->text);
}

static void fault_set(struct tracked_verdict *tracked, const struct finding *finding)
{
    struct verdict *verdict = &tracked->verdict;

    if (strcmp(tracked->explained, finding->id) == 0)
        return;
    snprintf(tracked->explained, sizeof(tracked->explained), "%s", finding->id);
    verdict->layer = (uint8_t)fault_layer(finding);
    tracked->explained_layer = tracked->judged_layer = verdict->layer;
    verdict->confidence = finding_forecast(finding) ? FORETOLD : SURE;
    fault_words(finding, verdict->cause, sizeof(verdict->cause));
    if (verdict->because_count < LINES_MAX)
        cause_add_line(verdict->because, &verdict->because_count, finding);
    tracked->changed = true;
}

static void fault_open(struct judge_state *judge, const struct finding *finding)
{
    struct verdict draft = { .kind = VERDICT_NODE_FAULT,
                             .layer = (uint8_t)fault_layer(finding),
                             .node_count = 1,
                             .confidence = finding_forecast(finding) ? FORETOLD : SURE,
                             .since_step = judge->last_step,
                             .since_real_ns = finding->real_ns };
    struct tracked_verdict *tracked;
    bool fresh;

    fault_group(finding, draft.group, sizeof(draft.group));
    snprintf(draft.node[0], sizeof(draft.node[0]), "%s", finding->node);
    snprintf(draft.device, sizeof(draft.device), "%s", finding->device);
    cause_add_line(draft.because, &draft.because_count, finding);
    verdict_because(&draft, "judge", "%s",
                    finding_forecast(finding) ? "no rank is affected yet"
                                              : "no rank is slow, stuck or gone because of it");
    tracked = judge_state_find(judge, &draft, &fresh);
    if (!tracked || !fresh)
        return;
    tracked->explained[0] = '\0';
    fault_set(tracked, finding);
}

static void fault_close(struct tracked_verdict *tracked, const struct cause_facts *facts,
                        const struct verdict *hurts)
{
    tracked->open = false;
    tracked->changed = true;
    tracked->verdict.until_real_ns = facts->now_real_ns;
    if (hurts)
        verdict_because(&tracked->verdict, "merged", "it explains %s", hurts->id);
}

static const struct finding *fault_finding(const struct cause_facts *facts, const char *id)
{
    for (size_t i = 0; i < facts->count; i++) {
        if (strcmp(facts->finding[i]->id, id) == 0)
            return facts->finding[i];
    }
    return NULL;
}

/* Returns how many are open now. */
static unsigned fault_renew(struct judge_state *judge, const struct cause_facts *facts)
{
    unsigned open = 0;

    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        const struct finding *worst, *was;

        if (tracked->verdict.kind != VERDICT_NODE_FAULT || !tracked->open)
            continue;
        worst = fault_worst(judge, facts, tracked->verdict.group);
        if (worst) {
            fault_set(tracked, worst);
            open++;
            continue;
        }
        was = fault_finding(facts, tracked->explained);
        fault_close(tracked, facts, was ? fault_hurts(judge, facts, was) : NULL);
    }
    return open;
}

void cause_fault_judge(struct judge_state *judge, const struct cause_facts *facts)
{
    unsigned open = fault_renew(judge, facts);

    for (size_t i = 0; i < facts->count && open < FAULTS_MAX; i++) {
        const struct finding *finding = facts->finding[i];
        char group[sizeof(((struct verdict *)0)->group)];

        fault_group(finding, group, sizeof(group));
        if (!fault_is_here(judge, finding->node) || !fault_stands(judge, facts, finding) ||
            judge_state_group_verdict(judge, VERDICT_NODE_FAULT, group) ||
            fault_hurts(judge, facts, finding))
            continue;
        fault_open(judge, fault_worst(judge, facts, group));
        open++;
    }
}
