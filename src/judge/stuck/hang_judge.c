/* hang_judge.c - examines the newest beats once a second and when a rank ends; opens, renews and closes the verdicts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/ledger.h"
#include "judge/stuck/hang_private.h"

#define HANG_LOOKS 2 /* in a row that agree: beats of ranks are not of one moment */

/* The age of a beat counts from its arrival, because clocks of nodes differ. */
static void hang_beats_age(const struct judge_state *judge, struct hang *hang, int64_t now_ns)
{
    int64_t fresh_ns = (int64_t)(judge->limits.beat_fresh * (double)NS_PER_S);

    for (uint32_t rank = 0; rank < hang->world; rank++) {
        struct beat_kept *kept = &hang->kept[rank];

        if (kept->arrived)
            kept->arrived_ns = now_ns;
        kept->arrived = false;
        hang->rank[rank].seen =
            kept->known && (hang->rank[rank].gone || now_ns - kept->arrived_ns < fresh_ns);
    }
}

/* Equal for findings with the same operation, culprits and causes. */
static uint64_t hang_signature(const struct wait_finding *finding)
{
    uint64_t sum = hash64_u64(finding->kind + 1, finding->op.comm);

    sum = hash64_u64(sum, finding->op.key);
    for (uint32_t i = 0; i < MIN(finding->culprits, WAIT_CULPRITS); i++)
        sum = hash64_u64(sum, (uint64_t)finding->culprit[i] << 8 | finding->cause[i]);
    return sum | 1;
}

static struct repeated_finding *hang_repeated_of(struct hang *hang,
                                                 const struct wait_finding *finding)
{
    return &hang->repeated[finding->kind == WAIT_MISMATCH];
}

static struct tracked_verdict *hang_tracked_of(struct judge_state *judge,
                                               const struct repeated_finding *repeated)
{
    for (uint32_t i = 0; repeated->id[0] && i < judge->verdicts.count; i++) {
        if (strcmp(judge->verdicts.tracked[i]->verdict.id, repeated->id) == 0)
            return judge->verdicts.tracked[i];
    }
    return NULL;
}

struct tracked_verdict *hang_open(struct judge_state *judge)
{
    for (int i = 0; i < HANG_KINDS; i++) {
        struct tracked_verdict *tracked = hang_tracked_of(judge, &judge->hang->repeated[i]);

        if (tracked && tracked->open)
            return tracked;
    }
    return NULL;
}

static bool hang_lines_equal(const struct verdict *a, const struct verdict *b)
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

static void hang_tracked_renew(struct tracked_verdict *tracked, const struct verdict *draft)
{
    struct verdict fresh = *draft;

    if (hang_lines_equal(&tracked->verdict, draft))
        return;
    fresh.echo_count = tracked->verdict.echo_count;
    memcpy(fresh.echo, tracked->verdict.echo, sizeof(fresh.echo));
    judge_state_renew(tracked, &fresh);
}

static void hang_cost(struct judge_state *judge, struct tracked_verdict *tracked, int64_t now_ns)
{
    double seconds = (double)(now_ns + judge->mono_to_real_ns - tracked->began_real_ns) / 1e9;

    tracked->verdict.gpu_seconds =
        tracked->cost_seconds * judge->model.world + MAX(seconds, 0) * judge->model.world;
}

/* A hang that returns begins again; one that outlasted a restart keeps its begin. */
static void hang_begin(struct judge_state *judge, struct tracked_verdict *tracked, bool fresh,
                       int64_t real_ns)
{
    if (fresh)
        tracked->began_real_ns = real_ns;
    tracked->attempt = judge->model.attempt;
    ledger_hang(judge->book, tracked->began_real_ns - judge->mono_to_real_ns);
}

/* A rank that failed and does not end has crashed. */
static bool hang_is_crash(struct judge_state *judge, const struct wait_finding *finding)
{
    for (uint32_t i = 0; i < MIN(finding->culprits, WAIT_CULPRITS); i++) {
        if (finding->kind != WAIT_ROOTS || finding->cause[i] == WAIT_STOPPED ||
            !judge_state_uncaught(judge, finding->culprit[i]))
            continue;
        judge->failing = finding->culprit[i] + 1;
        return true;
    }
    return false;
}

