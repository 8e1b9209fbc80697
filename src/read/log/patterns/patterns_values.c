/* patterns_values.c - numbers, ranks and names inside the lines of launchers and communication libraries.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/clean.h"
#include "read/log/matcher.h"
#include "read/log/patterns/patterns.h"

#define RANK_MAX (1 << 20)

static bool patterns_rank_ok(int64_t rank)
{
    return rank >= 0 && rank < RANK_MAX;
}

static const struct {
    uint8_t number, layer;
    const char *what, *advice;
} patterns_end[] = {
    { 4, LAYER_UNKNOWN, "illegal instruction", ADVICE_CPU },
    { 6, LAYER_UNKNOWN, "aborted itself", ADVICE_CORE },
    { 7, LAYER_HOST_MEMORY, "bus error", ADVICE_BUS },
    { 8, LAYER_UNKNOWN, "floating point exception", ADVICE_CORE },
    { 9, LAYER_UNKNOWN, "killed, mostly for lack of memory", ADVICE_KILLED },
    { 11, LAYER_UNKNOWN, "segmentation fault", ADVICE_CORE },
    { 15, LAYER_UNKNOWN, "ended from outside by SIGTERM", NULL },
};

void patterns_end_text(struct log_event *event)
{
    int64_t number = event->value < 0 ? -event->value : event->value - 128;

    for (size_t i = 0; i < COUNT(patterns_end); i++) {
        if (number != patterns_end[i].number)
            continue;
        event->layer = patterns_end[i].layer;
        event->advice = patterns_end[i].advice;
        snprintf(event->cause, sizeof(event->cause), "%s (signal %d)", patterns_end[i].what,
                 (int)number);
        return;
    }
    if (event->value < 0)
        snprintf(event->cause, sizeof(event->cause), "ended by signal %d", (int)number);
    else
        snprintf(event->cause, sizeof(event->cause), "exit status %d", (int)event->value);
}

/* The word behind `words`, up to one of `ends`. */
static void patterns_word_after(const struct log_line *line, const char *words, const char *ends,
                                char *out, size_t room)
{
    const char *at = line_find(line, words), *end;

    if (!at)
        return;
    at += strlen(words);
    for (end = at; end < line->end && !strchr(ends, *end);)
        end++;
    snprintf(out, room, "%.*s", (int)MIN((size_t)(end - at), room - 1), at);
}

/* "[PG ID 0 PG GUID 0(default_pg) Rank 3]", "[PG 0 (default_pg) Rank 3]", "[Rank 3]" anywhere in the line */
static void read_group(const struct log_line *line, struct log_event *event)
{
    int64_t rank = line_number_after(line, "Rank ", -1);
    bool in_group = line_find(line, "[PG ") != NULL; /* line.c knows which group */

    if (!in_group && line->rank == LOG_EVENT_NO_RANK && event->rank == LOG_EVENT_NO_RANK &&
        patterns_rank_ok(rank))
        event->rank = (uint32_t)rank;
    if (line_find(line, "PG GUID "))
        patterns_word_after(line, "PG GUID ", " (]", event->group, sizeof(event->group));
    else
        patterns_word_after(line, "[PG ", " (]", event->group, sizeof(event->group));
}

/* "WorkNCCL(SeqNum=1234, OpType=ALLREDUCE, ..., Timeout(ms)=600000) ran for 600123 milliseconds before timing out." */
bool read_timeout(const struct log_line *line, struct log_event *event)
{
    int64_t ms = line_number_after(line, "ran for ", -1);

    read_group(line, event);
    event->seq = line_number_after(line, "SeqNum=", LOG_EVENT_NO_NUMBER);
    patterns_word_after(line, "OpType=", ",) ", event->op, sizeof(event->op));
    if (ms >= 0)
        event->value = ms;
    if (event->seq != LOG_EVENT_NO_NUMBER && event->op[0])
        snprintf(event->cause, sizeof(event->cause), "a collective timed out: %s number %lld",
                 event->op, (long long)event->seq);
    return true;
}

