/* crash.c - sorts the exits of an attempt into one culprit and its echoes, and keeps what is said of them until training
 * goes on.
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
#include "judge/crash/crash_private.h"
#include "judge/ledger.h"
#include "judge/stuck/hang.h"

/* We end ranks by SIGTERM and SIGKILL: one that was told to end and died of this died by itself. */
static bool died_itself(int status)
{
    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS ||
                                   WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGFPE);
}

static bool crash_is_bad(const struct fact_exit *fact)
{
    return fact->status != 0 && (!fact->told || died_itself(fact->status));
}

void crash_note(struct judge_state *judge, const struct fact_note *fact)
{
    if (fact->attempt != judge->model.attempt)
        return;
    judge->note[judge->notes++ % COUNT(judge->note)] = *fact;
    crash_raised_note(judge, fact);
    crash_left_note(judge, fact);
}

static bool all_blame_others(const struct judge_state *judge)
{
    for (uint32_t i = 0; i < judge->exits; i++) {
        if (!crash_blames_others(&judge->exit[i]))
            return false;
    }
    return true;
}

/* Soon those who waited are gone, and who they waited for, too. */
static void look_for_hang(struct judge_state *judge, const struct fact_exit *fact)
{
    if (crash_gave_up(fact) && all_blame_others(judge))
        hang_gave_up(judge, fact);
}

