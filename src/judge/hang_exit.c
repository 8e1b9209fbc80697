/* hang_exit.c - somebody ends: whom it had waited for, and who was in another collective than the others. */
#include <stdlib.h>

#include "core/clean.h"
#include "judge/hang_parts.h"
#include "judge/ledger.h"

static int64_t longest_wait(const struct wait_rank *rank)
{
    int64_t longest = 0;

    for (uint32_t i = 0; i < rank->ops; i++) {
        if (rank->op[i].started && rank->op[i].comm)
            longest = MAX(longest, rank->op[i].age_ns);
    }
    return longest;
}

/* As they were when the first one ended: who is gone since was told to end, or followed. */
static void before_exit(const struct court *court, int64_t exit_ns, struct wait_rank *rank)
{
    for (uint32_t at = 0; at < court->hang->world; at++) {
        rank[at] = court->hang->rank[at];
        if (!rank[at].gone || court_run_ns(court, at, rank[at].mono_ns) < exit_ns)
            continue;
        rank[at].gone = false;
        rank[at].seen = true;
    }
}

/* Those who lost the one that gave up may be told of before it. */
static int64_t first_exit_ns(const struct court *court, const struct fact_exit *fact)
{
    int64_t first_ns = fact->mono_ns;

    for (uint32_t i = 0; i < court->exits; i++)
        first_ns = MIN(first_ns, court->exit[i].mono_ns);
    return first_ns;
}

void hang_gave_up(struct court *court, const struct fact_exit *fact)
{
    struct hang *hang = court->hang;
    CLEAN(free_clean) struct wait_rank *rank = NULL;
    int64_t waited_ns = fact->rank < hang->world ? longest_wait(&hang->rank[fact->rank]) : 0;
    /* What has lasted half as long as somebody was willing to wait is not what happened meanwhile. */
    int64_t limit_ns = MAX(waited_ns / 2, NS_PER_S);
    struct wait_rule rule = { .limit_ns = limit_ns,
                              .late_ns = limit_ns,
                              .stuck_ns =
                                  (int64_t)(court->limits.hang_stuck_share * (double)limit_ns),
                              .burns = court->limits.hang_burns };

    if (hang->given_up.kind || waited_ns < NS_PER_S || hang->world != court->model.world)
        return;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return;
    before_exit(court, first_exit_ns(court, fact), rank);
    if (wait_look(&court->model, rank, &rule, hang->finding) < 1 ||
        hang->finding[0].kind == WAIT_UNSEEN)
        return;
    hang->given_up = (struct verdict){ 0 };
    hang_draft(court, rank, &hang->finding[0], 0, false, &hang->given_up);
    verdict_because(&hang->given_up, "launcher", "rank %u waited for %.0f s, and gave up",
                    fact->rank, (double)waited_ns / 1e9);
    hang->given_up.since_step = court->history.count ? court->last_step + 1 : 0;
    hang->given_up.since_real_ns = fact->mono_ns - waited_ns + court->mono_to_real_ns;
}

/* What somebody was in does not grow old: it either is still, or was in it when it ended. */
bool hang_disagreed(const struct court *court, const struct fact_exit *fact, struct verdict *draft)
{
    struct hang *hang = court->hang;
    CLEAN(free_clean) struct wait_rank *rank = NULL;

    if (hang->world != court->model.world || fact->rank >= hang->world)
        return false;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return false;
    for (uint32_t at = 0; at < hang->world; at++) {
        rank[at] = hang->rank[at];
        rank[at].seen = hang->kept[at].any;
    }
    if (!wait_disagreed(&court->model, rank, fact->rank, &hang->finding[0]))
        return false;
    *draft = (struct verdict){ 0 };
    hang_draft(court, rank, &hang->finding[0], 0, false, draft);
    return true;
}

void hang_told_exit(struct court *court, const struct fact_exit *fact)
{
    struct hang *hang = court->hang;
    struct wait_rule rule = hang_rule(court);
    CLEAN(free_clean) struct wait_rank *rank = NULL;
    bool once = false;
    int count;

    for (int i = 0; i < KINDS; i++)
        once |= hang->found[i].times == 1 && !hang->found[i].id[0];
    if (!once || court->exits || hang->world != court->model.world)
        return;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return;
    before_exit(court, fact->mono_ns, rank);
    count = wait_look(&court->model, rank, &rule, hang->finding);
    for (int i = 0; i < count; i++) {
        struct found *found = hang_found(hang, &hang->finding[i]);

        if (found->times != 1 || found->signature != hang_signature(&hang->finding[i]))
            continue;
        found->times++;
        hang_say(court, &hang->finding[i], fact->mono_ns);
    }
}

struct entry *hang_given_up(struct court *court, int64_t now_ns)
{
    struct hang *hang = court->hang;
    struct entry *entry;
    bool fresh;

    if (!hang->given_up.kind)
        return NULL;
    entry = court_find(court, &hang->given_up, &fresh);
    if (!entry)
        return NULL;
    entry->attempt = court->model.attempt;
    hang_cost(court, entry, now_ns);
    ledger_hang(court->book, entry->verdict.since_real_ns - court->mono_to_real_ns);
    return entry;
}
