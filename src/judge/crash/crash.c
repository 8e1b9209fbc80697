/* crash.c - sorts the exits of an attempt into one culprit and its follow-on errors, and keeps the verdict open until training
 * continues.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/crash/crash.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "core/clean.h"
#include "core/text.h"
#include "judge/crash/crash_private.h"
#include "judge/ledger.h"
#include "judge/stuck/hang.h"

/* We end ranks by SIGTERM and SIGKILL: one that was told to end and died of this died by itself. */
static bool crash_died_itself(int status)
{
    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS ||
                                   WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGFPE);
}

static bool crash_is_bad(const struct fact_exit *fact)
{
    return fact->status != 0 && (!fact->ended_by_launcher || crash_died_itself(fact->status));
}

void crash_note(struct judge_state *judge, const struct fact_note *fact)
{
    if (crash_restored_note(judge, fact)) /* it comes before the first step of its attempt */
        return;
    if (fact->attempt != judge->model.attempt)
        return;
    if (crash_point_note(judge, fact))
        return;
    judge->note[judge->notes++ % COUNT(judge->note)] = *fact;
    crash_raised_note(judge, fact);
    crash_left_note(judge, fact);
}

static bool crash_all_blame_others(const struct judge_state *judge)
{
    for (uint32_t i = 0; i < judge->exits; i++) {
        if (!crash_blames_others(&judge->exit[i]))
            return false;
    }
    return true;
}

/* Soon those who waited are gone, and who they waited for, too. */
static void crash_look_for_hang(struct judge_state *judge, const struct fact_exit *fact)
{
    if (crash_gave_up(fact) && crash_all_blame_others(judge))
        hang_gave_up(judge, fact);
}

void crash_exit(struct judge_state *judge, const struct fact_exit *fact)
{
    struct fact_exit left;

    if (fact->attempt != judge->model.attempt)
        return;
    if (crash_is_unknown(fact)) {
        crash_left_as(judge, fact, &left);
        crash_look_for_hang(judge, &left);
        crash_left_exit(judge, &left);
        return;
    }
    crash_look_for_hang(judge, fact);
    if (crash_is_bad(fact)) {
        crash_add(judge, fact);
        return;
    }
    if (fact->status == 0 && !fact->ended_by_launcher)
        crash_left_exit(judge, fact);
    if (fact->status > 0)
        crash_launcher_exit(judge, fact);
    if (fact->ended_by_launcher)
        hang_launcher_exit(judge, fact);
}

static bool crash_is_lost(const struct fact_exit *fact)
{
    return strncmp(fact->text, CRASH_LOST, strlen(CRASH_LOST)) == 0;
}

static bool crash_has_exit(const struct fact_exit *exit, uint32_t count, uint32_t rank)
{
    for (uint32_t i = 0; i < count; i++) {
        if (exit[i].rank == rank)
            return true;
    }
    return false;
}

/* One exit stands for all ranks of the node: nobody is left there who could report them. */
void crash_node_lost(struct judge_state *judge, const char *node, int64_t real_ns, bool ended)
{
    const struct model *model = &judge->model;
    struct fact_exit lost = { .attempt = model->attempt,
                              .mono_ns = real_ns - judge->mono_to_real_ns,
                              .status = SIGKILL };

    for (lost.rank = 0; lost.rank < model->world; lost.rank++) {
        uint32_t at = model->rank[lost.rank].node;

        if (at >= model->nodes || strcmp(model->node[at].name, node) != 0)
            continue;
        if (crash_has_exit(judge->exit, judge->exits, lost.rank) ||
            crash_has_exit(judge->launcher_exit, judge->launcher_exits, lost.rank))
            return;
        snprintf(lost.text, sizeof(lost.text), "%s: %s", CRASH_LOST,
                 ended ? "all its processes have ended" : "no sign of life of its launcher");
        crash_add(judge, &lost);
        return;
    }
}

/* Of more than there is room for, the earliest are kept. */
void crash_add(struct judge_state *judge, const struct fact_exit *fact)
{
    uint32_t latest = 0;

    if (judge->exits < COUNT(judge->exit)) {
        judge->exit[judge->exits++] = *fact;
        return;
    }
    for (uint32_t i = 1; i < judge->exits; i++) {
        if (judge->exit[i].mono_ns > judge->exit[latest].mono_ns)
            latest = i;
    }
    if (fact->mono_ns < judge->exit[latest].mono_ns)
        judge->exit[latest] = *fact;
}