static uint32_t hang_gone(const struct hang *hang)
{
    uint32_t gone = 0;

    for (uint32_t rank = 0; rank < hang->world; rank++)
        gone += hang->rank[rank].gone;
    return gone;
}

/* Its ranks end, one after the other, since somebody ends the job: what they and those that are left are in meanwhile is nothing new,
 * and it is not over, either.
 */
static bool hang_is_ended(struct judge_state *judge)
{
    for (int i = 0; i < HANG_KINDS; i++) {
        const struct repeated_finding *repeated = &judge->hang->repeated[i];
        const struct tracked_verdict *tracked = hang_tracked_of(judge, repeated);

        if (tracked && tracked->open && hang_gone(judge->hang) > repeated->gone)
            return true;
    }
    return false;
}

static void hang_report(struct judge_state *judge, const struct wait_finding *finding,
                        int64_t now_ns)
{
    struct hang *hang = judge->hang;
    struct repeated_finding *repeated = hang_repeated_of(hang, finding);
    struct tracked_verdict *tracked = hang_tracked_of(judge, repeated);
    struct verdict draft = { 0 };
    bool fresh;

    if (hang_is_crash(judge, finding))
        return;
    hang_draft(judge, hang->rank, finding, hang_rule(judge).limit_ns, hang_is_late(judge), &draft);
    draft.since_step = judge->history.count ? judge->last_step + 1 : 0;
    draft.since_real_ns = now_ns - finding->op.age_ns + judge->mono_to_real_ns;
    if (finding->op.comm == MODEL_NONE && finding->culprits)
        draft.since_real_ns =
            now_ns - hang->rank[finding->culprit[0]].stuck_ns + judge->mono_to_real_ns;
    if (tracked && tracked->open) {
        hang_tracked_renew(tracked, &draft);
        hang_cost(judge, tracked, now_ns);
        return;
    }
    tracked = judge_state_find(judge, &draft, &fresh);
    if (!tracked)
        return;
    memcpy(repeated->id, tracked->verdict.id, sizeof(repeated->id));
    repeated->victims = finding->victims;
    repeated->gone = hang_gone(hang);
    hang_begin(judge, tracked, fresh, draft.since_real_ns);
    hang_cost(judge, tracked, now_ns);
}

/* Somebody has done something since its beat before.  A rank that was stopped and now ends has not. */
static bool hang_moves(const struct hang *hang)
{
    for (uint32_t rank = 0; rank < hang->world; rank++) {
        if (hang->rank[rank].seen && !hang->rank[rank].gone && hang->rank[rank].advanced)
            return true;
    }
    return false;
}

/* The ranks advance again.  Twice, as it was found: a stopped one that is told to end is let go on first. */
static void hang_close_repeated(struct judge_state *judge, struct repeated_finding *repeated,
                                int64_t now_ns)
{
    struct tracked_verdict *tracked = hang_tracked_of(judge, repeated);

    if (tracked && tracked->open) {
        if (!hang_moves(judge->hang))
            return;
        if (repeated->away == 0)
            repeated->away_ns = now_ns;
        if (++repeated->away < HANG_LOOKS)
            return;
        tracked->open = false;
        tracked->changed = true;
        tracked->verdict.until_real_ns = repeated->away_ns + judge->mono_to_real_ns;
        hang_cost(judge, tracked, repeated->away_ns);
        tracked->cost_seconds = tracked->verdict.gpu_seconds / MAX(judge->model.world, 1);
        ledger_hang_over(judge->book, repeated->away_ns);
    }
    *repeated = (struct repeated_finding){ 0 };
}

