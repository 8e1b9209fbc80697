/* logtext_job.c - lines of launchers and communication libraries, and the meaning of exception texts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "read/logtext_private.h"
#include "wire/verdict.h"

/* The first that fits.  Those of communication come first: "NCCL error" is never a cause. */
static const struct {
    const char *words;
    uint8_t kind, layer;
    const char *cause;
} meanings[] = {
    { "Timed out waiting", LOG_EVENT_TIMEOUT, 0, "a collective timed out" },
    { "ollective operation timeout", LOG_EVENT_TIMEOUT, 0, "a collective timed out" },
    { "monitoredBarrier", LOG_EVENT_TIMEOUT, 0, "a barrier timed out" },
    { "onnection closed by peer", LOG_EVENT_LOST_PEER, 0, "a peer is gone" },
    { "onnection reset by peer", LOG_EVENT_LOST_PEER, 0, "a peer is gone" },
    { "onnection refused", LOG_EVENT_LOST_PEER, 0, "a peer is not reachable" },
    { "roken pipe", LOG_EVENT_LOST_PEER, 0, "a peer is gone" },
    { "ncclRemoteError", LOG_EVENT_LOST_PEER, 0, "a peer is gone" },
    { "remote process exited", LOG_EVENT_LOST_PEER, 0, "a peer is gone" },
    { "communicator was aborted", LOG_EVENT_LOST_PEER, 0, "its communicator was aborted" },
    { "ncclSystemError", LOG_EVENT_LOST_PEER, 0, "a peer or the network failed" },
    { "ncclInternalError", LOG_EVENT_LOST_PEER, 0, "communication failed" },
    { "DistBackendError", LOG_EVENT_LOST_PEER, 0, "communication failed" },
    { "DistNetworkError", LOG_EVENT_LOST_PEER, 0, "communication failed" },
    { "DistStoreError", LOG_EVENT_LOST_PEER, 0, "the rendezvous is gone" },
    { "TCPStore", LOG_EVENT_LOST_PEER, 0, "the rendezvous is gone" },
    { "gloo/transport", LOG_EVENT_LOST_PEER, 0, "communication failed" },
    { "CUDA out of memory", LOG_EVENT_ERROR, LAYER_GPU_MEMORY, "GPU memory is exhausted" },
    { "OutOfMemoryError", LOG_EVENT_ERROR, LAYER_GPU_MEMORY, "GPU memory is exhausted" },
    { "uncorrectable ECC error", LOG_EVENT_ERROR, LAYER_GPU_MEMORY, "uncorrectable ECC error" },
    { "device-side assert", LOG_EVENT_ERROR, LAYER_USER_CODE, "an assertion failed on the GPU" },
    { "illegal memory access", LOG_EVENT_ERROR, LAYER_USER_CODE,
      "illegal memory access on the GPU" },
    { "CUDA error", LOG_EVENT_ERROR, LAYER_GPU, "the GPU failed" },
    { "CUBLAS_STATUS", LOG_EVENT_ERROR, LAYER_GPU, "the GPU failed" },
    { "CUDNN_STATUS", LOG_EVENT_ERROR, LAYER_GPU, "the GPU failed" },
    { "MemoryError", LOG_EVENT_ERROR, LAYER_HOST_MEMORY, "host memory is exhausted" },
    { "Cannot allocate memory", LOG_EVENT_ERROR, LAYER_HOST_MEMORY, "host memory is exhausted" },
    { "No space left on device", LOG_EVENT_ERROR, LAYER_STORAGE, "the disk is full" },
    { "Input/output error", LOG_EVENT_ERROR, LAYER_STORAGE, "storage failed" },
    { "Stale file handle", LOG_EVENT_ERROR, LAYER_STORAGE, "storage failed" },
    { "DataLoader worker", LOG_EVENT_ERROR, LAYER_DATA, "a data loader's worker died" },
    { "KeyboardInterrupt", LOG_EVENT_SIGNAL, 0, "interrupted" },
    { "SignalException", LOG_EVENT_SIGNAL, 0, "ended by an external signal" },
};

