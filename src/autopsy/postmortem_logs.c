/* postmortem_logs.c - the rank that failed first, from logs.
 *
 * Every rank of a job that dies logs an error, and most of these errors are about another rank.  So errors about
 * peers only show that their rank was alive and waiting; the culprit is the rank without an error, or with an error
 * of another kind.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"

#define SIGNAL_ABORT (-6)
#define SIGNAL_TERM (-15)
#define YEAR_NS INT64_C(31556952000000000)

struct culprit {
    uint32_t rank;
    const struct log_event *note; /* NULL: it left no word */
    double confidence;
};

struct hearing {
    const struct logs *logs;
    const struct findings *findings;
    int64_t apart_ns; /* that a kernel's line may be from the job */
    struct culprit *culprit;
    size_t culprits, room;
    size_t lost, timeouts; /* ranks whose last word was about that */
    bool dense;            /* there is a log of every rank, as far as can be told */
};

static int culprit_add(struct hearing *hearing, uint32_t rank, const struct log_event *note,
                       double confidence)
{
    if (rank == LOG_EVENT_NO_RANK)
        return 0;
    for (size_t i = 0; i < hearing->culprits; i++) {
        if (hearing->culprit[i].rank == rank)
            return 0;
    }
    if (!ARRAY_FIT(hearing->culprit, hearing->room, hearing->culprits + 1))
        return -ENOMEM;
    hearing->culprit[hearing->culprits++] = (struct culprit){ rank, note, confidence };
    return 0;
}

static uint8_t ended_of(const struct logs *logs, uint32_t rank)
{
    for (size_t i = 0; i < logs->ranks; i++) {
        if (logs->rank[i].rank == rank)
            return logs->rank[i].ended;
    }
    return 0;
}

static bool is_echo(const struct logs *logs, uint32_t rank)
{
    uint8_t ended = ended_of(logs, rank);

    return ended == LOG_EVENT_LOST_PEER || ended == LOG_EVENT_TIMEOUT;
}

static uint32_t rank_by(const struct logs *logs, const struct log_event *note, bool by_exits)
{
    for (size_t i = 0; i < logs->notes; i++) {
        const struct log_event *who = &logs->note[i];
        bool node = !note->node[0] || !who->node[0] || strcmp(note->node, who->node) == 0;

        if (who == note || who->rank == LOG_EVENT_NO_RANK || !node ||
            (who->kind == LOG_EVENT_EXIT) != by_exits)
            continue;
        if (note->pid && who->pid == note->pid)
            return who->rank;
        if (note->device[0] && note->node[0] && who->node[0] &&
            strcmp(who->device, note->device) == 0)
            return who->rank;
    }
    return LOG_EVENT_NO_RANK;
}

/* The rank of a process that the kernel speaks of, or of the device; LOG_EVENT_NO_RANK.  What launchers say of
 * each exit may count ranks by node, so the rest comes first.
 */
uint32_t postmortem_rank_of(const struct logs *logs, const struct log_event *note)
{
    uint32_t rank = rank_by(logs, note, false);

    return rank == LOG_EVENT_NO_RANK ? rank_by(logs, note, true) : rank;
}

/* Logs of kernels go back for months.  Is this line of the time of the job, as far as both are known?  Many have no year
 * and no zone: the time of the year counts, and roughly.
 */
static bool is_of_its_time(const struct hearing *hearing, const struct log_event *note)
{
    const struct findings *findings = hearing->findings;
    int64_t off_ns;

    if (!findings->from_real_ns || !note->real_ns)
        return true;
    off_ns = MAX(
        MAX(findings->from_real_ns - note->real_ns, note->real_ns - findings->until_real_ns), 0);
    off_ns %= YEAR_NS;
    return MIN(off_ns, YEAR_NS - off_ns) <= hearing->apart_ns;
}

/* From the strongest word to the weakest; each only where the stronger ones named nobody. */
static int hear_errors(struct hearing *hearing)
{
    const struct logs *logs = hearing->logs;
    int result = 0;

    for (size_t i = 0; i < logs->notes && result == 0; i++) {
        const struct log_event *note = &logs->note[i];

        if (note->kind == LOG_EVENT_ERROR || (note->kind == LOG_EVENT_SIGNAL && note->layer))
            result = culprit_add(hearing, note->rank, note, 0.9);
        else if ((note->kind == LOG_EVENT_OOM_KILL || note->kind == LOG_EVENT_SEGFAULT) &&
                 is_of_its_time(hearing, note))
            result = culprit_add(hearing, postmortem_rank_of(logs, note), note, 0.95);
    }
    return result;
}