/* If all ranks have ended or are zombies, none is left that could hang. */
static bool hang_somebody_lives(const struct hang *hang)
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
    bool again[HANG_KINDS] = { false };
    int count;

    if (hang->world != judge->model.world ||
        (double)(now_ns - hang->look_ns) < judge->limits.hang_look * 1e9)
        return;
    if (judge->exits) /* a rank died: the launcher ends those that wait for it */
        return;
    hang->look_ns = now_ns;
    hang_beats_age(judge, hang, now_ns);
    if (!hang_somebody_lives(hang) || hang_is_ended(judge))
        return;
    count = wait_look(&judge->model, hang->rank, &rule, hang->finding);
    for (int i = 0; i < count; i++) {
        const struct wait_finding *finding = &hang->finding[i];
        struct repeated_finding *repeated = hang_repeated_of(hang, finding);
        uint64_t signature = hang_signature(finding);

        again[repeated - hang->repeated] = true;
        repeated->away = 0;
        if (repeated->id[0] && finding->victims < repeated->victims)
            continue; /* waiting ranks were ended since: the verdict with all of them says more */
        repeated->times = repeated->signature == signature ? repeated->times + 1 : 1;
        repeated->signature = signature;
        if (repeated->times >= HANG_LOOKS)
            hang_report(judge, finding, now_ns);
    }
    for (int i = 0; i < HANG_KINDS; i++) {
        if (!again[i])
            hang_close_repeated(judge, &hang->repeated[i], now_ns);
    }
    ledger_hang_lasts(judge->book, now_ns);
}

/* ---- a rank ends: what it had waited for, and whether it disagreed with the others ---- */

static int64_t hang_longest_wait(const struct wait_rank *rank)
{
    int64_t longest = 0;

    for (uint32_t i = 0; i < rank->ops; i++) {
        if (rank->op[i].started && rank->op[i].comm)
            longest = MAX(longest, rank->op[i].age_ns);
    }
    return longest;
}

/* The ranks as they were when the first one ended; those that ended later were ended by the launcher, or failed as a result. */
static void hang_before_exit(const struct judge_state *judge, int64_t exit_ns,
                             struct wait_rank *rank)
{
    for (uint32_t at = 0; at < judge->hang->world; at++) {
        rank[at] = judge->hang->rank[at];
        if (!rank[at].gone || judge_state_run_ns(judge, at, rank[at].mono_ns) < exit_ns)
            continue;
        rank[at].gone = false;
        rank[at].seen = true;
    }
}

/* Exits of ranks that lost the one that gave up may arrive before its own. */
static int64_t hang_first_exit_ns(const struct judge_state *judge, const struct fact_exit *fact)
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
    int64_t waited_ns = fact->rank < hang->world ? hang_longest_wait(&hang->rank[fact->rank]) : 0;
    /* Half of the time that the rank waited: a shorter wait may be a result of something that happened meanwhile. */
    int64_t limit_ns = MAX(waited_ns / 2, NS_PER_S);
    struct wait_rule rule = { .limit_ns = limit_ns,
                              .late_ns = limit_ns,
                              .stuck_ns =
                                  (int64_t)(judge->limits.verdict_explains * (double)limit_ns),
                              .busy_cpus = judge->limits.hang_burns };

    if (hang->given_up.kind || waited_ns < NS_PER_S || hang->world != judge->model.world)
        return;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return;
    hang_before_exit(judge, hang_first_exit_ns(judge, fact), rank);
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
        rank[at].seen = hang->kept[at].known;
    }
    if (!wait_disagreed(&judge->model, rank, fact->rank, &hang->finding[0]))
        return false;
    *draft = (struct verdict){ 0 };
    hang_draft(judge, rank, &hang->finding[0], 0, false, draft);
    return true;
}

void hang_launcher_exit(struct judge_state *judge, const struct fact_exit *fact)
{
    struct hang *hang = judge->hang;
    struct wait_rule rule = hang_rule(judge);
    CLEAN(free_clean) struct wait_rank *rank = NULL;
    bool once = false;
    int count;

    for (int i = 0; i < HANG_KINDS; i++)
        once |= hang->repeated[i].times == 1 && !hang->repeated[i].id[0];
    if (!once || judge->exits || hang->world != judge->model.world)
        return;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return;
    hang_before_exit(judge, fact->mono_ns, rank);
    count = wait_look(&judge->model, rank, &rule, hang->finding);
    for (int i = 0; i < count; i++) {
        struct repeated_finding *repeated = hang_repeated_of(hang, &hang->finding[i]);

        if (repeated->times != 1 || repeated->signature != hang_signature(&hang->finding[i]))
            continue;
        repeated->times++;
        hang_report(judge, &hang->finding[i], fact->mono_ns);
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
    hang_begin(judge, tracked, fresh, hang->given_up.since_real_ns);
    hang_cost(judge, tracked, now_ns);
    return tracked;
}
