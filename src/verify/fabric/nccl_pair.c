/* nccl_pair.c - the child of a transfer by NCCL, and what its parent makes of the reports.
 *
 * The data is cut into pieces.  A few of them are under way at a time, the sender begins each when the allowed rate has come to it, and
 * the receiver reports each that has arrived; the rate is that from the first to the last of them.  What a lost packet held back comes at
 * once: so the rate is at most four thirds of that since the beginning.
 *
 * The worker waits for its child or for the word of the test, and for nothing else: it polls both and needs no loop (base/loop.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/nccl_pair.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/nccl_library.h"
#include "verify/gpu/gpu_devices.h"

#define PIECE_MIN 16384
#define PIECE_MAX (UINT64_C(64) << 20)
/* The test asks for a quarter more bytes than its time takes: a sound link ends without them, a slow one when the time is over. */
#define SLACK_PARTS 5
#define PIECES 64 /* of a transfer, at least, where they are not too small */
#define UNDER_WAY 4
#define PING_BYTES 8
#define PINGS_MAX 64
#define END_NS (2 * NS_PER_S) /* for the sender's last pieces, and for the child to end */
#define NCCL_SYSTEM_ERROR 2
#define NCCL_REMOTE_ERROR 6

enum pair_report {
    PAIR_ID = 1, /* text */
    PAIR_PIECE,  /* rail, bytes and ns since the first piece */
    PAIR_PING,   /* rail, ns: half of the median round trip */
    PAIR_ERROR,  /* error, text */
    PAIR_REFUSED,
    PAIR_DONE,
};

struct pair_record {
    uint32_t report, rail, error;
    uint64_t bytes, ns;
    char text[FABRIC_TEXT];
};

_Static_assert(sizeof(struct pair_record) <= 512, "a pipe takes it in one piece");

struct pair_rail {
    struct gpu_device *device;
    void *comm, *event[UNDER_WAY];
    uint64_t memory;
    int64_t first_ns; /* when the first piece was there */
};

struct pair_child {
    struct gpu_devices devices;
    struct nccl nccl;
    struct pair_rail rail[FABRIC_RAILS];
    uint32_t rails, pings;
    bool sends, shared;
    uint64_t piece, pieces, rate;
    int64_t began_ns; /* the transfer */
    struct nccl_id id;
    int fd;
};

/* ---- in the child: reports ---- */

static void pair_put(const struct pair_child *child, const struct pair_record *record)
{
    if (write(child->fd, record, sizeof(*record)) != sizeof(*record))
        _exit(1);
}

static void pair_fail(const struct pair_child *child, enum pair_report report, uint32_t error,
                      const char *text)
{
    struct pair_record record = { .report = report, .error = error };

    snprintf(record.text, sizeof(record.text), "%s", text);
    pair_put(child, &record);
    _exit(0);
}

/* What the network did, or something that says nothing about it. */
static void pair_check(const struct pair_child *child, int result, const char *what)
{
    struct err err = { "" };

    if (nccl_check(&child->nccl, result, what, &err) < 0)
        pair_fail(child, PAIR_ERROR,
                  result == NCCL_SYSTEM_ERROR || result == NCCL_REMOTE_ERROR ? ECONNRESET : EPROTO,
                  err.text);
}

static void pair_need(const struct pair_child *child, int result, const struct err *err)
{
    if (result < 0)
        pair_fail(child, PAIR_ERROR, EPROTO, err->text);
}

/* ---- the text for the sender ---- */

static void pair_text_put(const struct pair_child *child, char *out, size_t room)
{
    size_t at = 0;

    for (size_t i = 0; i < sizeof(child->id.byte) && at + 3 < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%02x", (unsigned char)child->id.byte[i]);
    snprintf(out + at, room - at, " %" PRIu64 " %" PRIu64, child->piece, child->pieces);
}

static bool pair_text_get(struct pair_child *child, const char *text)
{
    uint64_t piece, pieces;

    for (size_t i = 0; i < sizeof(child->id.byte); i++) {
        unsigned byte;

        if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]) ||
            sscanf(text, "%2x", &byte) != 1)
            return false;
        child->id.byte[i] = (char)byte;
        text += 2;
    }
    if (sscanf(text, " %" SCNu64 " %" SCNu64, &piece, &pieces) != 2 || piece < PIECE_MIN ||
        piece > PIECE_MAX || !pieces)
        return false;
    /* Its own limit of bytes holds as well: then the receiver gets less, and its time ends. */
    child->pieces = MIN(pieces, child->piece * child->pieces / piece);
    child->piece = piece;
    return child->pieces > 0;
}