static int hear_launcher(struct hearing *hearing)
{
    const struct logs *logs = hearing->logs;
    int result = 0;

    for (size_t i = 0; i < logs->notes && result == 0; i++) {
        const struct log_event *note = &logs->note[i];

        if (note->kind == LOG_EVENT_ROOT && !is_echo(logs, note->rank))
            result = culprit_add(hearing, note->rank, note, 0.9);
    }
    for (size_t i = 0; i < logs->notes && result == 0 && !hearing->culprits; i++) {
        const struct log_event *note = &logs->note[i];

        /* One that is aborted or told to end is mostly so because somebody else had ended. */
        if (note->kind == LOG_EVENT_EXIT && note->value && note->value != SIGNAL_ABORT &&
            note->value != SIGNAL_TERM && !is_echo(logs, note->rank))
            result = culprit_add(hearing, note->rank, note, note->value < 0 ? 0.85 : 0.7);
    }
    return result;
}

static void hear_echoes(struct hearing *hearing)
{
    const struct logs *logs = hearing->logs;

    for (size_t i = 0; i < logs->ranks; i++) {
        hearing->lost += logs->rank[i].ended == LOG_EVENT_LOST_PEER;
        hearing->timeouts += logs->rank[i].ended == LOG_EVENT_TIMEOUT;
    }
    hearing->dense = logs->ranks > 1 && logs->rank[logs->ranks - 1].rank + 1 == logs->ranks;
}

/* Those of whom the others' words say that they were not there. */
static int hear_silence(struct hearing *hearing)
{
    const struct logs *logs = hearing->logs;
    int result = 0;

    if (!hearing->dense)
        return 0;
    for (size_t i = 0; i < logs->ranks && result == 0; i++) {
        uint8_t ended = logs->rank[i].ended;

        /* Whoever waited has timed out; who only lost its peers afterwards was somewhere else. */
        if (hearing->timeouts ? ended != LOG_EVENT_TIMEOUT : ended != LOG_EVENT_LOST_PEER)
            result = culprit_add(hearing, logs->rank[i].rank, NULL, 0.7);
    }
    if (2 * hearing->culprits > logs->ranks)
        hearing->culprits = 0; /* most of them? then their silence means something else */
    return result;
}

static int by_rank(const void *left, const void *right)
{
    const struct culprit *a = left, *b = right;

    return (a->rank > b->rank) - (a->rank < b->rank);
}

static void logs_name_rank(struct verdict *verdict, uint32_t rank)
{
    if (verdict->rank_count < VERDICT_RANKS)
        verdict->rank[verdict->rank_count] = rank;
    verdict->rank_count++;
}

void postmortem_name_node(struct verdict *verdict, const char *node)
{
    for (uint32_t i = 0; i < MIN(verdict->node_count, VERDICT_NODES); i++) {
        if (strcmp(verdict->node[i], node) == 0)
            return;
    }
    if (!*node)
        return;
    if (verdict->node_count < VERDICT_NODES)
        snprintf(verdict->node[verdict->node_count], sizeof(verdict->node[0]), "%s", node);
    verdict->node_count++;
}

void postmortem_because(struct verdict *verdict, const struct log_event *note)
{
    verdict_because(verdict, note->kind >= LOG_EVENT_XID ? "kernel log" : "log",
                    "%s line %u: %.150s", note->file, note->line, note->text);
}

static void tell_echoes(const struct hearing *hearing, struct verdict *verdict)
{
    struct verdict_line *line = &verdict->echo[verdict->echo_count];

    if ((!hearing->lost && !hearing->timeouts) || verdict->echo_count == VERDICT_LINES)
        return;
    snprintf(line->what, sizeof(line->what),
             "%zu ranks lost a peer; a collective timed out on %zu ranks", hearing->lost,
             hearing->timeouts);
    snprintf(line->source, sizeof(line->source), "log");
    verdict->echo_count++;
}

static bool is_culprit(const struct hearing *hearing, uint32_t rank)
{
    for (size_t k = 0; k < hearing->culprits; k++) {
        if (hearing->culprit[k].rank == rank)
            return true;
    }
    return false;
}