void log_classify(const char *text, struct log_event *note)
{
    for (size_t i = 0; i < COUNT(meanings); i++) {
        if (strstr(text, meanings[i].words)) {
            note->kind = meanings[i].kind;
            note->layer = meanings[i].layer;
            snprintf(note->cause, sizeof(note->cause), "%s", meanings[i].cause);
            return;
        }
    }
    note->kind = LOG_EVENT_ERROR;
    note->layer = LAYER_USER_CODE;
    snprintf(note->cause, sizeof(note->cause), "%.*s", (int)strcspn(text, "\n"), text);
}

static int64_t job_number_after(const struct log_line *line, const char *words, int64_t otherwise)
{
    const char *at = log_find(line, words);
    int64_t value;

    return at && log_number(at + strlen(words), line->end, &value) ? value : otherwise;
}

static void job_end_text(struct log_event *note)
{
    if (note->value < 0)
        snprintf(note->cause, sizeof(note->cause), "ended by signal %d", (int)-note->value);
    else
        snprintf(note->cause, sizeof(note->cause), "exit status %d", (int)note->value);
}

/* torchrun: "failed (exitcode: -9) local_rank: 1 (pid: 77) of binary: ..."; local ranks are ranks on one
 * node only, so that the report below it says more.
 */
static bool read_torchrun(const struct log_line *line, struct log_event *note)
{
    int64_t rank = job_number_after(line, "local_rank:", -1);

    if (rank < 0 || rank > 1 << 20)
        return false;
    note->value = job_number_after(line, "exitcode:", 1);
    note->pid = (uint32_t)MAX(job_number_after(line, "(pid:", 0), 0);
    note->kind = LOG_EVENT_EXIT;
    note->rank = (uint32_t)rank;
    job_end_text(note);
    return true;
}

/* The table that follows "Root Cause (first observed failure):", some lines of "  key : value". */
static bool read_root(const struct log_line *line, struct log_event *note)
{
    struct log_line table = { .text = line->end, .end = line->end };
    int64_t rank;

    for (int lines = 0; lines < 8 && *table.end; lines++) {
        const char *next = strchr(table.end + (*table.end == '\n'), '\n');

        table.end = next ? next : table.end + strlen(table.end);
    }
    rank = job_number_after(&table, "rank      :", -1);
    if (rank < 0 || rank > 1 << 20)
        return false;
    note->rank = (uint32_t)rank;
    note->value = job_number_after(&table, "exitcode  :", 1);
    note->pid = (uint32_t)MAX(job_number_after(&table, "(pid:", 0), 0);
    job_end_text(note);
    return true;
}

/* "srun: error: n7: task 13: Killed"; several tasks ("tasks 3,7-9") are read by their first. */
static bool read_srun(const struct log_line *line, struct log_event *note)
{
    static const struct {
        const char *words;
        int value;
    } ends[] = { { "Killed", -9 },      { "Segmentation fault", -11 }, { "Aborted", -6 },
                 { "Terminated", -15 }, { "Out Of Memory", -9 },       { "Bus error", -7 } };
    const char *task = log_find(line, "task "), *node = line->found + strlen("srun: error: ");
    int64_t rank;

    if (!task || !log_number(task + 5, line->end, &rank) || rank < 0 || rank > 1 << 20)
        return false;
    note->rank = (uint32_t)rank;
    if (task > node + 2)
        snprintf(note->node, sizeof(note->node), "%.*s", (int)(task - node - 2), node);
    note->value = job_number_after(line, "exit code", 1);
    for (size_t i = 0; i < COUNT(ends); i++) {
        if (log_find(line, ends[i].words))
            note->value = ends[i].value;
    }
    job_end_text(note);
    return !log_find(line, "Terminated"); /* that is srun itself, after the first */
}

