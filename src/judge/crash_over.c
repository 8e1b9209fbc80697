/* crash_over.c - what ended an attempt, or workers within it, until training goes on. */
#include <stdio.h>

#include "judge/crash.h"
#include "judge/crash_parts.h"
#include "judge/ledger.h"

/* Verdicts that last until training goes on. */
static bool is_ending(unsigned kind)
{
    return kind == VERDICT_CRASH || kind == VERDICT_HANG || kind == VERDICT_DESYNC;
}

void crash_restarted(struct court *court, uint32_t attempt)
{
    for (uint32_t i = 0; i < court->docket.count; i++) {
        struct entry *entry = court->docket.entry[i];
        struct verdict *verdict = &entry->verdict;

        if (!is_ending(verdict->kind) || !entry->open || entry->attempt >= attempt)
            continue;
        snprintf(verdict->plan, sizeof(verdict->plan), "all ranks started again as attempt %u",
                 attempt);
        snprintf(verdict->plan_state, sizeof(verdict->plan_state), "acting");
        entry->changed = true;
    }
}

/* Those who began again within an attempt train.  The ledger has no account of such a restart by itself, so the verdict
 * has no cost.
 */
static void recovered_anew(const struct court *court, struct entry *entry,
                           const struct past_step *past)
{
    struct verdict *verdict = &entry->verdict;

    verdict->until_real_ns = past->begin_ns + court->mono_to_real_ns;
    snprintf(verdict->plan, sizeof(verdict->plan), CRASH_ANEW ", training since step %llu",
             (unsigned long long)past->step);
    snprintf(verdict->plan_state, sizeof(verdict->plan_state), "done");
    entry->open = entry->anew = false;
    entry->changed = true;
}

void crash_recovered(struct court *court, const struct past_step *past)
{
    double cost = ledger_crash_seconds(court->book);

    for (uint32_t i = 0; i < court->docket.count; i++) {
        struct entry *entry = court->docket.entry[i];

        if (!is_ending(entry->verdict.kind) || !entry->open)
            continue;
        if (entry->anew) {
            recovered_anew(court, entry, past);
            continue;
        }
        /* Late steps of the attempt that crashed are no recovery. */
        if (cost <= 0 || entry->attempt >= court->model.attempt)
            continue;
        entry->cost_seconds += cost / court->model.world; /* of all its crashes */
        entry->verdict.gpu_seconds = entry->cost_seconds * court->model.world;
        entry->verdict.until_real_ns = past->begin_ns + court->mono_to_real_ns;
        snprintf(entry->verdict.plan, sizeof(entry->verdict.plan),
                 "all ranks started again as attempt %u, training since step %llu",
                 court->model.attempt, (unsigned long long)past->step);
        snprintf(entry->verdict.plan_state, sizeof(entry->verdict.plan_state), "done");
        entry->open = false;
        entry->changed = true;
    }
}