/* ---- set-up ---- */

static void pair_gpus_open(struct pair_child *child)
{
    static struct verify_report report;
    const struct verify_place place = { .root = "", .node = "" };
    struct err err = { "" };

    if (!gpu_devices_open(&child->devices, &place, &report))
        pair_fail(child, PAIR_REFUSED, 0, report.result[0].why);
    child->devices.shared = child->shared;
    if (child->devices.count < child->rails)
        pair_fail(child, PAIR_REFUSED, 0, "this node has fewer GPUs than rails");
    if (nccl_open(&child->nccl, NULL, &err) < 0)
        pair_fail(child, PAIR_REFUSED, 0, err.text);
    for (uint32_t r = 0; r < child->rails; r++) {
        struct gpu_device *device = &child->devices.gpu[r];
        struct pair_rail *rail = &child->rail[r];
        int result = 0;

        rail->device = device;
        if (!gpu_device_open(&child->devices, device, &report))
            pair_fail(child, PAIR_REFUSED, 0, report.result[report.count - 1].why);
        result = gpu_device_memory(device, child->piece + PING_BYTES, &rail->memory, &err);
        for (int i = 0; i < UNDER_WAY && result == 0; i++)
            result = gpu_device_check(
                device, device->cuda->event_create(&rail->event[i], CUDA_EVENT_DEFAULT),
                "cuEventCreate", &err);
        pair_need(child, result, &err);
        gpu_device_leave(device);
    }
}

static void pair_comms_open(struct pair_child *child)
{
    struct err err = { "" };

    pair_check(child, child->nccl.group_begin(), "ncclGroupStart");
    for (uint32_t r = 0; r < child->rails; r++) {
        struct pair_rail *rail = &child->rail[r];

        pair_need(child, gpu_device_enter(rail->device, &err), &err);
        pair_check(child,
                   child->nccl.comm_init(&rail->comm, 2 * (int)child->rails, child->id,
                                         (int)(child->sends ? child->rails + r : r)),
                   "ncclCommInitRank");
        gpu_device_leave(rail->device);
    }
    pair_check(child, child->nccl.group_end(), "ncclGroupEnd");
}

/* ---- transfers ---- */

static int pair_peer(const struct pair_child *child, uint32_t r)
{
    return (int)(child->sends ? r : child->rails + r);
}

/* One transfer on a rail, begun; the context of its GPU is current. */
static void pair_begin(const struct pair_child *child, uint32_t r, size_t bytes, bool sends)
{
    const struct pair_rail *rail = &child->rail[r];
    uint64_t place = rail->memory + (bytes == PING_BYTES ? child->piece : 0); /* pings: behind it */
    void *memory = (void *)(uintptr_t)place, *stream = rail->device->stream;
    int peer = pair_peer(child, r);

    pair_check(child,
               sends ? child->nccl.send(memory, bytes, NCCL_INT8, peer, rail->comm, stream)
                     : child->nccl.receive(memory, bytes, NCCL_INT8, peer, rail->comm, stream),
               sends ? "ncclSend" : "ncclRecv");
}

static int pair_order(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

    return (one > other) - (one < other);
}

static void pair_ping(struct pair_child *child, uint32_t r)
{
    struct pair_rail *rail = &child->rail[r];
    struct pair_record record = { .report = PAIR_PING, .rail = r };
    int64_t took_ns[PINGS_MAX];
    struct err err = { "" };

    pair_need(child, gpu_device_enter(rail->device, &err), &err);
    for (uint32_t i = 0; i < child->pings; i++) {
        int64_t began_ns = time_mono_ns();

        pair_begin(child, r, PING_BYTES, child->sends);
        pair_begin(child, r, PING_BYTES, !child->sends);
        pair_need(child, gpu_device_wait(rail->device, &err), &err);
        took_ns[i] = time_mono_ns() - began_ns;
    }
    gpu_device_leave(rail->device);
    if (!child->sends || !child->pings)
        return;
    qsort(took_ns, child->pings, sizeof(took_ns[0]), pair_order);
    record.ns = (uint64_t)took_ns[child->pings / 2] / 2;
    pair_put(child, &record);
}

