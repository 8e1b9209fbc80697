/* stall_start.c - how long an attempt took until its first step.
 *
 * Slow starts are the rule: images are pulled, libraries are read, models are compiled.  It is said only
 * when one rank comes so late that all others wait for it, or when the whole start takes longer than
 * anyone plans for, or many times as long as in the attempt before.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/clean.h"
#include "judge/ledger.h"
#include "judge/median.h"
#include "judge/stall_parts.h"

struct start { /* seconds from the attempt's begin to a rank's first step */
    double median, most;
    uint32_t last; /* the rank that came last */
};

static bool start_read(const struct court *court, struct start *ret)
{
    const struct past_step *past = history_back(&court->history, 0);
    int64_t began = ledger_began_ns(court->book);
    CLEAN(free_clean) double *value = malloc((court->model.world + 1) * sizeof(*value));
    uint32_t count = 0;

    *ret = (struct start){ 0 };
    for (uint32_t rank = 0; value && rank < court->model.world; rank++) {
        double took = (double)(past->split[rank].begin_ns - began) / 1e9;

        if (!past->split[rank].present)
            continue;
        if (took > ret->most) {
            ret->most = took;
            ret->last = rank;
        }
        value[count++] = took;
    }
    ret->median = median_f64(value, count);
    return count > 0 && began > 0 && ret->median > 0;
}

static void late_accuse(struct court *court, const struct start *start)
{
    const struct past_step *past = history_back(&court->history, 0);
    struct verdict draft = { .kind = VERDICT_STARTUP_STALL,
                             .layer = LAYER_UNKNOWN,
                             .confidence = 0.8 };
    double late = start->most - start->median;
    int64_t began = ledger_began_ns(court->book);
    bool fresh;

    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        double took = (double)(past->split[rank].begin_ns - began) / 1e9;

        if (past->split[rank].present && took > start->median + late / 2)
            court_add_rank(court, &draft, rank);
    }
    snprintf(draft.cause, sizeof(draft.cause), "all others wait for its first step");
    draft.since_step = past->step;
    draft.since_real_ns = court_step_real_ns(court, past->step);
    draft.seconds_per_step = late;
    verdict_because(&draft, "ring",
                    "rank %u began its first step %.1f s after the attempt, the median rank %.1f s",
                    start->last, start->most, start->median);
    verdict_rule_out(&draft, LAYER_FABRIC, "the others had met and waited for it");
    court_find(court, &draft, &fresh);
}

static void long_accuse(struct court *court, const struct start *start, double usual)
{
    const struct past_step *past = history_back(&court->history, 0);
    struct verdict draft = { .kind = VERDICT_STARTUP_STALL,
                             .layer = LAYER_UNKNOWN,
                             .confidence = 0.6 };
    bool fresh;

    snprintf(draft.group, sizeof(draft.group), "start-up");
    snprintf(draft.cause, sizeof(draft.cause), "%s",
             usual > 0 ? "the start takes many times what it took before"
                       : "the start takes longer than anyone plans for");
    draft.since_step = past->step;
    draft.since_real_ns = court_step_real_ns(court, past->step);
    draft.seconds_per_step = start->median - usual;
    verdict_because(
        &draft, "ring",
        "the median rank began its first step %.1f s after the attempt, the last one %.1f s",
        start->median, start->most);
    if (usual > 0)
        verdict_because(&draft, "ring", "in the attempt before it took %.1f s", usual);
    else
        verdict_because(&draft, "ring", "the limit is %.0f s", court->limits.startup_most);
    court_find(court, &draft, &fresh);
}

void stall_start_step(struct court *court)
{
    const struct thresholds *limits = &court->limits;
    struct stall *stall = court->stall;
    double before = stall->start_seconds;
    struct start start;

    if (stall->started)
        return;
    stall->started = true;
    if (!start_read(court, &start))
        return;
    stall->start_seconds = start.median;
    if (start.most - start.median > limits->startup_late)
        late_accuse(court, &start);
    else if (start.median > limits->startup_most)
        long_accuse(court, &start, 0);
    else if (before > 0 && start.median > limits->startup_times * before &&
             start.median - before > limits->startup_late)
        long_accuse(court, &start, before);
}