static bool names_any(const struct verdict *verdict, const struct hearing *hearing)
{
    for (uint32_t i = 0; i < MIN(verdict->rank_count, VERDICT_RANKS); i++) {
        if (is_culprit(hearing, verdict->rank[i]))
            return true;
    }
    return false;
}

/* The hang that dumps show of the same ranks is how the others saw the crash.  Whoever else it names stays named. */
static void take_over_hang(const struct hearing *hearing, struct findings *findings,
                           struct verdict *crash)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct verdict *hang = &findings->verdict[i];
        uint32_t kept = 0;

        if (hang == crash || hang->kind != VERDICT_HANG || !names_any(hang, hearing))
            continue;
        for (uint32_t k = 0; k < hang->because_count; k++)
            verdict_because(crash, hang->because[k].source, "%s", hang->because[k].what);
        for (uint32_t k = 0; k < MIN(hang->rank_count, VERDICT_RANKS); k++) {
            if (!is_culprit(hearing, hang->rank[k]))
                hang->rank[kept++] = hang->rank[k];
        }
        if (kept) {
            hang->rank_count = kept;
            verdict_identify(hang);
            return;
        }
        memmove(hang, hang + 1,
                (size_t)(findings->verdict + findings->count - (hang + 1)) * sizeof(*hang));
        findings->count--; /* crash was the last one, and has moved down, too */
        return;
    }
}

/* Of those that are named for their missing dump alone, whoever waited until a collective timed out is a victim. */
static void clear_waiting(const struct logs *logs, struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct verdict *verdict = &findings->verdict[i];
        uint32_t kept = 0, count = MIN(verdict->rank_count, VERDICT_RANKS);

        if (verdict->kind != VERDICT_HANG || verdict->confidence > POSTMORTEM_UNSEEN || !count)
            continue;
        for (uint32_t k = 0; k < count; k++) {
            if (ended_of(logs, verdict->rank[k]) != LOG_EVENT_TIMEOUT)
                verdict->rank[kept++] = verdict->rank[k];
        }
        if (kept == count)
            continue;
        verdict->rank_count = kept;
        verdict_identify(verdict);
        if (!kept)
            memmove(verdict, verdict + 1, (--findings->count - i) * sizeof(*verdict));
        return; /* there is one such verdict at most */
    }
}

static void crash_name(struct verdict *verdict, const struct culprit *culprit)
{
    logs_name_rank(verdict, culprit->rank);
    verdict->confidence = MIN(verdict->confidence, culprit->confidence);
    if (!culprit->note) {
        verdict_because(verdict, "log",
                        "the log of rank %u ends without an error; the other ranks lost a peer",
                        culprit->rank);
        return;
    }
    postmortem_because(verdict, culprit->note);
    postmortem_name_node(verdict, culprit->note->node);
}

static unsigned logs_layer_of(const struct culprit *culprit)
{
    return culprit->note ? culprit->note->layer : LAYER_UNKNOWN;
}

/* One verdict for all that failed in one layer: two that failed of different things are two faults. */
static int tell_crash_in(struct hearing *hearing, unsigned layer, const char *run,
                         struct findings *findings)
{
    struct verdict *verdict = findings_add(findings, run, VERDICT_CRASH, layer);

    if (!verdict)
        return -ENOMEM;
    verdict->confidence = 1;
    for (size_t i = 0; i < hearing->culprits; i++) {
        const struct culprit *culprit = &hearing->culprit[i];

        if (logs_layer_of(culprit) != layer)
            continue;
        if (!verdict->rank_count)
            snprintf(verdict->cause, sizeof(verdict->cause), "%s",
                     culprit->note ? culprit->note->cause : "ended without an error message");
        crash_name(verdict, culprit);
    }
    tell_echoes(hearing, verdict);
    take_over_hang(hearing, findings, verdict);
    verdict = &findings->verdict[findings->count - 1];
    verdict_identify(verdict);
    return 0;
}

static int tell_crash(struct hearing *hearing, const char *run, struct findings *findings)
{
    int result = 0;

    qsort(hearing->culprit, hearing->culprits, sizeof(*hearing->culprit), by_rank);
    for (size_t i = 0; i < hearing->culprits && result == 0; i++) {
        size_t first = 0;

        while (logs_layer_of(&hearing->culprit[first]) != logs_layer_of(&hearing->culprit[i]))
            first++;
        if (first == i)
            result = tell_crash_in(hearing, logs_layer_of(&hearing->culprit[i]), run, findings);
    }
    return result;
}