/* A word of the data; the same in each piece. */
static uint64_t pair_word(size_t at)
{
    return (at + 1) * 0x9e3779b97f4a7c15ull;
}

static void pair_fill(struct pair_child *child)
{
    CLEAN(free_clean) uint64_t *host = malloc(child->piece);
    struct err err = { "" };

    for (size_t i = 0; host && i < child->piece / sizeof(*host); i++)
        host[i] = pair_word(i);
    for (uint32_t r = 0; r < child->rails; r++) {
        struct gpu_device *device = child->rail[r].device;
        int result = host ? gpu_device_enter(device, &err) : err_nomem(&err);

        if (result == 0)
            result = gpu_device_check(device,
                                      device->cuda->copy_to_device(child->rail[r].memory, host,
                                                                   child->piece, device->stream),
                                      "cuMemcpyHtoDAsync", &err);
        if (result == 0)
            result = gpu_device_wait(device, &err);
        pair_need(child, result, &err);
        gpu_device_leave(device);
    }
}

static void pair_compare(struct pair_child *child)
{
    CLEAN(free_clean) uint64_t *host = malloc(child->piece);
    struct err err = { "" };

    for (uint32_t r = 0; r < child->rails; r++) {
        struct gpu_device *device = child->rail[r].device;
        int result = host ? gpu_device_enter(device, &err) : err_nomem(&err);

        if (result == 0)
            result = gpu_device_fetch(device, host, child->rail[r].memory, child->piece, &err);
        pair_need(child, result, &err);
        gpu_device_leave(device);
        for (size_t i = 0; host && i < child->piece / sizeof(*host); i++) {
            if (host[i] != pair_word(i))
                pair_fail(child, PAIR_ERROR, EBADMSG, "other bytes arrived than were sent");
        }
    }
}

static void pair_piece_begin(struct pair_child *child, uint64_t i)
{
    struct err err = { "" };

    pair_check(child, child->nccl.group_begin(), "ncclGroupStart");
    for (uint32_t r = 0; r < child->rails; r++) {
        pair_need(child, gpu_device_enter(child->rail[r].device, &err), &err);
        pair_begin(child, r, child->piece, child->sends);
        gpu_device_leave(child->rail[r].device);
    }
    pair_check(child, child->nccl.group_end(), "ncclGroupEnd");
    for (uint32_t r = 0; r < child->rails; r++) {
        struct pair_rail *rail = &child->rail[r];

        pair_need(child, gpu_device_enter(rail->device, &err), &err);
        pair_need(child,
                  gpu_device_check(rail->device,
                                   rail->device->cuda->event_record(rail->event[i % UNDER_WAY],
                                                                    rail->device->stream),
                                   "cuEventRecord", &err),
                  &err);
        gpu_device_leave(rail->device);
    }
}

/* That pieces 1 to i took. */
static uint64_t pair_time_ns(const struct pair_child *child, const struct pair_rail *rail,
                             uint64_t i)
{
    int64_t now_ns = time_mono_ns();
    double all = (double)(now_ns - child->began_ns) * (double)i / (double)(i + 1);
    double least = 0.75 * all, took = (double)(now_ns - rail->first_ns);

    return (uint64_t)MAX(took, least);
}

static void pair_piece_end(struct pair_child *child, uint64_t i)
{
    struct err err = { "" };

    for (uint32_t r = 0; r < child->rails; r++) {
        struct pair_rail *rail = &child->rail[r];
        struct pair_record record = { .report = PAIR_PIECE, .rail = r, .bytes = i * child->piece };

        pair_need(child, gpu_device_enter(rail->device, &err), &err);
        pair_need(child,
                  gpu_device_check(rail->device,
                                   rail->device->cuda->event_wait(rail->event[i % UNDER_WAY]),
                                   "cuEventSynchronize", &err),
                  &err);
        gpu_device_leave(rail->device);
        if (i == 0)
            rail->first_ns = time_mono_ns();
        record.ns = pair_time_ns(child, rail, i);
        pair_put(child, &record);
    }
}