static int64_t crash_near_ns(const struct judge_state *judge)
{
    return (int64_t)(judge->limits.crash_near * 1e9);
}

/* -1 when `a` is the likelier culprit of the two. */
static int crash_culprit_order(const struct judge_state *judge, const struct fact_exit *a,
                               const struct fact_exit *b)
{
    int64_t apart = a->mono_ns - b->mono_ns, same = (int64_t)(judge->limits.crash_same * 1e6);
    bool near = apart <= crash_near_ns(judge) && apart >= -crash_near_ns(judge);

    /* One that dumps its core ends after those who notice that it does not answer. */
    if (near && crash_died_itself(a->status) != crash_died_itself(b->status))
        return crash_died_itself(a->status) ? -1 : 1;
    if (near && crash_blames_others(a) != crash_blames_others(b))
        return crash_blames_others(b) ? -1 : 1;
    /* One that is gone without a word may have been ended for the sake of one that said why. */
    if (near && (a->status == -1) != (b->status == -1))
        return b->status == -1 ? -1 : 1;
    /* Who gave up waiting ends, and others lose it: they may be told of in any order. */
    if (near && crash_gave_up(a) != crash_gave_up(b))
        return crash_gave_up(a) ? -1 : 1;
    if (apart > same || apart < -same)
        return apart < 0 ? -1 : 1;
    if (WIFSIGNALED(a->status) != WIFSIGNALED(b->status))
        return WIFSIGNALED(a->status) ? -1 : 1;
    return apart < 0 ? -1 : apart > 0;
}

static const struct fact_exit *crash_first_bad(const struct judge_state *judge)
{
    const struct fact_exit *first = NULL;

    for (uint32_t i = 0; i < judge->exits; i++) {
        const struct fact_exit *fact = &judge->exit[i];

        if (crash_is_bad(fact) && (!first || crash_culprit_order(judge, fact, first) < 0))
            first = fact;
    }
    return first;
}

static unsigned crash_layer_of(int status)
{
    if (WIFEXITED(status))
        return LAYER_USER_CODE;
    if (status == -1)
        return LAYER_UNKNOWN;
    switch (WTERMSIG(status)) {
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGFPE:
    case SIGILL:
        return LAYER_USER_CODE;
    default:
        return LAYER_UNKNOWN; /* sent from outside: the ring cannot say by whom */
    }
}

static const char *crash_source_of(const struct fact_exit *fact)
{
    return crash_is_lost(fact) ? "controller" : crash_is_left(fact) ? "ring" : "launcher";
}

static void crash_describe_echoes(const struct judge_state *judge, struct verdict *draft,
                                  const struct fact_exit *culprit)
{
    for (uint32_t i = 0; i < judge->exits && draft->echo_count < VERDICT_LINES; i++) {
        const struct fact_exit *fact = &judge->exit[i];
        struct verdict_line *line = &draft->echo[draft->echo_count];

        if (fact->rank == culprit->rank || !crash_is_bad(fact))
            continue;
        snprintf(line->what, sizeof(line->what), "rank %u %s %.0f ms %s", fact->rank, fact->text,
                 (double)llabs(fact->mono_ns - culprit->mono_ns) / 1e6,
                 fact->mono_ns < culprit->mono_ns ? "before" : "later");
        snprintf(line->source, sizeof(line->source), "%s", crash_source_of(fact));
        draft->echo_count++;
    }
}