static struct verdict *hang_of(struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->verdict[i].kind == VERDICT_HANG ||
            findings->verdict[i].kind == VERDICT_DESYNC)
            return &findings->verdict[i];
    }
    return NULL;
}

static int tell_timeouts(struct hearing *hearing, const char *run, struct findings *findings)
{
    struct verdict *verdict = hang_of(findings);

    if (verdict) { /* the dumps say more */
        tell_echoes(hearing, verdict);
        return 0;
    }
    verdict = findings_add(findings, run, VERDICT_HANG, LAYER_UNKNOWN);
    if (!verdict)
        return -ENOMEM;
    if (hearing->culprits)
        qsort(hearing->culprit, hearing->culprits, sizeof(*hearing->culprit), by_rank);
    snprintf(verdict->cause, sizeof(verdict->cause), "%s",
             hearing->culprits ? "did not enter a collective" : "a collective did not complete");
    verdict_because(verdict, "log", "%zu ranks waited in a collective until it timed out",
                    hearing->timeouts);
    verdict->confidence = hearing->culprits ? 0.7 : 0.3;
    for (size_t i = 0; i < hearing->culprits; i++) {
        logs_name_rank(verdict, hearing->culprit[i].rank);
        verdict_because(verdict, "log", "rank %u was not waiting: its log contains no timeout",
                        hearing->culprit[i].rank);
    }
    verdict_identify(verdict);
    return 0;
}

/* Evidence of the node for a verdict that names the rank it is about, or the only one there is. */
static struct verdict *verdict_for(struct findings *findings, uint32_t rank)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct verdict *verdict = &findings->verdict[i];

        for (uint32_t k = 0; k < MIN(verdict->rank_count, VERDICT_RANKS); k++) {
            if (verdict->rank[k] == rank)
                return verdict;
        }
    }
    if (rank == LOG_EVENT_NO_RANK && findings->count == 1 && findings->verdict[0].rank_count == 1 &&
        findings->verdict[0].layer == LAYER_UNKNOWN)
        return &findings->verdict[0];
    return NULL;
}

static void add_evidence(struct verdict *verdict, const struct log_event *note, bool sure)
{
    postmortem_because(verdict, note);
    postmortem_name_node(verdict, note->node);
    if (!verdict->device[0])
        snprintf(verdict->device, sizeof(verdict->device), "%s", note->device);
    if (verdict->layer == LAYER_UNKNOWN || (sure && note->kind == LOG_EVENT_XID)) {
        verdict->layer = note->layer;
        snprintf(verdict->cause, sizeof(verdict->cause), "%s", note->cause);
    }
    if (sure)
        verdict->confidence = MAX(verdict->confidence, 0.95);
}

static bool line_names(const char *what, uint32_t rank)
{
    char words[24];
    int size = snprintf(words, sizeof(words), "rank %u", rank);
    const char *at = strstr(what, words);

    return at && (at[size] < '0' || at[size] > '9');
}

/* What is known of one alone says nothing of the others that are named with it: it gets a verdict of its own. */
static struct verdict *set_apart(struct verdict *among, uint32_t rank, const char *run,
                                 struct findings *findings)
{
    struct verdict *alone;
    uint32_t kept = 0;

    if (among->rank_count < 2 || among->rank_count > VERDICT_RANKS ||
        among->layer != LAYER_UNKNOWN || findings->count == POSTMORTEM_MAX)
        return among;
    alone = findings_add(findings, run, among->kind, LAYER_UNKNOWN);
    if (!alone)
        return among;
    snprintf(alone->cause, sizeof(alone->cause), "%s", among->cause);
    alone->confidence = among->confidence;
    alone->since_real_ns = among->since_real_ns;
    logs_name_rank(alone, rank);
    for (uint32_t i = 0; i < among->because_count; i++) {
        if (line_names(among->because[i].what, rank))
            verdict_because(alone, among->because[i].source, "%s", among->because[i].what);
        else
            among->because[kept++] = among->because[i];
    }
    among->because_count = kept ? kept : among->because_count;
    kept = 0;
    for (uint32_t i = 0; i < among->rank_count; i++) {
        if (among->rank[i] != rank)
            among->rank[kept++] = among->rank[i];
    }
    among->rank_count = kept;
    verdict_identify(among);
    verdict_identify(alone);
    return alone;
}

