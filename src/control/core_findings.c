/* core_findings.c - what nodes observed: which ranks it touches, and which verdicts it explains.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "control/core_private.h"
#include "core/clean.h"
#include "core/time.h"
#include "judge/cause.h"
#include "judge/ledger.h"
#include "judge/settings.h"

#define SETTINGS_MAX 512                /* of a job, that are looked at */
#define CLOCKS_APART_NS (60 * NS_PER_S) /* of two machines, at most, if both are set */

/* A finding from before or after the run touches none of its ranks. */
static bool core_is_outside(const struct core *core, const struct finding *finding)
{
    int64_t error_ns = finding->error_ns + CLOCKS_APART_NS, mono_ns; /* by the run's clock */

    if (!core->judge.mono_to_real_ns) /* nothing is known of that */
        return false;
    if (__builtin_sub_overflow(finding->real_ns, core->judge.mono_to_real_ns, &mono_ns) ||
        mono_ns > INT64_MAX / 2 || mono_ns < INT64_MIN / 2)
        return true;
    return mono_ns + error_ns < core->begin_ns ||
           (core->over_ns && mono_ns - error_ns > core->over_ns);
}

/* Is, or was last: on a node whose GPU is lost the rank of the next attempt may end before it is seen. */
static bool core_rank_is_on(const struct core *core, uint32_t rank, const char *node)
{
    const struct model *model = &core->judge.model;
    const struct model_rank *at = &model->rank[rank];

    return at->seen && at->node < model->nodes && strcmp(model->node[at->node].name, node) == 0;
}

enum core_touch core_touch(const struct core *core, struct finding *finding)
{
    const struct model *model = &core->judge.model;
    enum core_touch touch = CORE_TOUCH_NONE;

    finding->rank_count = 0;
    for (uint32_t rank = 0; rank < model->world && !core_is_outside(core, finding); rank++) {
        bool named = finding->pid && model->rank[rank].pid == finding->pid;

        if (!core_rank_is_on(core, rank, finding->node) || (touch == CORE_TOUCH_PID && !named))
            continue;
        if (named && touch != CORE_TOUCH_PID)
            finding->rank_count = 0; /* that one, and not all of the node */
        touch = MAX(touch, named ? CORE_TOUCH_PID : CORE_TOUCH_NODE);
        if (finding->rank_count < FINDING_RANKS)
            finding->rank[finding->rank_count] = rank;
        finding->rank_count++;
    }
    return touch;
}

bool core_node_clock(const struct core *core, const char *node, int64_t *offset_ns,
                     int64_t *error_ns)
{
    const struct model *model = &core->judge.model;

    for (uint32_t i = 0; i < model->nodes; i++) {
        if (!model->node[i].aligned || strcmp(model->node[i].name, node) != 0)
            continue;
        *offset_ns = model->node[i].offset_ns;
        *error_ns = model->node[i].error_ns;
        return true;
    }
    return false;
}

/* A fact that the core keeps for others to read. */
int core_feed_known(struct core *core, const struct frame *frame)
{
    int result = run_facts_feed(&core->facts, frame, core->judge.model.world);

    if (result == 0 && frame->type == FRAME_PLACES)
        ledger_places(core->judge.book, &core->facts.places);
    if (result == 0 && frame->type == FRAME_FINDING)
        core_take_finding(core, frame);
    if (result == 0 && frame->type == FRAME_OUTCOME)
        core_take_outcome(core, frame);
    return result;
}

/* What nodes observed explains verdicts. */
void core_join_findings(struct core *core, int64_t real_ns, bool last)
{
    const struct environments_attempt *now = &core->facts.environments.now;
    const struct finding *finding[RUN_FACTS_FINDINGS];
    struct setting setting[SETTINGS_MAX];
    size_t settings = 0;

    for (size_t i = 0; i < now->pairs && settings < SETTINGS_MAX; i++) {
        const struct rank_pair *pair = &now->pair[i];

        if (!pair->pair.digest)
            setting[settings++] = (struct setting){ pair->pair.name, pair->pair.value, pair->node,
                                                    pair->ranks, pair->first_rank };
    }
    for (size_t i = 0; i < core->facts.findings; i++)
        finding[i] = &core->facts.finding[i].finding;
    cause_judge(&core->judge,
                &(struct cause_facts){ .finding = finding,
                                       .count = core->facts.findings,
                                       .bridge_ns = settings_port_bridge_ns(setting, settings),
                                       .now_real_ns = real_ns,
                                       .last = last });
    settings_judge(&core->judge, setting, settings);
}