/* As the kernel kills for memory, as far as anybody knows. */
static bool crash_may_be_killed(int status)
{
    return status == -1 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static bool crash_was_oom_killed(const struct judge_state *judge, const struct fact_exit *fact)
{
    return crash_may_be_killed(fact->status) && hang_oom_kills(judge, fact->rank) > 0;
}

static void crash_describe_oom(struct verdict *verdict, uint32_t kills)
{
    verdict->layer = LAYER_HOST_MEMORY;
    verdict->confidence = 0.97;
    snprintf(verdict->cause, sizeof(verdict->cause),
             "killed by the kernel: out of memory in its cgroup");
    verdict_because(verdict, "cgroup",
                    "%u OOM kill%s in its memory cgroup while lockstep watched it", kills,
                    kills == 1 ? "" : "s");
}

/* A long message, as that of a device without memory, takes several lines: it is told whole. */
static void crash_describe_message(struct verdict *draft, const char *source, const char *start,
                                   const char *line, size_t size)
{
    static const char more[] = " ...";

    while (size && draft->because_count < VERDICT_LINES) {
        size_t room = sizeof(draft->because[0].what) - strlen(start);
        size_t part = size < room ? size : text_word_end(line, room - sizeof(more));

        if (part == 0)
            return; /* nothing but spaces */
        verdict_because(draft, source, "%s%.*s%s", start, (int)part, line, part < size ? more : "");
        while (part < size && line[part] == ' ')
            part++;
        line += part;
        size -= part;
        start = "... ";
    }
}

/* What is known of the culprit beside how it ended. */
static void crash_describe_last_line(const struct judge_state *judge, struct verdict *draft,
                                     const struct fact_exit *culprit)
{
    size_t size;
    const char *line = crash_best_line(culprit->words, &size);
    bool noted = strcmp(culprit->text, CRASH_NOTED) == 0;
    char text[176];

    if (size) {
        crash_describe_message(
            draft, noted ? "note" : "stderr",
            noted ? "noted before it ended: " CRASH_UNCAUGHT : "last error output: ", line, size);
        if (draft->kind == VERDICT_CRASH && WIFEXITED(culprit->status))
            snprintf(draft->cause, sizeof(draft->cause), "%s: %s", culprit->text,
                     text_shorten(line, size, text, 78));
    }
    for (uint32_t i = 0; i < MIN(judge->notes, (uint32_t)COUNT(judge->note)); i++) {
        const struct fact_note *note = &judge->note[i];

        if (note->rank == culprit->rank && !(noted && strstr(note->text, CRASH_UNCAUGHT)) &&
            culprit->mono_ns - judge_state_run_ns(judge, note->rank, note->mono_ns) <
                crash_near_ns(judge))
            verdict_because(draft, "note", "noted before it ended: %s",
                            text_shorten(note->text, strlen(note->text), text, 161));
    }
    if (crash_was_oom_killed(judge, culprit))
        crash_describe_oom(draft, hang_oom_kills(judge, culprit->rank));
}

/* Who waits for too long gives up at last, or is ended: the hang that stands is the fault, not these. */
static void crash_echo_hang(struct judge_state *judge, struct tracked_verdict *tracked,
                            const struct fact_exit *first)
{
    struct verdict_line *line = &tracked->verdict.echo[tracked->verdict.echo_count];

    if (tracked->verdict.echo_count < VERDICT_LINES) {
        snprintf(line->what, sizeof(line->what), "rank %u %s", first->rank, first->text);
        snprintf(line->source, sizeof(line->source), "%s", crash_source_of(first));
        tracked->verdict.echo_count++;
    }
    crash_describe_echoes(judge, &tracked->verdict, first);
    tracked->changed = true;
    judge->crash_reported = true;
}

const struct past_step *crash_last_step_of(const struct judge_state *judge, uint32_t rank)
{
    const struct past_step *past = NULL;

    for (uint32_t back = 0; rank < judge->model.world && back < HISTORY_STEPS; back++) {
        past = history_back(&judge->history, back);
        if (!past || past->split[rank].present)
            return past;
    }
    return NULL;
}

static bool crash_went_on_without(const struct judge_state *judge, const struct fact_exit *left,
                                  const struct fact_exit *other)
{
    const struct past_step *last = crash_last_step_of(judge, left->rank),
                           *later = crash_last_step_of(judge, other->rank);

    return last && later && later->step > last->step;
}

/* The step in which it ended: one that it began and did not complete, or the next. */
static uint64_t crash_step_of(const struct judge_state *judge, uint32_t rank)
{
    const struct past_step *past = crash_last_step_of(judge, rank);

    if (past)
        return past->step + !past->split[rank].unfinished;
    return judge->history.count ? judge->last_step + 1 : 0; /* it was in none of the newest steps */
}

static void crash_describe_first(const struct judge_state *judge, struct verdict *draft,
                                 const struct fact_exit *culprit)
{
    const struct past_step *past = crash_last_step_of(judge, culprit->rank);
    char when[64] = ", before any step";

    if (past)
        snprintf(when, sizeof(when), ", %s step %llu",
                 past->split[culprit->rank].unfinished ? "in" : "after",
                 (unsigned long long)past->step);
    else if (judge->history.count) /* it was in none of the newest steps */
        when[0] = '\0';
    else if (judge->model.attempt)
        snprintf(when, sizeof(when), ", before any step of attempt %u", judge->model.attempt);
    verdict_because(draft, crash_source_of(culprit), "rank %u was the first to end: %s%s",
                    culprit->rank, culprit->text, when);
}

/* It may have ended because its library noticed something, and not of a fault of its own. */
static bool crash_noticed(const struct fact_exit *fact)
{
    bool left = WIFEXITED(fact->status) || WTERMSIG(fact->status) == SIGABRT;

    return left && crash_words_layer(fact->words, LAYER_UNKNOWN) == LAYER_UNKNOWN;
}

/* With several communicators the first rank that gives up may wait in another than that in which others disagree. */
static bool crash_others_disagreed(const struct judge_state *judge, const struct fact_exit *exit,
                                   uint32_t count, struct verdict *draft)
{
    for (uint32_t i = 0; i < count; i++) {
        if (hang_disagreed(judge, &exit[i], draft))
            return true;
    }
    return false;
}

/* A library that notices that ranks disagree ends its process: what they disagree about is the fault. */
static bool crash_draft_desync(const struct judge_state *judge, const struct fact_exit *first,
                               struct verdict *draft)
{
    if (!crash_noticed(first) ||
        (!hang_disagreed(judge, first, draft) &&
         !crash_others_disagreed(judge, judge->exit, judge->exits, draft) &&
         !crash_others_disagreed(judge, judge->launcher_exit, judge->launcher_exits, draft) &&
         !crash_draft_disagree(judge, first, draft)))
        return false;
    draft->since_step = crash_step_of(judge, first->rank);
    draft->since_real_ns = first->mono_ns + judge->mono_to_real_ns;
    crash_describe_first(judge, draft, first);
    crash_describe_last_line(judge, draft, first);
    crash_describe_echoes(judge, draft, first);
    return true;
}

/* Somebody else was gone so soon that nobody can tell who was first. */
static bool crash_one_of_many(const struct judge_state *judge, const struct fact_exit *culprit)
{
    for (uint32_t i = 0; i < judge->exits; i++) {
        const struct fact_exit *fact = &judge->exit[i];

        if (fact->rank != culprit->rank && fact->status == -1 &&
            (double)llabs(fact->mono_ns - culprit->mono_ns) <= judge->limits.crash_same * 1e6)
            return true;
    }
    return false;
}

/* It left in order.  Was it missed? */
static void crash_draft_left(const struct judge_state *judge, const struct fact_exit *culprit,
                             const struct fact_exit *first, struct verdict *draft)
{
    bool missed = crash_blames_others(first);

    draft->layer = LAYER_UNKNOWN;
    draft->confidence = missed ? 0.5 : 0.4;
    if (crash_is_unknown(culprit))
        snprintf(draft->cause, sizeof(draft->cause), "shut down cleanly, exit status unknown");
    if (!missed || crash_is_unknown(culprit))
        return;
    draft->layer = LAYER_USER_CODE;
    draft->confidence = crash_went_on_without(judge, culprit, first) ? 0.9 : 0.8;
    snprintf(draft->cause, sizeof(draft->cause),
             "%s while the others needed it: sys.exit(), or fewer batches than they have",
             culprit->text);
}

static void crash_describe_left(const struct judge_state *judge, struct verdict *draft,
                                const struct fact_exit *culprit, const struct fact_exit *first)
{
    const struct past_step *past = crash_last_step_of(judge, culprit->rank);

    verdict_because(
        draft, crash_is_unknown(culprit) ? "ring" : "launcher",
        crash_blames_others(first)
            ? "rank %u left at about the time when rank %u, the first to fail, lost a peer"
            : "rank %u left before rank %u, the first rank that ended without a message",
        culprit->rank, first->rank);
    if (past && crash_went_on_without(judge, culprit, first))
        verdict_because(draft, "ring", "its last step is %llu, and rank %u began a later one",
                        (unsigned long long)past->step, first->rank);
}

static void crash_add_node(const struct judge_state *judge, struct verdict *draft, uint32_t rank)
{
    const struct model *model = &judge->model;

    for (uint32_t i = rank + 1; rank < model->world && i < model->world; i++) {
        if (model->rank[i].node == model->rank[rank].node)
            judge_state_add_rank(judge, draft, i);
    }
}

static void draft_crash(struct judge_state *judge, const struct fact_exit *culprit,
                        const struct fact_exit *first, struct verdict *draft)
{
    *draft = (struct verdict){ .kind = VERDICT_CRASH };
    draft->layer = (uint8_t)crash_words_layer(culprit->words, crash_layer_of(culprit->status));
    snprintf(draft->cause, sizeof(draft->cause), "%s", culprit->text);
    judge_state_add_rank(judge, draft, culprit->rank);
    if (crash_is_lost(culprit))
        crash_add_node(judge, draft, culprit->rank);
    draft->confidence = WIFSIGNALED(culprit->status) ? 0.95 : 0.85;
    if (culprit->status == -1) /* who was gone at the same time may have been it as well */
        draft->confidence = crash_one_of_many(judge, culprit) ? 0.3 : 0.6;
    if (culprit->status == 0)
        crash_draft_left(judge, culprit, first, draft);
    if (crash_blames_others(culprit)) { /* the best there is: whom it blames left no word */
        draft->layer = LAYER_UNKNOWN;
        draft->confidence = 0.4;
    }
    draft->since_step = crash_step_of(judge, culprit->rank);
    draft->since_real_ns = culprit->mono_ns + judge->mono_to_real_ns;
    if (culprit->rank == first->rank)
        crash_describe_first(judge, draft, culprit);
    else if (culprit->status == 0)
        crash_describe_left(judge, draft, culprit, first);
    else
        verdict_because(
            draft, "note",
            "rank %u raised an uncaught exception before rank %u, the first to end, lost a peer",
            culprit->rank, first->rank);
    crash_describe_last_line(judge, draft, culprit);
    crash_describe_echoes(judge, draft, culprit);
    crash_point_describe(judge, draft);
    if (draft->layer == LAYER_UNKNOWN && WIFSIGNALED(culprit->status) &&
        WTERMSIG(culprit->status) != SIGABRT)
        verdict_rule_out(draft, LAYER_USER_CODE, "a program does not send itself this signal");
}

/* Who gives up closes its connections before it has ended: who loses it may be gone sooner, and then it is told to
 * end itself.
 */
static bool crash_somebody_gave_up(const struct judge_state *judge, const struct fact_exit *first)
{
    bool gave_up = crash_gave_up(first);

    for (uint32_t i = 0; i < judge->launcher_exits && crash_blames_others(first); i++)
        gave_up |= crash_gave_up(&judge->launcher_exit[i]) &&
                   judge->launcher_exit[i].mono_ns - first->mono_ns < crash_near_ns(judge);
    return gave_up;
}

/* The same rank at the same step, in another attempt: the newest end counts, and the one before is evidence. */
static bool crash_again(const struct judge_state *judge, struct verdict *draft)
{
    snprintf(draft->run, sizeof(draft->run), "%s", judge->model.run);
    verdict_identify(draft);
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        const struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (strcmp(tracked->verdict.id, draft->id) != 0 || tracked->attempt == judge->model.attempt)
            continue;
        verdict_because(draft, "launcher", "attempt %u crashed at the same step: %s",
                        tracked->attempt, tracked->verdict.cause);
        return true;
    }
    return false;
}