static int tell_node(const struct log_event *note, uint32_t rank, const char *run,
                     struct findings *findings)
{
    struct verdict *verdict = findings_add(findings, run, VERDICT_NODE_FAULT, note->layer);

    if (!verdict)
        return -ENOMEM;
    snprintf(verdict->cause, sizeof(verdict->cause), "%s", note->cause);
    snprintf(verdict->device, sizeof(verdict->device), "%s", note->device);
    if (rank != LOG_EVENT_NO_RANK)
        logs_name_rank(verdict, rank);
    postmortem_name_node(verdict, note->node);
    postmortem_because(verdict, note);
    verdict->confidence =
        note->kind == LOG_EVENT_XID || note->kind == LOG_EVENT_OOM_KILL ? 0.8 : 0.5;
    verdict_identify(verdict);
    return 0;
}

static bool is_said(const struct findings *findings, const struct log_event *note)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct verdict *verdict = &findings->verdict[i];

        if (verdict->kind == VERDICT_NODE_FAULT && strcmp(verdict->cause, note->cause) == 0 &&
            strcmp(verdict->device, note->device) == 0 &&
            (!verdict->node_count || strcmp(verdict->node[0], note->node) == 0))
            return true;
    }
    return false;
}

static int hear_nodes(const struct hearing *hearing, const char *run, struct findings *findings)
{
    const struct logs *logs = hearing->logs;
    int result = 0;

    for (size_t i = 0; i < logs->notes && result == 0 && findings->count < POSTMORTEM_MAX; i++) {
        const struct log_event *note = &logs->note[i];
        uint32_t rank;
        struct verdict *verdict;

        if (note->kind != LOG_EVENT_XID && note->kind != LOG_EVENT_NODE &&
            note->kind != LOG_EVENT_OOM_KILL && note->kind != LOG_EVENT_FABRIC)
            continue;
        if (note->kind != LOG_EVENT_FABRIC && !is_of_its_time(hearing, note))
            continue;
        rank = note->kind == LOG_EVENT_FABRIC ? LOG_EVENT_NO_RANK : postmortem_rank_of(logs, note);
        verdict = verdict_for(findings, rank);
        if (verdict && verdict->kind == VERDICT_CRASH && note->kind == LOG_EVENT_OOM_KILL &&
            rank != LOG_EVENT_NO_RANK)
            continue; /* it is what the verdict rests on */
        if (verdict && rank != LOG_EVENT_NO_RANK)
            verdict = set_apart(verdict, rank, run, findings);
        if (verdict)
            add_evidence(verdict, note, rank != LOG_EVENT_NO_RANK);
        else if (!is_said(findings, note))
            result = tell_node(note, rank, run, findings);
    }
    return result;
}

int postmortem_logs(const struct logs *logs, const char *run, struct findings *findings)
{
    struct hearing hearing = { .logs = logs, .findings = findings };
    struct thresholds limits;
    int result;

    if (!logs->ranks && !logs->notes)
        return 0;
    postmortem_limits(findings, &limits);
    hearing.apart_ns = (int64_t)(limits.kernel_unwatched * 1e9);
    for (size_t i = 0; i < logs->notes; i++) {
        if (logs->note[i].kind < LOG_EVENT_XID)
            postmortem_saw(findings, logs->note[i].real_ns);
    }
    hear_echoes(&hearing);
    clear_waiting(logs, findings);
    result = hear_errors(&hearing);
    if (result == 0 && !hearing.culprits)
        result = hear_launcher(&hearing);
    if (result == 0 && hearing.culprits)
        result = tell_crash(&hearing, run, findings);
    else if (result == 0 && (hearing.lost || hearing.timeouts) &&
             (result = hear_silence(&hearing)) == 0)
        result = hearing.timeouts || hang_of(findings) ? tell_timeouts(&hearing, run, findings)
                 : hearing.culprits                    ? tell_crash(&hearing, run, findings)
                                                       : 0;
    free(hearing.culprit);
    if (hearing.lost || hearing.timeouts)
        findings->well = false;
    if (result == 0)
        result = hear_nodes(&hearing, run, findings);
    /* A job that died of something else has better things told of it. */
    return result < 0 || findings->count ? result : postmortem_channels(logs, run, findings);
}
