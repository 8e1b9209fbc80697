/* crash_echo.c - who only noticed, and who had raised an exception before they did.
 *
 * An interpreter that ends for an exception takes its threads and its sockets down first; on a busy machine that
 * takes longer than its peers need to see a closed connection, to end and to have everybody told to end.  Then
 * the first exit is an echo, and the culprit's is one that was asked for.  Its note of the exception is older than all that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "core/clean.h"
#include "judge/crash/crash_private.h"

static bool words_blame(const char *words)
{
    static const char *const blames[] = {
        "lost rank",
        "Connection reset by peer",
        "Connection closed by peer",
        "Broken pipe",
        "imed out waiting",
        "ollective operation timeout",
        "Application timeout caused pair closure",
        "Connection refused",
        "No route to host",
        "Network is unreachable",
        "remote process exited",
        "NCCL error",
        "Socket Timeout",
        "unhandled system error",
        "unhandled cuda error",
        "ncclRemoteError",
    };

    for (size_t i = 0; i < COUNT(blames); i++) {
        if (strstr(words, blames[i]))
            return true;
    }
    return false;
}

bool crash_blames_others(const struct fact_exit *fact)
{
    if (WIFSIGNALED(fact->status) && WTERMSIG(fact->status) != SIGABRT)
        return false;
    return words_blame(fact->words);
}

bool crash_gave_up(const struct fact_exit *fact)
{
    return crash_blames_others(fact) &&
           (strstr(fact->words, "imed out") || strstr(fact->words, "imeout"));
}

static int64_t note_ns(const struct judge_state *judge, const struct fact_note *note)
{
    return judge_state_run_ns(judge, note->rank, note->mono_ns);
}

void crash_told_exit(struct judge_state *judge, const struct fact_exit *fact)
{
    bool raised = fact->rank == judge->raised.rank || fact->rank == judge->raised_thread.rank;

    if (judge->told_count < COUNT(judge->told))
        judge->told[judge->told_count++] = *fact;
    else if (raised)
        judge->told[COUNT(judge->told) - 1] = *fact;
}

/* An exception in a main thread ends its process: the earliest counts.  One in another thread may be nothing, or
 * old: the newest does, where its process ended.
 */
void crash_raised_note(struct judge_state *judge, const struct fact_note *fact)
{
    bool thread =
        strncmp(fact->text, "in thread ", 10) == 0 && strstr(fact->text, ": " CRASH_UNCAUGHT);

    if (words_blame(fact->text))
        return;
    if (thread)
        judge->raised_thread = *fact;
    else if (strncmp(fact->text, CRASH_UNCAUGHT, strlen(CRASH_UNCAUGHT)) == 0 &&
             (!judge->raised.text[0] || note_ns(judge, fact) < note_ns(judge, &judge->raised)))
        judge->raised = *fact;
}

static const struct fact_exit *exit_of(const struct judge_state *judge, uint32_t rank)
{
    for (uint32_t i = 0; i < judge->exits; i++) {
        if (judge->exit[i].rank == rank)
            return &judge->exit[i];
    }
    for (uint32_t i = 0; i < judge->told_count; i++) {
        if (judge->told[i].rank == rank)
            return &judge->told[i];
    }
    return NULL;
}

/* One that left by itself is told as it was; of others, which were ended on their way, the exception is. */
static void exit_fill(const struct judge_state *judge, const struct fact_note *note,
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

    if (main->text[0] && main->rank != first->rank && note_ns(judge, main) < first->mono_ns) {
        exit_fill(judge, main, exit_of(judge, main->rank), ret);
        return true;
    }
    if (!thread->text[0] || thread->rank == first->rank)
        return false;
    known = exit_of(judge, thread->rank);
    if (!known || note_ns(judge, thread) >= first->mono_ns ||
        first->mono_ns - note_ns(judge, thread) > near_ns)
        return false;
    exit_fill(judge, thread, known, ret);
    return true;
}