bool crash_awaits_loss(const struct judge_state *judge, int64_t now_ns, int64_t loss_ns)
{
    const struct fact_exit *first = judge->crash_reported ? NULL : crash_first_bad(judge);

    return first && crash_all_blame_others(judge) && now_ns - first->mono_ns < loss_ns;
}

static void crash_judge_exits(struct judge_state *judge, int64_t now_ns, bool over)
{
    const struct fact_exit *first = judge->crash_reported ? NULL : crash_first_bad(judge),
                           *culprit = first;
    int64_t settle_ns = (int64_t)(judge->limits.crash_settle * 1e9);
    struct fact_exit raised;
    struct verdict draft;
    struct tracked_verdict *tracked;
    bool fresh, again;

    if (!first || (!over && now_ns - first->mono_ns < settle_ns))
        return;
    if ((crash_blames_others(first) && crash_raised(judge, first, &raised)) ||
        ((crash_blames_others(first) || first->status == -1) &&
         crash_left_first(judge, first, &raised)))
        culprit = &raised;
    tracked = hang_open(judge);
    if (!tracked && culprit == first && crash_somebody_gave_up(judge, first))
        tracked = hang_given_up(judge, now_ns);
    if (tracked) {
        crash_echo_hang(judge, tracked, first);
        return;
    }
    judge->crash_reported = true;
    if (culprit == first && crash_was_stopped(judge, first))
        return;
    if (!crash_draft_desync(judge, first, &draft))
        draft_crash(judge, culprit, first, &draft);
    again = crash_again(judge, &draft);
    tracked = judge_state_find(judge, &draft, &fresh);
    if (tracked) {
        if (!fresh && again)
            judge_state_renew(tracked, &draft);
        tracked->seen_step = judge->last_step;
        tracked->attempt = judge->model.attempt;
        tracked->status = culprit->status;
    }
}