/* "n7:1234:1300 [0] NCCL INFO comm 0x55 rank 3 nranks 8 cudaDev 3 ... busId 1b000 ...": who is who. */
static bool read_identity(const struct log_line *line, struct log_event *note)
{
    int64_t rank = job_number_after(line, " rank ", -1);
    const char *colon = memchr(line->text, ':', (size_t)(line->end - line->text));
    const char *bus = log_find(line, "busId ");
    int64_t pid;

    if (rank < 0 || rank > 1 << 20 || job_number_after(line, "nranks ", 0) <= 0 || !colon ||
        !log_number(colon + 1, line->end, &pid) || pid <= 0)
        return false;
    note->rank = (uint32_t)rank;
    note->pid = (uint32_t)pid;
    snprintf(note->node, sizeof(note->node), "%.*s", (int)MIN(colon - line->text, 63), line->text);
    if (bus) { /* 1b000: bus 1b, device 00; longer with a domain */
        unsigned long id = strtoul(bus + 6, NULL, 16);

        snprintf(note->device, sizeof(note->device), "%04lx:%02lx:%02lx", id >> 20 & 0xffff,
                 id >> 12 & 0xff, id >> 4 & 0xff);
    }
    return true;
}

/* "n7:1234:1300 [0] NCCL INFO 16 coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels, ...". */
static bool read_channels(const struct log_line *line, struct log_event *note)
{
    const char *colon = memchr(line->text, ':', (size_t)(line->end - line->text));
    const char *info = log_find(line, "NCCL INFO ");
    int64_t pid;

    if (!info || !colon || !log_number(colon + 1, line->end, &pid) || pid <= 0 ||
        !log_number(info + strlen("NCCL INFO "), line->end, &note->value) || note->value <= 0)
        return false;
    note->pid = (uint32_t)pid;
    snprintf(note->node, sizeof(note->node), "%.*s", (int)MIN(colon - line->text, 63), line->text);
    return true;
}

/* What a shell says of the process that this log is of; not what a launcher says of others. */
static bool read_own(const struct log_line *line, struct log_event *note)
{
    (void)note;
    return !log_find(line, "srun: ") && !log_find(line, "task ");
}

const struct log_rule log_rules_job[] = {
    { "Watchdog caught collective operation timeout", LOG_EVENT_TIMEOUT, 0,
      "a collective timed out", NULL },
    { "Fatal Python error: Segmentation fault", LOG_EVENT_SIGNAL, LAYER_USER_CODE,
      "segmentation fault", NULL },
    { "Fatal Python error: Aborted", LOG_EVENT_SIGNAL, LAYER_USER_CODE, "aborted", NULL },
    { "Fatal Python error: Bus error", LOG_EVENT_SIGNAL, LAYER_HOST_MEMORY, "bus error", NULL },
    { "!!!!!!! Segfault encountered !!!!!!!", LOG_EVENT_SIGNAL, LAYER_USER_CODE,
      "segmentation fault", NULL },
    { "Segmentation fault (core dumped)", LOG_EVENT_SIGNAL, LAYER_USER_CODE, "segmentation fault",
      read_own },
    { "Bus error (core dumped)", LOG_EVENT_SIGNAL, LAYER_HOST_MEMORY, "bus error", read_own },
    { "failed (exitcode:", LOG_EVENT_EXIT, 0, NULL, read_torchrun },
    { "Root Cause (first observed failure):", LOG_EVENT_ROOT, 0, NULL, read_root },
    { "srun: error: ", LOG_EVENT_EXIT, 0, NULL, read_srun },
    { "NCCL INFO comm ", LOG_EVENT_IDENTITY, 0, NULL, read_identity },
    { " coll channels, ", LOG_EVENT_CHANNELS, LAYER_FABRIC, NULL, read_channels },
    { "NET/IB : Got completion", LOG_EVENT_FABRIC, LAYER_FABRIC, "InfiniBand transfers fail",
      NULL },
    { "NET/IB : Got async event", LOG_EVENT_FABRIC, LAYER_NIC,
      "a network adapter reported an event", NULL },
    { .words = NULL },
};