static void pair_pace(const struct pair_child *child, uint64_t i)
{
    int64_t due_ns =
        child->began_ns + (int64_t)((double)i * (double)child->piece * 1e9 / (double)child->rate);
    const struct timespec due = time_spec(due_ns);

    if (child->sends)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static void pair_transfer(struct pair_child *child)
{
    child->began_ns = time_mono_ns();
    for (uint64_t i = 0; i < child->pieces; i++) {
        if (i >= UNDER_WAY)
            pair_piece_end(child, i - UNDER_WAY);
        pair_pace(child, i);
        pair_piece_begin(child, i);
    }
    for (uint64_t i = child->pieces > UNDER_WAY ? child->pieces - UNDER_WAY : 0; i < child->pieces;
         i++)
        pair_piece_end(child, i);
}

static void pair_prepare(struct pair_child *child, const struct fabric_message *asked)
{
    uint64_t piece = MIN(asked->bytes / PIECES, PIECE_MAX);

    child->rails = MIN(asked->flows, FABRIC_RAILS);
    child->pings = MIN(asked->pings, PINGS_MAX);
    child->sends = asked->type == FABRIC_SEND;
    child->rate = asked->rate;
    child->piece = MAX(piece, PIECE_MIN) & ~UINT64_C(4095);
    child->pieces = asked->bytes / SLACK_PARTS * (SLACK_PARTS - 1) / child->piece;
    child->pieces = MAX(child->pieces, 1);
    if (child->sends && !pair_text_get(child, asked->text))
        pair_fail(child, PAIR_REFUSED, 0, "an id of NCCL that cannot be read");
}

static void pair_run(struct pair_child *child)
{
    struct pair_record record = { .report = PAIR_ID };

    pair_gpus_open(child);
    if (!child->sends) {
        pair_check(child, child->nccl.id_make(&child->id), "ncclGetUniqueId");
        pair_text_put(child, record.text, sizeof(record.text));
        pair_put(child, &record);
    }
    if (child->sends)
        pair_fill(child);
    pair_comms_open(child);
    for (uint32_t r = 0; r < child->rails; r++)
        pair_ping(child, r);
    pair_transfer(child);
    if (!child->sends)
        pair_compare(child);
    record = (struct pair_record){ .report = PAIR_DONE };
    pair_put(child, &record);
    for (uint32_t r = 0; r < child->rails; r++) /* so that what was sent leaves this process */
        child->nccl.comm_destroy(child->rail[r].comm);
}

static void pair_child_run(const struct fabric_message *asked, bool shared, int fd, pid_t parent)
{
    static struct pair_child child;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    child.fd = fd;
    child.shared = shared;
    pair_prepare(&child, asked);
    pair_run(&child);
    _exit(0);
}

/* ---- in the worker ---- */

int nccl_pair_start(const struct fabric_message *asked, bool shared, struct nccl_transfer *ret,
                    struct err *err)
{
    pid_t parent = getpid(), pid;
    int pipe_fd[2];

    if (!asked->flows || asked->flows > FABRIC_RAILS)
        return err_set(err, -EINVAL, "NCCL has one flow for each rail");
    if (pipe2(pipe_fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    pid = fork();
    if (pid == 0)
        pair_child_run(asked, shared, pipe_fd[1], parent);
    close(pipe_fd[1]);
    if (pid < 0) {
        close(pipe_fd[0]);
        return err_set(err, -EAGAIN, "no process could be started for NCCL");
    }
    *ret = (struct nccl_transfer){ .pid = pid, .fd = pipe_fd[0], .rails = asked->flows };
    return 0;
}

/* 1: a report; 0: the child has ended; -ETIMEDOUT, -ECANCELED: somebody wants it to stop. */
static int pair_wait(const struct nccl_transfer *pair, int stop_fd, int64_t until_ns,
                     struct pair_record *ret)
{
    struct pollfd polls[2] = { { .fd = pair->fd, .events = POLLIN },
                               { .fd = stop_fd, .events = POLLIN } };
    int ready;

    do
        ready = poll(polls, COUNT(polls), time_poll_ms(until_ns, time_mono_ns()));
    while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return -ETIMEDOUT;
    if (polls[0].revents)
        return read(pair->fd, ret, sizeof(*ret)) == sizeof(*ret);
    return -ECANCELED;
}

int nccl_pair_id(struct nccl_transfer *pair, int stop_fd, int64_t until_ns, char *ret, size_t room,
                 struct err *err)
{
    struct pair_record record;
    int result = pair_wait(pair, stop_fd, until_ns, &record);

    if (result == -ECANCELED)
        return err_set(err, result, "the test was ended");
    if (result < 0)
        return err_set(err, -ECANCELED, "the GPU's driver or NCCL does not answer");
    if (result == 0)
        return err_set(err, -ECANCELED, "the process that uses NCCL ended by itself");
    record.text[sizeof(record.text) - 1] = '\0';
    if (record.report != PAIR_ID)
        return err_set(err, -ECANCELED, "%.150s", record.text);
    snprintf(ret, room, "%s", record.text);
    return 0;
}

static void pair_result(const struct pair_record *record, uint32_t rails,
                        struct fabric_message *results)
{
    struct fabric_flow *flow = &results->flow[record->rail < rails ? record->rail : 0];

    if (record->report == PAIR_PIECE) {
        flow->bytes = record->bytes;
        flow->ns = record->ns;
    } else if (record->report == PAIR_PING) {
        flow->latency_ns = record->ns;
    } else if (record->report == PAIR_ERROR) {
        for (uint32_t r = 0; r < rails; r++)
            results->flow[r].error = record->error;
    }
}

/* Until the child has ended, is late, or somebody stops it.  If it is late, what has come counts. */
static int pair_collect(struct nccl_transfer *pair, const struct fabric_message *asked, int stop_fd,
                        struct fabric_message *results, struct err *err)
{
    int64_t until_ns = time_mono_ns() + asked->wait_ns + NCCL_PAIR_START_NS;
    bool began = false, sends = asked->type == FABRIC_SEND;
    struct pair_record record;
    int result;

    while ((result = pair_wait(pair, stop_fd, until_ns, &record)) > 0) {
        record.text[sizeof(record.text) - 1] = '\0';
        if (record.report == PAIR_REFUSED)
            return err_set(err, -ECANCELED, "%.150s", record.text);
        pair_result(&record, pair->rails, results);
        pair->done = record.report == PAIR_DONE || record.report == PAIR_ERROR;
        if (pair->done)
            return 0;
        if (record.report == PAIR_PIECE && !began) {
            began = true;
            until_ns = time_mono_ns() + asked->time_ns + asked->time_ns / (SLACK_PARTS - 1) +
                       (sends ? END_NS : 0);
        }
    }
    /* Stopped: the other side has failed, and reports why.  A child that died has not looked at what arrived. */
    for (uint32_t r = 0; r < pair->rails && (!began || result != -ETIMEDOUT); r++)
        results->flow[r].error = result == 0 ? EPROTO : (uint32_t)-result;
    return 0;
}

int nccl_pair_measure(struct nccl_transfer *pair, const struct fabric_message *asked, int stop_fd,
                      struct fabric_message *results, struct err *err)
{
    int result;

    results->flows = pair->rails;
    for (uint32_t r = 0; r < pair->rails; r++)
        results->flow[r] = (struct fabric_flow){ .rail = r };
    result = pair_collect(pair, asked, stop_fd, results, err);
    for (uint32_t r = 0; r < pair->rails; r++) {
        struct fabric_flow *flow = &results->flow[r];

        if (flow->error || flow->ns)
            continue;
        flow->bytes = 1; /* not even a second piece came in this time */
        flow->ns = (uint64_t)asked->time_ns;
    }
    return result;
}

static bool pair_ended(pid_t pid, int64_t until_ns)
{
    const struct timespec nap = time_spec(5 * NS_PER_MS);

    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (time_mono_ns() >= until_ns)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

void nccl_pair_end(struct nccl_transfer *pair)
{
    if (pair->pid <= 0)
        return;
    if (!pair_ended(pair->pid, pair->done ? time_mono_ns() + END_NS : 0)) {
        kill(pair->pid, SIGKILL);
        pair_ended(pair->pid, time_mono_ns() + END_NS); /* in a driver it may never end */
    }
    fd_clean(&pair->fd);
    *pair = (struct nccl_transfer){ .fd = -1 };
}