void crash_judge(struct judge_state *judge, int64_t now_ns, bool over)
{
    if (judge->failing && !judge->exits)
        crash_noted_end(judge, judge->failing - 1);
    judge->failing = 0;
    crash_judge_exits(judge, now_ns, over);
}

void crash_beat(struct judge_state *judge, const struct fact_beat *fact)
{
    for (uint32_t i = 0; fact->oom_kills && i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        struct verdict *verdict = &tracked->verdict;

        if (verdict->kind != VERDICT_CRASH || verdict->layer != LAYER_UNKNOWN ||
            tracked->attempt != fact->attempt || verdict->rank[0] != fact->rank ||
            !crash_may_be_killed(tracked->status))
            continue;
        crash_describe_oom(verdict, fact->oom_kills);
        tracked->changed = true;
    }
}

/* ---- until training goes on ---- */

/* Verdicts that last until training goes on. */
static bool crash_is_ending(unsigned kind)
{
    return kind == VERDICT_CRASH || kind == VERDICT_HANG || kind == VERDICT_DESYNC;
}

void crash_restarted(struct judge_state *judge, uint32_t attempt)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        struct verdict *verdict = &tracked->verdict;

        if (!crash_is_ending(verdict->kind) || !tracked->open || tracked->attempt >= attempt)
            continue;
        snprintf(verdict->plan, sizeof(verdict->plan), "all ranks restarted as attempt %u",
                 attempt);
        snprintf(verdict->plan_state, sizeof(verdict->plan_state), "acting");
        tracked->changed = true;
    }
}