/* A watchdog that does not run: its rank may be the one that the others wait for. */
bool read_stuck(const struct log_line *line, struct log_event *event)
{
    event->notified = true;
    return read_timeout(line, event);
}

/* "Received a dump signal due to a collective timeout from rank 3", or "from this local rank" */
bool read_notified(const struct log_line *line, struct log_event *event)
{
    event->notified = !line_find(line, "this local rank");
    read_group(line, event);
    return true;
}

bool read_library(const struct log_line *line, struct log_event *event)
{
    (void)line;
    event->library = true;
    return true;
}

/* "loss: nan" ends with a word; "loss: information" and "best loss: inf", the value before the first, are none */
bool read_value_end(const struct log_line *line, struct log_event *event)
{
    static const char *const values[] = { "nan", "inf" };
    static const char *const starts[] = { "best", "min_", "min loss", "lowest", "initial" };
    bool word = false;

    for (const char *at = line->text; at + 3 <= line->end && !word; at++) {
        bool begins = at == line->text || !isalnum((unsigned char)at[-1]);

        for (size_t i = 0; i < COUNT(values); i++)
            word |= begins && strncasecmp(at, values[i], 3) == 0 &&
                    (at + 3 == line->end || !isalnum((unsigned char)at[3]));
    }
    for (size_t i = 0; i < COUNT(starts); i++)
        word &= !pattern_fits(starts[i], line->text, line->end, NULL);
    return word && read_rank_in_text(line, event);
}

