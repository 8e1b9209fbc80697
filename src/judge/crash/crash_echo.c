/* crash_echo.c - which ranks only noticed a failure, and which raised an exception before that.
 *
 * An interpreter that ends after an exception first ends its threads and closes its sockets.  On a busy machine this takes
 * longer than its peers need to notice a closed connection and to end, and than the launcher needs to end all ranks.  Then
 * the first exit is a follow-on error, and the culprit's exit was requested.  The culprit's note of the exception is older.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "core/clean.h"
#include "judge/crash/crash_private.h"

static int64_t crash_note_ns(const struct judge_state *judge, const struct fact_note *note)
{
    return judge_state_run_ns(judge, note->rank, note->mono_ns);
}

void crash_launcher_exit(struct judge_state *judge, const struct fact_exit *fact)
{
    bool raised = fact->rank == judge->raised.rank || fact->rank == judge->raised_thread.rank;

    if (judge->launcher_exits < COUNT(judge->launcher_exit))
        judge->launcher_exit[judge->launcher_exits++] = *fact;
    else if (raised)
        judge->launcher_exit[COUNT(judge->launcher_exit) - 1] = *fact;
}

static uint32_t crash_node_of(const struct judge_state *judge, uint32_t rank)
{
    return rank < judge->model.world ? judge->model.rank[rank].node : MODEL_NONE;
}

/* A launcher that ends its ranks because one has failed does so after that; the one of another node hears of it later still. */
bool crash_was_stopped(const struct judge_state *judge, const struct fact_exit *first)
{
    int64_t same_ns = (int64_t)(judge->limits.crash_same * 1e6);
    bool stopped = false;

    for (uint32_t i = 0; i < judge->exits; i++) {
        if (!crash_blames_others(&judge->exit[i]) || crash_gave_up(&judge->exit[i]))
            return false;
    }
    for (uint32_t i = 0; i < judge->launcher_exits; i++) {
        const struct fact_exit *ended = &judge->launcher_exit[i];
        bool elsewhere = crash_node_of(judge, ended->rank) != crash_node_of(judge, first->rank);

        if (ended->words[0] && crash_gave_up(ended))
            return false;
        stopped |= ended->mono_ns < first->mono_ns + (elsewhere ? same_ns : 0);
    }
    return stopped;
}

/* An exception in a main thread ends its process: the earliest counts.  One in another thread may be nothing, or
 * old: the newest does, where its process ended.
 */
void crash_raised_note(struct judge_state *judge, const struct fact_note *fact)
{
    bool thread =
        strncmp(fact->text, "in thread ", 10) == 0 && strstr(fact->text, ": " CRASH_UNCAUGHT);

    if (crash_words_blame(fact->text))
        return;
    if (thread)
        judge->raised_thread = *fact;
    else if (strncmp(fact->text, CRASH_UNCAUGHT, strlen(CRASH_UNCAUGHT)) == 0 &&
             (!judge->raised.text[0] ||
              crash_note_ns(judge, fact) < crash_note_ns(judge, &judge->raised)))
        judge->raised = *fact;
}

static const struct fact_exit *crash_exit_of(const struct judge_state *judge, uint32_t rank)
{
    for (uint32_t i = 0; i < judge->exits; i++) {
        if (judge->exit[i].rank == rank)
            return &judge->exit[i];
    }
    for (uint32_t i = 0; i < judge->launcher_exits; i++) {
        if (judge->launcher_exit[i].rank == rank)
            return &judge->launcher_exit[i];
    }
    return NULL;
}

/* One that left by itself is told as it was; of others, which were ended on their way, the exception is. */
static void crash_exit_fill(const struct judge_state *judge, const struct fact_note *note,
                            const struct fact_exit *known, struct fact_exit *ret)
{
    const char *words = strstr(note->text, CRASH_UNCAUGHT) + strlen(CRASH_UNCAUGHT);

    if (known && WIFEXITED(known->status) && !crash_blames_others(known)) {
        *ret = *known;
        if (!ret->words[0])
            snprintf(ret->words, sizeof(ret->words), "%s", words);
        return;
    }
    crash_fill_noted(judge, note, ret);
}

bool crash_raised(const struct judge_state *judge, const struct fact_exit *first,
                  struct fact_exit *ret)
{
    const struct fact_note *main = &judge->raised, *thread = &judge->raised_thread;
    int64_t near_ns = (int64_t)(judge->limits.crash_near * 1e9);
    const struct fact_exit *known;

    if (main->text[0] && main->rank != first->rank && crash_note_ns(judge, main) < first->mono_ns) {
        crash_exit_fill(judge, main, crash_exit_of(judge, main->rank), ret);
        return true;
    }
    if (!thread->text[0] || thread->rank == first->rank)
        return false;
    known = crash_exit_of(judge, thread->rank);
    if (!known || crash_note_ns(judge, thread) >= first->mono_ns ||
        first->mono_ns - crash_note_ns(judge, thread) > near_ns)
        return false;
    crash_exit_fill(judge, thread, known, ret);
    return true;
}

/* ---- collectives that do not fit together ----
 *
 * A library saw two collectives meet that are not the same one.  The rank that notices it is the one that received, which may
 * be either: so it is not named.  A rank that has completed a step in which the other still waits has called fewer collectives
 * than it should.
 */

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