/* Those who began again within an attempt train.  The ledger has no account of such a restart by itself, so the verdict
 * has no cost.
 */
static void crash_recovered_by_restart(const struct judge_state *judge,
                                       struct tracked_verdict *tracked,
                                       const struct past_step *past)
{
    struct verdict *verdict = &tracked->verdict;

    verdict->until_real_ns = past->begin_ns + judge->mono_to_real_ns;
    snprintf(verdict->plan, sizeof(verdict->plan), CRASH_RESTARTED ", training since step %llu",
             (unsigned long long)past->step);
    crash_point_continued(judge, verdict);
    snprintf(verdict->plan_state, sizeof(verdict->plan_state), "done");
    tracked->open = tracked->restarted = false;
    tracked->changed = true;
}

/* It ended an attempt before this one.  Late steps of the attempt that crashed are no recovery. */
static bool crash_has_ended(const struct judge_state *judge, const struct tracked_verdict *tracked)
{
    return crash_is_ending(tracked->verdict.kind) && tracked->open && !tracked->restarted &&
           tracked->attempt < judge->model.attempt;
}

/* What was lost since training stopped.  Several that ended one attempt after the other share it: who lost how much of it is not
 * accounted.
 */
static double crash_cost_seconds(const struct judge_state *judge)
{
    uint32_t ended = 0;

    for (uint32_t i = 0; i < judge->verdicts.count; i++)
        ended += crash_has_ended(judge, judge->verdicts.tracked[i]);
    return ledger_crash_seconds(judge->book) / MAX(1, ended);
}

void crash_recovered(struct judge_state *judge, const struct past_step *past)
{
    double cost = crash_cost_seconds(judge);

    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (!crash_is_ending(tracked->verdict.kind) || !tracked->open)
            continue;
        if (tracked->restarted) {
            crash_recovered_by_restart(judge, tracked, past);
            continue;
        }
        if (cost <= 0 || !crash_has_ended(judge, tracked))
            continue;
        tracked->cost_seconds += cost / judge->model.world; /* of all its crashes */
        tracked->verdict.gpu_seconds = tracked->cost_seconds * judge->model.world;
        tracked->verdict.until_real_ns = past->begin_ns + judge->mono_to_real_ns;
        snprintf(tracked->verdict.plan, sizeof(tracked->verdict.plan),
                 "all ranks restarted as attempt %u, training since step %llu",
                 judge->model.attempt, (unsigned long long)past->step);
        crash_point_continued(judge, &tracked->verdict);
        snprintf(tracked->verdict.plan_state, sizeof(tracked->verdict.plan_state), "done");
        tracked->open = false;
        tracked->changed = true;
    }
}
