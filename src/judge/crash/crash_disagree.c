/* crash_disagree.c - a rank that aborts because a peer sent something else than it expected.
 *
 * Its library saw two collectives meet that are not the same one.  The rank that notices it is the one that received, which may
 * be either: so it is not named.  A rank that has
 * completed a step in which the other still waits has called fewer collectives than it should.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "judge/crash/crash_private.h"

static bool crash_words_disagree(const char *words)
{
    static const char *const disagree[] = {
        "op.preamble.length <= op.nbytes", /* gloo: more bytes than the buffer of this collective has */
        "Detected mismatch between collectives",
        "Mismatch between collective operation",
    };

    for (size_t i = 0; i < COUNT(disagree); i++) {
        if (strstr(words, disagree[i]))
            return true;
    }
    return false;
}

/* How far it came: a step that it completed is further than one that it only began. */
static uint64_t crash_progress_of(const struct judge_state *judge, uint32_t rank)
{
    const struct past_step *past = crash_last_step_of(judge, rank);

    return past ? 2 * past->step + !past->split[rank].unfinished : 0;
}

/* Names the ranks that are ahead of the one that noticed, unless they are most of them. */
static uint32_t crash_name_ahead(const struct judge_state *judge, const struct fact_exit *noticed,
                                 struct verdict *draft)
{
    uint64_t own = crash_progress_of(judge, noticed->rank);
    uint32_t ahead = 0;

    for (int naming = 0; naming < 2; naming++) {
        for (uint32_t rank = 0; rank < judge->model.world; rank++) {
            if (crash_progress_of(judge, rank) <= own)
                continue;
            if (naming)
                judge_state_add_rank(judge, draft, rank);
            else
                ahead++;
        }
        if (2 * ahead > judge->model.world)
            return 0;
    }
    return ahead;
}

bool crash_draft_disagree(const struct judge_state *judge, const struct fact_exit *noticed,
                          struct verdict *draft)
{
    uint32_t ahead;

    if (!crash_words_disagree(noticed->words))
        return false;
    *draft = (struct verdict){ .kind = VERDICT_DESYNC, .layer = LAYER_USER_CODE };
    snprintf(draft->cause, sizeof(draft->cause), "ranks call different collectives");
    ahead = crash_name_ahead(judge, noticed, draft);
    draft->confidence = ahead == 0 ? 0.5 : 2 * ahead < judge->model.world ? 0.8 : 0.6;
    if (ahead == 0)
        snprintf(draft->group, sizeof(draft->group), "collectives");
    else
        verdict_because(
            draft, "ring",
            "rank %u is still in step %llu, which the named rank has completed: it left "
            "a collective out, or rank %u has one too many",
            noticed->rank, (unsigned long long)crash_progress_of(judge, noticed->rank) / 2,
            noticed->rank);
    return true;
}