void crash_exit(struct judge_state *judge, const struct fact_exit *fact)
{
    struct fact_exit left;

    if (fact->attempt != judge->model.attempt)
        return;
    if (crash_is_unknown(fact)) {
        crash_left_as(judge, fact, &left);
        look_for_hang(judge, &left);
        crash_left_exit(judge, &left);
        return;
    }
    look_for_hang(judge, fact);
    if (crash_is_bad(fact)) {
        crash_add(judge, fact);
        return;
    }
    if (fact->status > 0)
        crash_told_exit(judge, fact);
    if (fact->told)
        hang_told_exit(judge, fact);
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

static int64_t near_ns(const struct judge_state *judge)
{
    return (int64_t)(judge->limits.crash_near * 1e9);
}

/* -1 when `a` is the likelier culprit of the two. */
static int culprit_order(const struct judge_state *judge, const struct fact_exit *a,
                         const struct fact_exit *b)
{
    int64_t apart = a->mono_ns - b->mono_ns, same = (int64_t)(judge->limits.crash_same * 1e6);
    bool near = apart <= near_ns(judge) && apart >= -near_ns(judge);

    /* One that dumps its core ends after those who notice that it does not answer. */
    if (near && died_itself(a->status) != died_itself(b->status))
        return died_itself(a->status) ? -1 : 1;
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

static const struct fact_exit *first_bad(const struct judge_state *judge)
{
    const struct fact_exit *first = NULL;

    for (uint32_t i = 0; i < judge->exits; i++) {
        const struct fact_exit *fact = &judge->exit[i];

        if (crash_is_bad(fact) && (!first || culprit_order(judge, fact, first) < 0))
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

static const char *source_of(const struct fact_exit *fact)
{
    return crash_is_left(fact) ? "ring" : "launcher";
}

static void say_echoes(const struct judge_state *judge, struct verdict *draft,
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
        snprintf(line->source, sizeof(line->source), "%s", source_of(fact));
        draft->echo_count++;
    }
}

/* As the kernel kills for memory, as far as anybody knows. */
static bool may_be_killed(int status)
{
    return status == -1 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static bool was_oom_killed(const struct judge_state *judge, const struct fact_exit *fact)
{
    return may_be_killed(fact->status) && hang_oom_kills(judge, fact->rank) > 0;
}

static void say_oom(struct verdict *verdict, uint32_t kills)
{
    verdict->layer = LAYER_HOST_MEMORY;
    verdict->confidence = 0.97;
    snprintf(verdict->cause, sizeof(verdict->cause),
             "killed by the kernel: out of memory in its cgroup");
    verdict_because(verdict, "cgroup",
                    "%u OOM kill%s in its memory cgroup while lockstep watched it", kills,
                    kills == 1 ? "" : "s");
}

/* Later versions of torch begin each line of a traceback with the rank: "[rank3]: ". */
static const char *after_rank(const char *line)
{
    static const char rank[] = "[rank", end[] = "]: ";
    const char *at = line + strlen(rank);
    size_t digits;

    if (strncmp(line, rank, strlen(rank)) != 0)
        return line;
    digits = strspn(at, "0123456789");
    return digits && strncmp(at + digits, end, strlen(end)) == 0 ? at + digits + strlen(end) : line;
}

/* The line that says most: the last that looks like an exception, else the last one. */
static const char *telling_line(const char *words, size_t *size)
{
    static const char *const names[] = { "Error", "Exception", "error:", "assert", "Assert" };
    const char *best = words;
    bool named = false;

    *size = 0;
    for (const char *line = after_rank(words); *line;) {
        size_t length = strcspn(line, "\n");
        bool names_it = false;

        for (size_t i = 0; i < COUNT(names) && line[0] != ' '; i++) {
            const char *found = strstr(line, names[i]);

            names_it |= found && found < line + length;
        }
        if (length && (names_it || !named)) {
            best = line;
            *size = length;
            named = names_it;
        }
        line = after_rank(line + length + (line[length] == '\n'));
    }
    return best;
}

/* What is known of the culprit beside how it ended. */
static void say_words(const struct judge_state *judge, struct verdict *draft,
                      const struct fact_exit *culprit)
{
    size_t size;
    const char *line = telling_line(culprit->words, &size);
    bool noted = strcmp(culprit->text, CRASH_NOTED) == 0;

    if (size) {
        if (noted)
            verdict_because(draft, "note", "noted before it ended: " CRASH_UNCAUGHT "%.*s",
                            (int)MIN(size, 160u), line);
        else
            verdict_because(draft, "stderr", "last error output: %.*s", (int)MIN(size, 170u), line);
        if (draft->kind == VERDICT_CRASH && WIFEXITED(culprit->status))
            snprintf(draft->cause, sizeof(draft->cause), "%s: %.*s", culprit->text,
                     (int)MIN(size, 70u), line);
    }
    for (uint32_t i = 0; i < MIN(judge->notes, (uint32_t)COUNT(judge->note)); i++) {
        const struct fact_note *note = &judge->note[i];

        if (note->rank == culprit->rank && !(noted && strstr(note->text, CRASH_UNCAUGHT)) &&
            culprit->mono_ns - judge_state_run_ns(judge, note->rank, note->mono_ns) <
                near_ns(judge))
            verdict_because(draft, "note", "noted before it ended: %.160s", note->text);
    }
    if (was_oom_killed(judge, culprit))
        say_oom(draft, hang_oom_kills(judge, culprit->rank));
}

/* Who waits for too long gives up at last, or is ended: the hang that stands is the fault, not these. */
static void echo_hang(struct judge_state *judge, struct tracked_verdict *tracked,
                      const struct fact_exit *first)
{
    struct verdict_line *line = &tracked->verdict.echo[tracked->verdict.echo_count];

    if (tracked->verdict.echo_count < VERDICT_LINES) {
        snprintf(line->what, sizeof(line->what), "rank %u %s", first->rank, first->text);
        snprintf(line->source, sizeof(line->source), "%s", source_of(first));
        tracked->verdict.echo_count++;
    }
    say_echoes(judge, &tracked->verdict, first);
    tracked->changed = true;
    judge->crash_told = true;
}

static void crash_say_first(const struct judge_state *judge, struct verdict *draft,
                            const struct fact_exit *culprit)
{
    if (judge->stepped)
        verdict_because(draft, source_of(culprit),
                        "rank %u was the first to end: %s, after step %llu", culprit->rank,
                        culprit->text, (unsigned long long)judge->last_step);
    else
        verdict_because(draft, source_of(culprit),
                        "rank %u was the first to end: %s, before any step", culprit->rank,
                        culprit->text);
}

/* A library that notices that ranks disagree ends its process: what they disagree about is the fault. */
static bool draft_desync(const struct judge_state *judge, const struct fact_exit *first,
                         struct verdict *draft)
{
    bool noticed = WIFEXITED(first->status) || WTERMSIG(first->status) == SIGABRT;

    if (!noticed || !hang_disagreed(judge, first, draft))
        return false;
    draft->since_step = judge->history.count ? judge->last_step + 1 : 0;
    draft->since_real_ns = first->mono_ns + judge->mono_to_real_ns;
    crash_say_first(judge, draft, first);
    say_words(judge, draft, first);
    say_echoes(judge, draft, first);
    return true;
}

/* Somebody else was gone so soon that nobody can tell who was first. */
static bool one_of_many(const struct judge_state *judge, const struct fact_exit *culprit)
{
    for (uint32_t i = 0; i < judge->exits; i++) {
        const struct fact_exit *fact = &judge->exit[i];

        if (fact->rank != culprit->rank && fact->status == -1 &&
            (double)llabs(fact->mono_ns - culprit->mono_ns) <= judge->limits.crash_same * 1e6)
            return true;
    }
    return false;
}

static void draft_crash(struct judge_state *judge, const struct fact_exit *culprit,
                        const struct fact_exit *first, struct verdict *draft)
{
    *draft = (struct verdict){ .kind = VERDICT_CRASH };
    draft->layer = (uint8_t)crash_layer_of(culprit->status);
    snprintf(draft->cause, sizeof(draft->cause), "%s", culprit->text);
    judge_state_add_rank(judge, draft, culprit->rank);
    draft->confidence = WIFSIGNALED(culprit->status) ? 0.95 : 0.85;
    if (culprit->status == -1) /* who was gone at the same time may have been it as well */
        draft->confidence = one_of_many(judge, culprit) ? 0.3 : 0.6;
    if (culprit->status == 0) { /* left in order, with what is not known; was it missed? */
        draft->layer = LAYER_UNKNOWN;
        draft->confidence = crash_blames_others(first) ? 0.5 : 0.4;
    }
    if (crash_blames_others(culprit)) { /* the best there is: whom it blames left no word */
        draft->layer = LAYER_UNKNOWN;
        draft->confidence = 0.4;
    }
    draft->since_step = judge->history.count ? judge->last_step + 1 : 0;
    draft->since_real_ns = culprit->mono_ns + judge->mono_to_real_ns;
    if (culprit->rank == first->rank)
        crash_say_first(judge, draft, culprit);
    else if (culprit->status == 0)
        verdict_because(
            draft, "ring",
            crash_blames_others(first)
                ? "rank %u left at about the time when rank %u, the first to fail, lost a peer"
                : "rank %u left before rank %u, the first rank that ended without a message",
            culprit->rank, first->rank);
    else
        verdict_because(
            draft, "note",
            "rank %u raised an uncaught exception before rank %u, the first to end, lost a peer",
            culprit->rank, first->rank);
    say_words(judge, draft, culprit);
    say_echoes(judge, draft, culprit);
    if (draft->layer == LAYER_UNKNOWN && WIFSIGNALED(culprit->status) &&
        WTERMSIG(culprit->status) != SIGABRT)
        verdict_rule_out(draft, LAYER_USER_CODE, "a program does not send itself this signal");
}

/* Who gives up closes its connections before it has ended: who loses it may be gone sooner, and then it is told to
 * end itself.
 */
static bool somebody_gave_up(const struct judge_state *judge, const struct fact_exit *first)
{
    bool gave_up = crash_gave_up(first);

    for (uint32_t i = 0; i < judge->told_count && crash_blames_others(first); i++)
        gave_up |= crash_gave_up(&judge->told[i]) &&
                   judge->told[i].mono_ns - first->mono_ns < near_ns(judge);
    return gave_up;
}

void crash_judge(struct judge_state *judge, int64_t now_ns, bool over)
{
    const struct fact_exit *first = judge->crash_told ? NULL : first_bad(judge), *culprit = first;
    int64_t settle_ns = (int64_t)(judge->limits.crash_settle * 1e9);
    struct fact_exit raised;
    struct verdict draft;
    struct tracked_verdict *tracked;
    bool fresh;

    if (!first || (!over && now_ns - first->mono_ns < settle_ns))
        return;
    if ((crash_blames_others(first) && crash_raised(judge, first, &raised)) ||
        ((crash_blames_others(first) || first->status == -1) &&
         crash_left_first(judge, first, &raised)))
        culprit = &raised;
    tracked = hang_open(judge);
    if (!tracked && culprit == first && somebody_gave_up(judge, first))
        tracked = hang_given_up(judge, now_ns);
    if (tracked) {
        echo_hang(judge, tracked, first);
        return;
    }
    judge->crash_told = true;
    if (!draft_desync(judge, first, &draft))
        draft_crash(judge, culprit, first, &draft);
    tracked = judge_state_find(judge, &draft, &fresh);
    if (tracked) {
        tracked->seen_step = judge->last_step;
        tracked->attempt = judge->model.attempt;
        tracked->status = culprit->status;
    }
}

void crash_beat(struct judge_state *judge, const struct fact_beat *fact)
{
    for (uint32_t i = 0; fact->oom_kills && i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        struct verdict *verdict = &tracked->verdict;

        if (verdict->kind != VERDICT_CRASH || verdict->layer != LAYER_UNKNOWN ||
            tracked->attempt != fact->attempt || verdict->rank[0] != fact->rank ||
            !may_be_killed(tracked->status))
            continue;
        say_oom(verdict, fact->oom_kills);
        tracked->changed = true;
    }
}

/* ---- until training goes on ---- */

/* Verdicts that last until training goes on. */
static bool is_ending(unsigned kind)
{
    return kind == VERDICT_CRASH || kind == VERDICT_HANG || kind == VERDICT_DESYNC;
}

void crash_restarted(struct judge_state *judge, uint32_t attempt)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        struct verdict *verdict = &tracked->verdict;

        if (!is_ending(verdict->kind) || !tracked->open || tracked->attempt >= attempt)
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
static void recovered_by_restart(const struct judge_state *judge, struct tracked_verdict *tracked,
                                 const struct past_step *past)
{
    struct verdict *verdict = &tracked->verdict;

    verdict->until_real_ns = past->begin_ns + judge->mono_to_real_ns;
    snprintf(verdict->plan, sizeof(verdict->plan), CRASH_RESTARTED ", training since step %llu",
             (unsigned long long)past->step);
    snprintf(verdict->plan_state, sizeof(verdict->plan_state), "done");
    tracked->open = tracked->restarted = false;
    tracked->changed = true;
}

void crash_recovered(struct judge_state *judge, const struct past_step *past)
{
    double cost = ledger_crash_seconds(judge->book);

    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (!is_ending(tracked->verdict.kind) || !tracked->open)
            continue;
        if (tracked->restarted) {
            recovered_by_restart(judge, tracked, past);
            continue;
        }
        /* Late steps of the attempt that crashed are no recovery. */
        if (cost <= 0 || tracked->attempt >= judge->model.attempt)
            continue;
        tracked->cost_seconds += cost / judge->model.world; /* of all its crashes */
        tracked->verdict.gpu_seconds = tracked->cost_seconds * judge->model.world;
        tracked->verdict.until_real_ns = past->begin_ns + judge->mono_to_real_ns;
        snprintf(tracked->verdict.plan, sizeof(tracked->verdict.plan),
                 "all ranks restarted as attempt %u, training since step %llu",
                 judge->model.attempt, (unsigned long long)past->step);
        snprintf(tracked->verdict.plan_state, sizeof(tracked->verdict.plan_state), "done");
        tracked->open = false;
        tracked->changed = true;
    }
}
