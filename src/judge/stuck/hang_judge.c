/* hang_judge.c - looks at the newest beats once a second and when somebody ends, and has the life of what is found in
 * them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/ledger.h"
#include "judge/stuck/hang_private.h"

/* Beats count from when they came: clocks of nodes differ. */
static void beats_age(const struct judge_state *judge, struct hang *hang, int64_t now_ns)
{
    int64_t fresh_ns = (int64_t)(judge->limits.hang_fresh * (double)NS_PER_S);

    for (uint32_t rank = 0; rank < hang->world; rank++) {
        struct beat_kept *kept = &hang->kept[rank];

        if (kept->arrived)
            kept->arrived_ns = now_ns;
        kept->arrived = false;
        hang->rank[rank].seen =
            kept->any && (hang->rank[rank].gone || now_ns - kept->arrived_ns < fresh_ns);
    }
}

/* The same while the same thing holds. */
static uint64_t hang_signature(const struct wait_finding *finding)
{
    uint64_t sum = hash64_u64(finding->kind + 1, finding->op.comm);

    sum = hash64_u64(sum, finding->op.key);
    for (uint32_t i = 0; i < MIN(finding->culprits, WAIT_CULPRITS); i++)
        sum = hash64_u64(sum, (uint64_t)finding->culprit[i] << 8 | finding->how[i]);
    return sum | 1;
}

static struct found *hang_found(struct hang *hang, const struct wait_finding *finding)
{
    return &hang->found[finding->kind == WAIT_MISMATCH];
}

static struct tracked_verdict *tracked_of(struct judge_state *judge, const struct found *found)
{
    for (uint32_t i = 0; found->id[0] && i < judge->verdicts.count; i++) {
        if (strcmp(judge->verdicts.tracked[i]->verdict.id, found->id) == 0)
            return judge->verdicts.tracked[i];
    }
    return NULL;
}

struct tracked_verdict *hang_open(struct judge_state *judge)
{
    for (int i = 0; i < KINDS; i++) {
        struct tracked_verdict *tracked = tracked_of(judge, &judge->hang->found[i]);

        if (tracked && tracked->open)
            return tracked;
    }
    return NULL;
}

static bool lines_equal(const struct verdict *a, const struct verdict *b)
{
    if (a->because_count != b->because_count || a->rank_count != b->rank_count ||
        a->layer != b->layer)
        return false;
    for (uint32_t i = 0; i < MIN(a->rank_count, VERDICT_RANKS); i++) {
        if (a->rank[i] != b->rank[i])
            return false;
    }
    return strcmp(a->cause, b->cause) == 0;
}

/* What is learnt later goes into the verdict that stands: one fault is one verdict. */
static void tracked_renew(struct tracked_verdict *tracked, const struct verdict *draft)
{
    struct verdict *verdict = &tracked->verdict;
    struct verdict fresh = *draft;

    if (lines_equal(verdict, draft))
        return;
    memcpy(fresh.id, verdict->id, sizeof(fresh.id));
    memcpy(fresh.run, verdict->run, sizeof(fresh.run));
    fresh.since_step = verdict->since_step;
    fresh.since_real_ns = verdict->since_real_ns;
    fresh.decided_step = verdict->decided_step;
    fresh.decided_real_ns = verdict->decided_real_ns;
    fresh.gpu_seconds = verdict->gpu_seconds;
    fresh.echo_count = verdict->echo_count;
    memcpy(fresh.echo, verdict->echo, sizeof(fresh.echo));
    *verdict = fresh;
    tracked->changed = true;
}

static void hang_cost(struct judge_state *judge, struct tracked_verdict *tracked, int64_t now_ns)
{
    double seconds =
        (double)(now_ns + judge->mono_to_real_ns - tracked->verdict.since_real_ns) / 1e9;

    tracked->verdict.gpu_seconds =
        tracked->cost_seconds * judge->model.world + MAX(seconds, 0) * judge->model.world;
}