/* "loss_net: nan", "loss_rpn_cls: nan": the name before a NaN begins with loss */
bool read_nan_loss(const struct log_line *line, struct log_event *event)
{
    for (const char *at = line->text; at + 5 <= line->end; at++) {
        const char *name = at;

        if (strncasecmp(at, ": nan", 5) != 0)
            continue;
        while (name > line->text && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
            name--;
        if (strncasecmp(name, "loss", 4) == 0)
            return read_value_end(line, event);
    }
    return false;
}

/* "Timeout at NCCL work: 2070, last enqueued NCCL work: 2082, last completed NCCL work: 2069." and its later forms */
bool read_progress(const struct log_line *line, struct log_event *event)
{
    read_group(line, event);
    event->seq = line_number_after(line, "work sequence id:", LOG_EVENT_NO_NUMBER);
    if (event->seq == LOG_EVENT_NO_NUMBER)
        event->seq = line_number_after(line, "at NCCL work:", LOG_EVENT_NO_NUMBER);
    if (event->seq == LOG_EVENT_NO_NUMBER)
        event->seq = line_number_after(line, "at work:", LOG_EVENT_NO_NUMBER);
    event->enqueued = line_number_after(line, "enqueued NCCL work:", LOG_EVENT_NO_NUMBER);
    if (event->enqueued == LOG_EVENT_NO_NUMBER)
        event->enqueued = line_number_after(line, "enqueued work:", LOG_EVENT_NO_NUMBER);
    event->completed = line_number_after(line, "completed NCCL work:", LOG_EVENT_NO_NUMBER);
    if (event->completed == LOG_EVENT_NO_NUMBER)
        event->completed = line_number_after(line, "completed work:", LOG_EVENT_NO_NUMBER);
    return true;
}

/* "Rank 1 failed to pass monitoredBarrier", "Ranks 2, 3 failed to pass ...": the first of them here */
bool read_absent(const struct log_line *line, struct log_event *event)
{
    static const char *const before[] = { "Ranks ", "]: Rank ", "] Rank ", "Rank ",
                                          "Stalled ranks:" };

    for (size_t i = 0; i < COUNT(before); i++) {
        int64_t rank = line_number_after(line, before[i], -1);

        if (patterns_rank_ok(rank)) {
            event->rank = (uint32_t)rank;
            return true;
        }
    }
    event->kind = LOG_EVENT_TIMEOUT;
    return true;
}

/* "HorovodBroadcast_0 [missing ranks: 1]"; of several ranks no first one is named */
bool read_missing(const struct log_line *line, struct log_event *event)
{
    static const char before[] = "[missing ranks: ";
    const char *at = line_find(line, before);
    int64_t rank;

    if (!at)
        return false;
    at += sizeof(before) - 1;
    event->rank = LOG_EVENT_NO_RANK;
    if (!line_number(at, line->end, &rank) || !patterns_rank_ok(rank))
        return false;
    while (at < line->end && isdigit((unsigned char)*at))
        at++;
    if (at < line->end && *at == ']')
        event->rank = (uint32_t)rank;
    else
        event->kind = LOG_EVENT_TIMEOUT;
    return true;
}

/* "application called MPI_Abort(MPI_COMM_WORLD, 7) - process 757", "MPI_ABORT was invoked on rank 3 in communicator ..." */
bool read_mpi_abort(const struct log_line *line, struct log_event *event)
{
    int64_t rank = line_number_after(line, "- process ", line_number_after(line, "on rank ", -1));

    if (!patterns_rank_ok(rank))
        return false;
    event->rank = (uint32_t)rank;
    event->value = 1; /* the number is the program's own, and no signal */
    snprintf(event->cause, sizeof(event->cause), "called MPI_Abort");
    return true;
}

/* "Rank 0 is running collective: CollectiveFingerPrint(... OpType=ALLREDUCE ...), but Rank 1 is running collective: ..." */
bool read_mismatch(const struct log_line *line, struct log_event *event)
{
    patterns_word_after(line, "OpType=", ",) ", event->op, sizeof(event->op));
    event->seq = line_number_after(line, "SequenceNumber=", LOG_EVENT_NO_NUMBER);
    event->rank = LOG_EVENT_NO_RANK;
    event->by_name = true; /* neither side is known to be the wrong one */
    return true;
}

/* "Task /job:jax_worker/replica:0/task:37 heartbeat timeout": of JAX, whose tasks are ranks */
bool read_task(const struct log_line *line, struct log_event *event)
{
    int64_t rank = line_number_after(line, "/task:", -1);

    if (patterns_rank_ok(rank))
        event->rank = (uint32_t)rank;
    event->value = 1;
    return true;
}

/* A library's warning: a reason where something else shows that the job failed. */
bool read_warning(const struct log_line *line, struct log_event *event)
{
    const char *words = line_find(line, " WARN ");

    event->warned = true;
    snprintf(event->cause, sizeof(event->cause), "NCCL warned: %.*s",
             (int)(words ? line->end - words - 6 : 0), words ? words + 6 : "");
    return true;
}

/* "trying to connect to (10.0.0.7, 2222)", "... to 10.0.0.7:2222": of the rendezvous */
static void read_address(const struct log_line *line, struct log_event *event)
{
    static const char words[] = "to connect to ";
    const char *at = line_find(line, words), *end;
    bool pair;

    if (!at)
        return;
    at += strlen(words);
    pair = at < line->end && (*at == '(' || *at == '[');
    at += pair;
    for (end = at; end < line->end && !strchr(pair ? ")]" : " ,;", *end);)
        end++;
    while (end > at && end[-1] == '.')
        end--;
    if ((size_t)(end - at) < sizeof(event->peer))
        snprintf(event->peer, sizeof(event->peer), "%.*s", (int)(end - at), at);
}

/* "connection closed by remote peer gpu-07.cluster<40524>", "peer 10.0.0.7<1234>": the node of the peer */
bool read_peer(const struct log_line *line, struct log_event *event)
{
    static const char *const before[] = { "remote peer ", "from peer ", "peer [" };

    for (size_t i = 0; i < COUNT(before) && !event->peer[0]; i++) {
        const char *at = line_find(line, before[i]), *end = at;

        if (!at)
            continue;
        at += strlen(before[i]);
        for (end = at; end < line->end && !strchr("<> ,]", *end);)
            end++;
        if (end - at > 3 && end < line->end && (*end == '<' || *end == ']') &&
            (size_t)(end - at) < sizeof(event->peer))
            snprintf(event->peer, sizeof(event->peer), "%.*s", (int)(end - at), at);
    }
    if (!event->peer[0])
        read_address(line, event);
    return true;
}

/* torchrun: "failed (exitcode: -9) local_rank: 1 (pid: 77) of binary: ..." */
bool read_torchrun(const struct log_line *line, struct log_event *event)
{
    int64_t rank = line_number_after(line, "local_rank:", -1);

    if (!patterns_rank_ok(rank))
        return false;
    event->value = line_number_after(line, "exitcode:", 1);
    event->pid = (uint32_t)MAX(line_number_after(line, "(pid:", 0), 0);
    event->rank = (uint32_t)rank;
    event->local = true;
    patterns_end_text(event);
    return true;
}

/* DeepSpeed: "[launch.py:321:main] Process 1234 exits with return code = -9"; DeepSpeed: "... return code = 1" */
bool read_deepspeed(const struct log_line *line, struct log_event *event)
{
    event->value = line_number_after(line, "return code = ", 1);
    event->pid = (uint32_t)MAX(line_number_after(line, "Process ", 0), 0);
    if (event->value == 0)
        return false;
    patterns_end_text(event);
    return true;
}

static const struct {
    const char *words;
    int value;
} signals[] = { { "Killed", -9 },        { "Segmentation fault", -11 },
                { "Aborted", -6 },       { "Terminated", -15 },
                { "Out Of Memory", -9 }, { "Bus error", -7 },
                { "SIGKILL", -9 },       { "SIGSEGV", -11 },
                { "SIGABRT", -6 },       { "SIGTERM", -15 },
                { "SIGBUS", -7 },        { "SIGFPE", -8 } };

static int64_t patterns_signal_in(const struct log_line *line, int64_t otherwise)
{
    for (size_t i = 0; i < COUNT(signals); i++) {
        if (line_find(line, signals[i].words))
            return signals[i].value;
    }
    return otherwise;
}

/* TensorFlow's word for memory, and for disks */
bool read_exhausted(const struct log_line *line, struct log_event *event)
{
    (void)event;
    return !pattern_fits("quota", line->raw, line->end, NULL) &&
           !pattern_fits("No space left", line->raw, line->end, NULL);
}

/* "ABORT!!! Out of all 4 trainers, the trainer process with rank=[2] was aborted." */
bool read_paddle(const struct log_line *line, struct log_event *event)
{
    int64_t rank = line_number_after(line, "rank=[", -1);

    if (patterns_rank_ok(rank))
        event->rank = (uint32_t)rank;
    event->value = 1;
    snprintf(event->cause, sizeof(event->cause), "was aborted");
    return true;
}

/* "exitCode: 137" in the state of a pod, "worker-0 exited with code 1" */
bool read_container(const struct log_line *line, struct log_event *event)
{
    event->value = line_number_after(line, "exitCode: ", 0);
    if (!event->value)
        event->value = line_number_after(line, "exited with code ", 0);
    patterns_end_text(event);
    return event->value != 0;
}

/* "_job_complete: JobId=127441 WTERMSIG 9", "... WEXITSTATUS 1" */
bool read_slurmctld(const struct log_line *line, struct log_event *event)
{
    int64_t number = line_number_after(line, "WTERMSIG ", 0);

    event->value = number ? -number : line_number_after(line, "WEXITSTATUS ", 0);
    patterns_end_text(event);
    return event->value != 0;
}

/* "srun: error: Node failure on n7" */
bool read_failed_node(const struct log_line *line, struct log_event *event)
{
    patterns_word_after(line, "Node failure on ", " ,;", event->node, sizeof(event->node));
    return true;
}

/* "srun: error: n7: task 13: Killed"; several tasks ("tasks 3,7-9") name no first one */
bool read_srun(const struct log_line *line, struct log_event *event)
{
    const char *node = line_find(line, "srun: error: "), *task = line_find(line, ": task ");
    bool many = line_find(line, ": tasks ") != NULL;
    int64_t rank;

    if (!node)
        return false;
    if (!many && (!task || !line_number(task + 7, line->end, &rank) || !patterns_rank_ok(rank)))
        return false;
    if (!many)
        event->rank = (uint32_t)rank;
    node += strlen("srun: error: ");
    task = many ? line_find(line, ": tasks ") : task;
    if (task > node && task - node < 60)
        snprintf(event->node, sizeof(event->node), "%.*s", (int)(task - node), node);
    event->value = patterns_signal_in(line, line_number_after(line, "exit code", 1));
    patterns_end_text(event);
    if (line_find(line, "Out Of Memory")) {
        event->kind = LOG_EVENT_ERROR;
        event->layer = LAYER_HOST_MEMORY;
        event->confidence = 95;
        snprintf(event->cause, sizeof(event->cause), "killed for lack of memory (cgroup limit)");
    }
    return event->value != -15; /* that is srun itself, after the first */
}

/* "mpirun noticed that process rank 3 with PID 0 on node n7 exited on signal 9 (Killed).", MPICH's "KILLED BY SIGNAL: 9" */
bool read_mpirun(const struct log_line *line, struct log_event *event)
{
    int64_t rank = line_number_after(line, "process rank ", line_number_after(line, "RANK ", -1));
    int64_t number =
        line_number_after(line, "on signal ", line_number_after(line, "BY SIGNAL:", 0));

    if (patterns_rank_ok(rank))
        event->rank = (uint32_t)rank;
    patterns_word_after(line, "on node ", " ,", event->node, sizeof(event->node));
    event->value = number ? -number : 1;
    if (number)
        patterns_end_text(event);
    return number != 15 && number != 6;
}

/* "process 3 terminated with signal SIGKILL", "-- Process 3 terminated with the following error:" of multiprocessing.spawn */
bool read_spawned(const struct log_line *line, struct log_event *event)
{
    int64_t rank = line_number_after(line, "rocess ", -1);

    if (!patterns_rank_ok(rank))
        return false;
    if (line_find(line, "following error"))
        event->kind = LOG_EVENT_FOLLOW;
    event->rank = (uint32_t)rank;
    event->local = true;
    event->value = patterns_signal_in(line, line_number_after(line, "exit code ", 1));
    patterns_end_text(event);
    return true;
}

/* Without a status: it was none of those that mean success. */
bool read_died(const struct log_line *line, struct log_event *event)
{
    (void)line;
    event->value = 1;
    return true;
}

/* "CalledProcessError: Command '[... '--local_rank=7' ...]' died with <Signals.SIGSEGV: 11>." */
bool read_called(const struct log_line *line, struct log_event *event)
{
    int64_t rank =
        line_number_after(line, "--local_rank=", line_number_after(line, "--local-rank=", -1));

    if (patterns_rank_ok(rank)) {
        event->rank = (uint32_t)rank;
        event->local = true;
    }
    event->value = patterns_signal_in(line, 1);
    patterns_end_text(event);
    return true;
}

/* "Process name: [[29973,1],0]", behind "The first process to do so was:" */
bool read_orte(const struct log_line *line, struct log_event *event)
{
    int64_t rank = line_number_after(line, "],", -1);

    if (patterns_rank_ok(rank) && line_find(line, "Process name: "))
        event->rank = (uint32_t)rank;
    event->value = 1;
    snprintf(event->cause, sizeof(event->cause), "a process exited with non-zero status");
    return true;
}

bool read_shell(const struct log_line *line, struct log_event *event)
{
    (void)event;
    return !line_find(line, "srun: ");
}

/* "n7:1234:1300 [0] NCCL INFO comm 0x55 rank 3 nranks 8 cudaDev 3 ... busId 1b000 ...": who is who. */
bool read_identity(const struct log_line *line, struct log_event *event)
{
    int64_t rank = line_number_after(line, " rank ", -1), nodes;
    const char *bus = line_find(line, "busId ");

    if (!patterns_rank_ok(rank))
        return false;
    nodes = line_number_after(line, "nNodes ", 0);
    if (nodes > 1) {
        event->kind = LOG_EVENT_NODES;
        event->value = nodes;
        return true;
    }
    if (line_number_after(line, "ranks ", 0) <= 0 || !line->pid)
        return false;
    event->rank = (uint32_t)rank;
    event->pid = line->pid;
    if (bus) { /* 1b000: bus 1b, device 00; longer with a domain */
        unsigned long id = strtoul(bus + 6, NULL, 16);

        snprintf(event->device, sizeof(event->device), "%04lx:%02lx:%02lx", id >> 20 & 0xffff,
                 id >> 12 & 0xff, id >> 4 & 0xff);
    }
    return true;
}

/* "n7:1234:1300 [0] NCCL INFO 16 coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels, ...". */
bool read_channels(const struct log_line *line, struct log_event *event)
{
    const char *info = line_find(line, "NCCL INFO ");

    if (!info || !line_number(info + strlen("NCCL INFO "), line->end, &event->value) ||
        event->value <= 0 || event->value > INT32_MAX)
        return false;
    if (!line->pid)
        return false;
    event->pid = line->pid;
    return true;
}

/* "--nnodes=2", "min_nodes : 2" */
bool read_nodes(const struct log_line *line, struct log_event *event)
{
    event->value = line_number_after(line, "--nnodes", line_number_after(line, "min_nodes", 0));
    return event->value > 0;
}

/* What srun says of its tasks stands in its own rows. */
bool read_own(const struct log_line *line, struct log_event *event)
{
    (void)event;
    return !line_find(line, "srun: ");
}

bool read_rank_in_text(const struct log_line *line, struct log_event *event)
{
    int64_t rank = line_number_after(line, "[Rank ", line_number_after(line, "[rank", -1));

    if (rank < 0 && pattern_fits("Rank #: ", line->text, line->end, NULL))
        rank = line_number_after(line, "Rank ", -1);
    if (event->rank == LOG_EVENT_NO_RANK && patterns_rank_ok(rank))
        event->rank = (uint32_t)rank;
    return true;
}

/* "Training finished unexpectedly", "training complete: false" are no success. */
bool read_completed(const struct log_line *line, struct log_event *event)
{
    static const char *const bad[] = { "error", "fail", "unexpected", "abort", "false", " not " };

    for (size_t i = 0; i < COUNT(bad); i++) {
        if (pattern_fits(bad[i], line->text, line->end, NULL))
            return false;
    }
    if (line_number_after(line, "xit code", 0) || line_number_after(line, "xit status", 0))
        return false;
    event->value = 0;
    return true;
}

/* "nfs: server fs1 OK", "ens1f0: Link is Up": what works again, by the last word before that */
bool read_restored(const struct log_line *line, struct log_event *event)
{
    const char *end = NULL, *at;

    if (!pattern_fits(" Link is Up", line->raw, line->end, &end) &&
        !pattern_fits(": Link up", line->raw, line->end, &end))
        end = line_find(line, " OK");
    if (!end || end <= line->raw)
        return false;
    if (end - line->raw > 4 && memcmp(end - 4, " NIC", 4) == 0)
        end -= 4;
    while (end > line->raw && end[-1] == ':')
        end--;
    for (at = end; at > line->raw && at[-1] != ' ';)
        at--;
    snprintf(event->device, sizeof(event->device), "%.*s",
             (int)MIN((size_t)(end - at), sizeof(event->device) - 1), at);
    return event->device[0] != '\0';
}
