/* crash.c - sorts the exits of an attempt into one culprit and its echoes. */
#include "judge/crash.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "core/clean.h"
#include "judge/hang.h"
#include "judge/ledger.h"

#define SAME_NS 50000000 /* seen within this: which was first cannot be told by time */

static bool is_bad(const struct fact_exit *fact)
{
    return !fact->told && fact->status != 0 && fact->status != -1;
}

/* Keeps those that may be the culprit or an echo; of more than there is room for, the earliest. */
void crash_exit(struct court *court, const struct fact_exit *fact)
{
    uint32_t latest = 0;

    if (fact->attempt != court->model.attempt || !is_bad(fact))
        return;
    if (court->exits < COUNT(court->exit)) {
        court->exit[court->exits++] = *fact;
        return;
    }
    for (uint32_t i = 1; i < court->exits; i++) {
        if (court->exit[i].mono_ns > court->exit[latest].mono_ns)
            latest = i;
    }
    if (fact->mono_ns < court->exit[latest].mono_ns)
        court->exit[latest] = *fact;
}

/* -1 when `a` is the likelier culprit of the two. */
static int culprit_order(const struct fact_exit *a, const struct fact_exit *b)
{
    int64_t apart = a->mono_ns - b->mono_ns;

    if (apart > SAME_NS || apart < -SAME_NS)
        return apart < 0 ? -1 : 1;
    if (WIFSIGNALED(a->status) != WIFSIGNALED(b->status))
        return WIFSIGNALED(a->status) ? -1 : 1;
    return apart < 0 ? -1 : apart > 0;
}

static const struct fact_exit *first_bad(const struct court *court)
{
    const struct fact_exit *first = NULL;

    for (uint32_t i = 0; i < court->exits; i++) {
        const struct fact_exit *fact = &court->exit[i];

        if (is_bad(fact) && (!first || culprit_order(fact, first) < 0))
            first = fact;
    }
    return first;
}

static unsigned layer_of(int status)
{
    if (WIFEXITED(status))
        return LAYER_USER_CODE;
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

static void say_echoes(const struct court *court, struct verdict *draft,
                       const struct fact_exit *culprit)
{
    for (uint32_t i = 0; i < court->exits && draft->echo_count < VERDICT_LINES; i++) {
        const struct fact_exit *fact = &court->exit[i];
        struct verdict_line *line = &draft->echo[draft->echo_count];

        if (fact == culprit || !is_bad(fact))
            continue;
        snprintf(line->what, sizeof(line->what), "rank %u %s %.0f ms later", fact->rank, fact->text,
                 (double)(fact->mono_ns - culprit->mono_ns) / 1e6);
        snprintf(line->source, sizeof(line->source), "launcher");
        draft->echo_count++;
    }
}

/* Who waits for too long gives up at last, or is ended: the hang that stands is the fault, not these. */
static void echo_hang(struct court *court, struct entry *entry, const struct fact_exit *first)
{
    struct verdict_line *line = &entry->verdict.echo[entry->verdict.echo_count];

    if (entry->verdict.echo_count < VERDICT_LINES) {
        snprintf(line->what, sizeof(line->what), "rank %u %s", first->rank, first->text);
        snprintf(line->source, sizeof(line->source), "launcher");
        entry->verdict.echo_count++;
    }
    say_echoes(court, &entry->verdict, first);
    entry->changed = true;
    court->crash_told = true;
}

void crash_judge(struct court *court, int64_t now_ns, bool over)
{
    const struct fact_exit *culprit = court->crash_told ? NULL : first_bad(court);
    struct verdict draft = { .kind = VERDICT_CRASH };
    int64_t settle_ns = (int64_t)(court->limits.crash_settle * 1e9);
    struct entry *entry;
    bool fresh;

    if (!culprit || (!over && now_ns - culprit->mono_ns < settle_ns))
        return;
    entry = hang_open(court);
    if (entry) {
        echo_hang(court, entry, culprit);
        return;
    }
    court->crash_told = true;
    draft.layer = (uint8_t)layer_of(culprit->status);
    snprintf(draft.cause, sizeof(draft.cause), "%s", culprit->text);
    court_add_rank(court, &draft, culprit->rank);
    draft.confidence = WIFSIGNALED(culprit->status) ? 0.95 : 0.85;
    draft.since_step = court->history.count ? court->last_step + 1 : 0;
    draft.since_real_ns = culprit->mono_ns + court->mono_to_real_ns;
    if (court->stepped)
        verdict_because(&draft, "launcher", "rank %u was the first to end: %s, after step %llu",
                        culprit->rank, culprit->text, (unsigned long long)court->last_step);
    else
        verdict_because(&draft, "launcher", "rank %u was the first to end: %s, before any step",
                        culprit->rank, culprit->text);
    say_echoes(court, &draft, culprit);
    if (draft.layer == LAYER_UNKNOWN)
        verdict_rule_out(&draft, LAYER_USER_CODE, "a program does not send itself this signal");
    entry = court_find(court, &draft, &fresh);
    if (entry) {
        entry->seen_step = court->last_step;
        entry->attempt = court->model.attempt;
    }
}

/* Verdicts that last until training goes on. */
static bool is_ending(unsigned kind)
{
    return kind == VERDICT_CRASH || kind == VERDICT_HANG || kind == VERDICT_DESYNC;
}

void crash_recovered(struct court *court, const struct past_step *past)
{
    double cost = ledger_crash_seconds(court->book);

    for (uint32_t i = 0; i < court->docket.count; i++) {
        struct entry *entry = court->docket.entry[i];

        /* Late steps of the attempt that crashed are no recovery. */
        if (!is_ending(entry->verdict.kind) || !entry->open || cost <= 0 ||
            entry->attempt >= court->model.attempt)
            continue;
        entry->cost_seconds += cost / court->model.world; /* of all its crashes */
        entry->verdict.gpu_seconds = entry->cost_seconds * court->model.world;
        entry->verdict.until_real_ns = past->begin_ns + court->mono_to_real_ns;
        entry->open = false;
        entry->changed = true;
    }
}