static void hang_say(struct judge_state *judge, const struct wait_finding *finding, int64_t now_ns)
{
    struct hang *hang = judge->hang;
    struct found *found = hang_found(hang, finding);
    struct tracked_verdict *tracked = tracked_of(judge, found);
    struct verdict draft = { 0 };
    bool fresh;

    hang_draft(judge, hang->rank, finding, hang_rule(judge).limit_ns, hang_is_late(judge), &draft);
    draft.since_step = judge->history.count ? judge->last_step + 1 : 0;
    draft.since_real_ns = now_ns - finding->op.age_ns + judge->mono_to_real_ns;
    if (finding->op.comm == MODEL_NONE && finding->culprits)
        draft.since_real_ns =
            now_ns - hang->rank[finding->culprit[0]].stuck_ns + judge->mono_to_real_ns;
    if (tracked && tracked->open) {
        tracked_renew(tracked, &draft);
        hang_cost(judge, tracked, now_ns);
        return;
    }
    tracked = judge_state_find(judge, &draft, &fresh);
    if (!tracked)
        return;
    memcpy(found->id, tracked->verdict.id, sizeof(found->id));
    found->victims = finding->victims;
    tracked->attempt = judge->model.attempt;
    hang_cost(judge, tracked, now_ns);
    ledger_hang(judge->book, tracked->verdict.since_real_ns - judge->mono_to_real_ns);
}

/* The ranks go on. */
static void close_found(struct judge_state *judge, struct found *found, int64_t now_ns)
{
    struct tracked_verdict *tracked = tracked_of(judge, found);

    if (tracked && tracked->open) {
        tracked->open = false;
        tracked->changed = true;
        tracked->verdict.until_real_ns = now_ns + judge->mono_to_real_ns;
        hang_cost(judge, tracked, now_ns);
        tracked->cost_seconds = tracked->verdict.gpu_seconds / MAX(judge->model.world, 1);
        ledger_hang(judge->book, 0);
    }
    *found = (struct found){ 0 };
}

/* Ranks that have ended, or are about to, are no hang: nobody is left to be held. */
static bool somebody_lives(const struct hang *hang)
{
    for (uint32_t rank = 0; rank < hang->world; rank++) {
        if (hang->rank[rank].seen && !hang->rank[rank].gone && hang->rank[rank].state != 'Z')
            return true;
    }
    return false;
}

void hang_judge(struct judge_state *judge, int64_t now_ns)
{
    struct hang *hang = judge->hang;
    struct wait_rule rule = hang_rule(judge);
    bool again[KINDS] = { false };
    int count;

    if (hang->world != judge->model.world ||
        (double)(now_ns - hang->look_ns) < judge->limits.hang_look * 1e9)
        return;
    if (judge->exits) /* somebody died: who waits for it now is told to end */
        return;
    hang->look_ns = now_ns;
    beats_age(judge, hang, now_ns);
    if (!somebody_lives(hang))
        return;
    count = wait_look(&judge->model, hang->rank, &rule, hang->finding);
    for (int i = 0; i < count; i++) {
        const struct wait_finding *finding = &hang->finding[i];
        struct found *found = hang_found(hang, finding);
        uint64_t signature = hang_signature(finding);

        again[found - hang->found] = true;
        if (found->id[0] && finding->victims < found->victims)
            continue; /* those who waited are ended: what was said with them there says more */
        found->times = found->signature == signature ? found->times + 1 : 1;
        found->signature = signature;
        if (found->times >= 2)
            hang_say(judge, finding, now_ns);
    }
    for (int i = 0; i < KINDS; i++) {
        if (!again[i])
            close_found(judge, &hang->found[i], now_ns);
    }
}

/* ---- somebody ends: whom it had waited for, and who was in another collective than the others ---- */

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
static void before_exit(const struct judge_state *judge, int64_t exit_ns, struct wait_rank *rank)
{
    for (uint32_t at = 0; at < judge->hang->world; at++) {
        rank[at] = judge->hang->rank[at];
        if (!rank[at].gone || judge_state_run_ns(judge, at, rank[at].mono_ns) < exit_ns)
            continue;
        rank[at].gone = false;
        rank[at].seen = true;
    }
}

/* Those who lost the one that gave up may be told of before it. */
static int64_t first_exit_ns(const struct judge_state *judge, const struct fact_exit *fact)
{
    int64_t first_ns = fact->mono_ns;

    for (uint32_t i = 0; i < judge->exits; i++)
        first_ns = MIN(first_ns, judge->exit[i].mono_ns);
    return first_ns;
}

void hang_gave_up(struct judge_state *judge, const struct fact_exit *fact)
{
    struct hang *hang = judge->hang;
    CLEAN(free_clean) struct wait_rank *rank = NULL;
    int64_t waited_ns = fact->rank < hang->world ? longest_wait(&hang->rank[fact->rank]) : 0;
    /* What has lasted half as long as somebody was willing to wait is not what happened meanwhile. */
    int64_t limit_ns = MAX(waited_ns / 2, NS_PER_S);
    struct wait_rule rule = { .limit_ns = limit_ns,
                              .late_ns = limit_ns,
                              .stuck_ns =
                                  (int64_t)(judge->limits.hang_stuck_share * (double)limit_ns),
                              .burns = judge->limits.hang_burns };

    if (hang->given_up.kind || waited_ns < NS_PER_S || hang->world != judge->model.world)
        return;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return;
    before_exit(judge, first_exit_ns(judge, fact), rank);
    if (wait_look(&judge->model, rank, &rule, hang->finding) < 1 ||
        hang->finding[0].kind == WAIT_UNSEEN)
        return;
    hang->given_up = (struct verdict){ 0 };
    hang_draft(judge, rank, &hang->finding[0], 0, false, &hang->given_up);
    verdict_because(&hang->given_up, "launcher", "rank %u gave up after it had waited for %.0f s",
                    fact->rank, (double)waited_ns / 1e9);
    hang->given_up.since_step = judge->history.count ? judge->last_step + 1 : 0;
    hang->given_up.since_real_ns = fact->mono_ns - waited_ns + judge->mono_to_real_ns;
}

/* What somebody was in does not grow old: it either is still, or was in it when it ended. */
bool hang_disagreed(const struct judge_state *judge, const struct fact_exit *fact,
                    struct verdict *draft)
{
    struct hang *hang = judge->hang;
    CLEAN(free_clean) struct wait_rank *rank = NULL;

    if (hang->world != judge->model.world || fact->rank >= hang->world)
        return false;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return false;
    for (uint32_t at = 0; at < hang->world; at++) {
        rank[at] = hang->rank[at];
        rank[at].seen = hang->kept[at].any;
    }
    if (!wait_disagreed(&judge->model, rank, fact->rank, &hang->finding[0]))
        return false;
    *draft = (struct verdict){ 0 };
    hang_draft(judge, rank, &hang->finding[0], 0, false, draft);
    return true;
}

void hang_told_exit(struct judge_state *judge, const struct fact_exit *fact)
{
    struct hang *hang = judge->hang;
    struct wait_rule rule = hang_rule(judge);
    CLEAN(free_clean) struct wait_rank *rank = NULL;
    bool once = false;
    int count;

    for (int i = 0; i < KINDS; i++)
        once |= hang->found[i].times == 1 && !hang->found[i].id[0];
    if (!once || judge->exits || hang->world != judge->model.world)
        return;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return;
    before_exit(judge, fact->mono_ns, rank);
    count = wait_look(&judge->model, rank, &rule, hang->finding);
    for (int i = 0; i < count; i++) {
        struct found *found = hang_found(hang, &hang->finding[i]);

        if (found->times != 1 || found->signature != hang_signature(&hang->finding[i]))
            continue;
        found->times++;
        hang_say(judge, &hang->finding[i], fact->mono_ns);
    }
}

struct tracked_verdict *hang_given_up(struct judge_state *judge, int64_t now_ns)
{
    struct hang *hang = judge->hang;
    struct tracked_verdict *tracked;
    bool fresh;

    if (!hang->given_up.kind)
        return NULL;
    tracked = judge_state_find(judge, &hang->given_up, &fresh);
    if (!tracked)
        return NULL;
    tracked->attempt = judge->model.attempt;
    hang_cost(judge, tracked, now_ns);
    ledger_hang(judge->book, tracked->verdict.since_real_ns - judge->mono_to_real_ns);
    return tracked;
}
